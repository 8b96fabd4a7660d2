//! Decisions beyond single rules: protected records, grants of updates, limits.

use super::{name, policy, source, with_evaluator};
use crate::{Decision, KeyLimits, Policy, Requestor, RuleList, RuleRef, Rules, UpdateGrant};
use wire::number::Rtype;

fn decide(zone: &str, is_granted: bool, owner: &str, rtype: Rtype) -> Decision {
    let grant = if is_granted { UpdateGrant::BelowApex } else { UpdateGrant::None };
    let (apex, key, policy) = (name("example."), name("k."), policy(zone));
    let rules = Rules { apex: apex.as_ref(), zone: Some(&policy), all_zones: None, grant };
    let requestor = Requestor { key: key.as_ref(), source: source("::1"), is_connected: true };
    rules.evaluator(requestor).decide(name(owner).as_ref(), rtype)
}

#[test]
fn soa_and_ns_of_the_apex_must_be_named() {
    for (rules, is_granted, owner, rtype, is_allowed) in [
        ("", false, "www.example.", Rtype::A, false),
        ("", true, "www.example.", Rtype::A, true),
        ("", true, "sub.example.", Rtype::NS, true),
        ("", true, "example.", Rtype::NS, false),
        ("", true, "EXAMPLE.", Rtype::SOA, false),
        ("", true, "example.", Rtype::MX, true),
        ("grant k zonesub;", false, "example.", Rtype::MX, true),
        ("grant k zonesub;", false, "sub.example.", Rtype::NS, false),
        ("grant k zonesub;", false, "example.", Rtype::SOA, false),
        ("grant k zonesub ANY;", false, "example.", Rtype::SOA, true),
        ("grant k zonesub NS;", false, "example.", Rtype::NS, true),
        ("grant k zonesub NS;", false, "example.", Rtype::SOA, false),
        ("grant k zonesub NS;", true, "example.", Rtype::SOA, false),
        ("deny k name www.example.;", true, "www.example.", Rtype::A, false),
        ("deny k name www.example.;", true, "ftp.example.", Rtype::A, true),
    ] {
        let decision = decide(rules, is_granted, owner, rtype);
        assert_eq!(decision.is_granted(), is_allowed, "{rules} {owner} {rtype:?}: {decision:?}");
    }
    assert_eq!(decide("", true, "example.", Rtype::SOA), Decision::Protected);
}

#[test]
fn dnssec_types_are_never_granted() {
    for rtype in [Rtype::RRSIG, Rtype::NSEC, Rtype::NSEC3, Rtype::NSEC3PARAM, Rtype::DNSKEY] {
        assert_eq!(decide("grant k zonesub ANY DNSKEY RRSIG;", true, "example.", rtype), Decision::Never);
    }
    assert!(decide("grant k zonesub ANY;", false, "a.example.", Rtype::DS).is_granted());
}

#[test]
fn a_decision_names_its_rule() {
    let (apex, key) = (name("example."), name("k."));
    let zone = policy("deny other zonesub;\ngrant * name a.example. TXT;\ndeny k name a.example. A;");
    let all_zones = policy("grant k zonesub A;");
    let rules =
        Rules { apex: apex.as_ref(), zone: Some(&zone), all_zones: Some(&all_zones), grant: UpdateGrant::BelowApex };
    let evaluator = rules.evaluator(Requestor { key: key.as_ref(), source: source("192.0.2.1"), is_connected: false });
    let decide = |owner: &str, rtype| evaluator.decide(name(owner).as_ref(), rtype);
    let by = |list, number| RuleRef { list, number };
    assert_eq!(decide("a.example.", Rtype::TXT), Decision::Granted { by: by(RuleList::Zone, 2), records_max: None });
    assert_eq!(decide("a.example.", Rtype::A), Decision::Denied { by: by(RuleList::Zone, 3) });
    assert_eq!(decide("b.example.", Rtype::A), Decision::Granted { by: by(RuleList::AllZones, 1), records_max: None });
    assert_eq!(decide("b.example.", Rtype::MX), Decision::Granted { by: by(RuleList::Grants, 1), records_max: None });
    let shown = evaluator.rule(by(RuleList::Zone, 2)).map(ToString::to_string);
    assert_eq!(shown.as_deref(), Some("grant \"*.\" name \"a.example.\" TXT;"));
}

#[test]
fn a_key_without_a_possible_grant_is_recognised() {
    let rules = policy("deny k zonesub;\ngrant host.example. self .;\ngrant * tcp-self . PTR;");
    assert!(!with_evaluator(&rules, "k.", |evaluator| evaluator.may_grant()));
    assert!(with_evaluator(&rules, "host.example.", |evaluator| evaluator.may_grant()));
    assert!(!with_evaluator(&Policy::default(), "k.", |evaluator| evaluator.may_grant()));
}

#[test]
fn each_number_comes_from_the_first_limit_that_sets_it() {
    let rules =
        policy("limit k name-records 5;\nlimit * update-records 10 name-records 7;\nlimit other zone-records 1;");
    let limits = with_evaluator(&rules, "K.", |evaluator| evaluator.limits());
    let KeyLimits { update_records_max, update_bytes_max, name_records_max, zone_records_max, .. } = limits;
    assert_eq!((update_records_max, name_records_max), (Some(10), Some(5)));
    assert_eq!((update_bytes_max, zone_records_max), (None, None));
}
