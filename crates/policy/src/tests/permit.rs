//! Whole updates: one denied record refuses all of it.

use super::{name, policy, with_evaluator};
use crate::update::{Step, ZoneRead};
use crate::{Decision, Denied, Permit};
use std::ops::ControlFlow;
use wire::name::NameRef;
use wire::number::Rtype;
use zone::set::RecordRef;

/// A zone whose records are all `x`.
struct Types(&'static [(&'static str, Rtype)]);

impl ZoneRead for Types {
    fn apex(&self) -> NameRef<'_> {
        NameRef::ROOT
    }

    fn is_presigned(&self) -> bool {
        false
    }

    fn record_count(&self) -> u64 {
        self.0.len() as u64
    }

    fn records_at(&self, owner: NameRef<'_>, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) {
        for (_, rtype) in self.0.iter().filter(|(there, _)| name(there).as_ref() == owner) {
            if visit(RecordRef { owner, rtype: *rtype, ttl: 1, rdata: b"x" }).is_break() {
                return;
            }
        }
    }
}

const HOST: &str = "h.example.";
const ZONE: Types = Types(&[
    (HOST, Rtype::A),
    (HOST, Rtype::TXT),
    (HOST, Rtype::RRSIG),
    (HOST, Rtype::PTR),
    ("example.", Rtype::SOA),
    ("example.", Rtype::NS),
    ("example.", Rtype::MX),
]);

fn add(owner: &str, rtype: Rtype) -> Step {
    Step::Add { owner: name(owner), rtype, ttl: 1, rdata: b"x"[..].into() }
}

fn permit(rules: &str, steps: &[Step]) -> Result<Permit, Denied> {
    with_evaluator(&policy(rules), "k.", |evaluator| evaluator.permit(steps, 100, Some(&ZONE)))
}

#[test]
fn one_denied_record_refuses_the_whole() {
    let rules = "grant k zonesub A;";
    assert!(permit(rules, &[add(HOST, Rtype::A), Step::DeleteRrset(name(HOST), Rtype::A)]).is_ok());
    let denied = Err(Denied::Record { owner: name(HOST), rtype: Rtype::TXT, decision: Decision::Unmatched });
    for step in [
        add(HOST, Rtype::TXT),
        Step::DeleteRrset(name(HOST), Rtype::TXT),
        Step::DeleteRecord(name(HOST), Rtype::TXT, b"x"[..].into()),
    ] {
        assert_eq!(permit(rules, &[add(HOST, Rtype::A), step]), denied);
    }
}

#[test]
fn a_key_without_grants_is_refused_before_prerequisites() {
    assert_eq!(permit("grant other zonesub;", &[]), Err(Denied::NothingGranted));
    assert!(permit("grant k name no.example. A;", &[]).is_ok());
}

#[test]
fn delete_all_needs_a_grant_of_each_existing_type() {
    let all = |owner: &str| [Step::DeleteName(name(owner))];
    let denied = |owner: &str, rtype| Err(Denied::Record { owner: name(owner), rtype, decision: Decision::Unmatched });
    assert_eq!(permit("grant k zonesub A PTR;", &all(HOST)), denied(HOST, Rtype::TXT));
    assert!(permit("grant k zonesub A TXT PTR;", &all(HOST)).is_ok());
    assert!(permit("grant k zonesub A;", &all("nothing.example.")).is_ok());
    // The default types exclude the existing SOA and NS, as in BIND.
    assert_eq!(permit("grant k zonesub;", &all("example.")), denied("example.", Rtype::NS));
    assert!(permit("grant k zonesub ANY;", &all("example.")).is_ok());
    // Without the zone, its types are unknown.
    let without = with_evaluator(&policy("grant k zonesub A;"), "k.", |evaluator| {
        evaluator.permit::<Types>(&all(HOST), 100, None)
    });
    assert!(without.is_ok());
}

#[test]
fn a_missing_ptr_may_be_deleted_as_in_named() {
    let delete = |owner: &str, rtype| [Step::DeleteRrset(name(owner), rtype)];
    assert!(permit("grant k zonesub A;", &delete("a.example.", Rtype::PTR)).is_ok());
    assert!(permit("grant k zonesub A;", &delete(HOST, Rtype::SRV)).is_ok());
    assert!(permit("grant k zonesub A;", &delete(HOST, Rtype::PTR)).is_err());
    assert!(permit("grant k zonesub A;", &delete("a.example.", Rtype::MX)).is_err());
    let record = |rdata: &[u8]| [Step::DeleteRecord(name(HOST), Rtype::PTR, rdata.into())];
    assert!(permit("grant k zonesub A;", &record(b"y")).is_ok());
    assert!(permit("grant k zonesub A;", &record(b"x")).is_err());
    assert!(permit("grant k zonesub PTR;", &record(b"x")).is_ok());
    assert!(permit("grant other zonesub;", &delete("a.example.", Rtype::PTR)).is_err());
}

#[test]
fn limits_of_a_key_bound_the_message() {
    let rules = "grant k zonesub;\nlimit k update-records 2 update-bytes 100;";
    assert!(permit(rules, &[add(HOST, Rtype::A), add(HOST, Rtype::A)]).is_ok());
    assert_eq!(
        permit(rules, &[add(HOST, Rtype::A), add(HOST, Rtype::A), add(HOST, Rtype::A)]),
        Err(Denied::UpdateRecords)
    );
    let long = with_evaluator(&policy(rules), "k.", |evaluator| evaluator.permit(&[], 101, Some(&ZONE)));
    assert_eq!(long, Err(Denied::UpdateBytes));
}
