//! A second implementation of the rules, on text and without an index, to compare decisions with.

use super::{name, policy, source};
use crate::{Decision, Policy, Requestor, RuleList, RuleRef, Rules, UpdateGrant};
use core::fmt::Write;
use proptest::prelude::*;
use wire::number::Rtype;

/// A rule as words.
#[derive(Clone, Debug)]
struct Line {
    is_grant: bool,
    identity: &'static str,
    kind: &'static str,
    name: &'static str,
    types: Vec<(&'static str, u16)>,
}

/// A requestor, and the record that it wants to write.
#[derive(Clone, Debug)]
struct Request {
    key: &'static str,
    is_connected: bool,
    owner: &'static str,
    rtype: &'static str,
    is_granted: bool,
}

/// The client's address, its two names, and the zone: the root, so that all names are in it.
const SOURCE: &str = "10.2.0.1";
const REVERSE: &str = "1.0.2.10.in-addr.arpa";
const PREFIX: &str = "1.0.0.0.2.0.a.0.2.0.0.2.ip6.arpa";

const KEYS: [&str; 4] = ["k", "host.a.test", "a.test", "b.test"];
const NAMES: [&str; 8] =
    ["a.test", "host.a.test", "x.host.a.test", "y.x.host.a.test", "b.test", "test", REVERSE, PREFIX];
const IDENTITIES: [&str; 9] =
    ["k", "*", "*.test", "*.a.test", "host.a.test", "b.test", REVERSE, "*.in-addr.arpa", PREFIX];
const KINDS: [&str; 9] =
    ["name", "subdomain", "zonesub", "wildcard", "self", "selfsub", "selfwild", "tcp-self", "6to4-self"];
const TYPES: [&str; 7] = ["A", "TXT", "SOA", "NS", "PTR", "RRSIG", "DNSKEY"];

impl Line {
    fn text(&self) -> String {
        let effect = if self.is_grant { "grant" } else { "deny" };
        let name = match self.kind {
            "zonesub" => String::new(),
            "name" | "subdomain" => self.name.to_owned(),
            "wildcard" => format!("*.{}", self.name),
            _ => ".".to_owned(),
        };
        let mut text = format!("{effect} {} {} {name}", self.identity, self.kind);
        for (rtype, max) in &self.types {
            let _ = if *max == 0 { write!(text, " {rtype}") } else { write!(text, " {rtype}({max})") };
        }
        text + ";"
    }

    /// Returns the maximum if the rule applies.
    fn decides(&self, request: &Request) -> Option<u16> {
        let below = |name: &str, above: &str| above.is_empty() || name.ends_with(&format!(".{above}"));
        let is = |identity: &str, name: &str| match identity.strip_prefix('*') {
            Some(rest) => below(name, rest.trim_start_matches('.')),
            None => identity == name,
        };
        let (owner, key) = (request.owner, request.key);
        let of_key = is(self.identity, key);
        let fits = match self.kind {
            "name" => of_key && owner == self.name,
            "subdomain" => of_key && (owner == self.name || below(owner, self.name)),
            "zonesub" => of_key,
            "wildcard" => of_key && below(owner, self.name),
            "self" => of_key && owner == key,
            "selfsub" => of_key && (owner == key || below(owner, key)),
            "selfwild" => of_key && below(owner, key),
            "tcp-self" => request.is_connected && is(self.identity, REVERSE) && owner == REVERSE,
            _ => request.is_connected && is(self.identity, PREFIX) && owner == PREFIX,
        };
        if !fits {
            return None;
        }
        if self.types.is_empty() {
            return (!["SOA", "NS", "RRSIG"].contains(&request.rtype)).then_some(0);
        }
        let find = |wanted: &str| self.types.iter().find(|(rtype, _)| *rtype == wanted).map(|(_, max)| *max);
        find(request.rtype).or_else(|| find("ANY"))
    }
}

/// The decision of the first line that applies.
fn expected(lists: [(RuleList, &[Line]); 2], request: &Request) -> Decision {
    if ["RRSIG", "DNSKEY"].contains(&request.rtype) {
        return Decision::Never;
    }
    for (list, lines) in lists {
        for (number, line) in (1..).zip(lines) {
            let by = RuleRef { list, number };
            match line.decides(request) {
                Some(max) if line.is_grant => {
                    return Decision::Granted { by, records_max: core::num::NonZeroU16::new(max) };
                }
                Some(_) => return Decision::Denied { by },
                None => {}
            }
        }
    }
    // The apex is the root, which is no owner here: nothing is protected.
    if request.is_granted {
        Decision::Granted { by: RuleRef { list: RuleList::Grants, number: 1 }, records_max: None }
    } else {
        Decision::Unmatched
    }
}

fn a_line() -> impl Strategy<Value = Line> {
    let rtype = prop::sample::select([&TYPES[..], &["ANY"][..]].concat());
    let types = prop::collection::vec((rtype, 0..3u16), 0..4);
    let words =
        (prop::sample::select(&IDENTITIES[..]), prop::sample::select(&KINDS[..]), prop::sample::select(&NAMES[..]));
    (any::<bool>(), words, types).prop_map(|(is_grant, (identity, kind, name), types)| Line {
        is_grant,
        identity,
        kind,
        name,
        types,
    })
}

fn any_request() -> impl Strategy<Value = Request> {
    let words = (prop::sample::select(&KEYS[..]), prop::sample::select(&NAMES[..]), prop::sample::select(&TYPES[..]));
    (words, any::<bool>(), any::<bool>()).prop_map(|((key, owner, rtype), is_connected, is_granted)| Request {
        key,
        is_connected,
        owner,
        rtype,
        is_granted,
    })
}

fn policy_of(lines: &[Line]) -> Policy {
    policy(&lines.iter().map(Line::text).collect::<Vec<_>>().join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn the_first_line_that_matches_decides(
        zone in prop::collection::vec(a_line(), 0..12),
        all_zones in prop::collection::vec(a_line(), 0..4),
        requests in prop::collection::vec(any_request(), 20),
    ) {
        let policies = [policy_of(&zone), policy_of(&all_zones)];
        let apex = name(".");
        for request in requests {
            let key = name(&request.key.to_uppercase());
            let rules = Rules {
                apex: apex.as_ref(),
                zone: Some(&policies[0]),
                all_zones: Some(&policies[1]),
                grant: if request.is_granted { UpdateGrant::BelowApex } else { UpdateGrant::None },
            };
            let requestor =
                Requestor { key: key.as_ref(), source: source(SOURCE), is_connected: request.is_connected };
            let evaluator = rules.evaluator(requestor);
            let rtype = (0..=u16::MAX).map(Rtype).find(|rtype| rtype.mnemonic() == Some(request.rtype)).unwrap();
            let decision = evaluator.decide(name(request.owner).as_ref(), rtype);
            let expected = expected([(RuleList::Zone, &zone), (RuleList::AllZones, &all_zones)], &request);
            prop_assert_eq!(decision, expected, "{:?}", request);
            // `may_grant` refuses no key that a rule grants something.
            prop_assert!(evaluator.may_grant() || !decision.is_granted());
        }
    }
}
