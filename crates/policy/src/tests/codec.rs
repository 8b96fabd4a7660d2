//! The encoding and the text of a policy, and its limits.

use super::{name, policy};
use crate::limits::{KEY_RULES_MAX, POLICY_RULES_MAX, RULE_TYPES_MAX};
use crate::{Effect, Identity, Policy, PolicyError, Rule, RuleType, Scope};
use proptest::prelude::*;
use wire::number::Rtype;
use zone::codec::{DecodeError, Decoder, Encoder};

fn bytes_of(policy: &Policy) -> Vec<u8> {
    let mut out = Encoder::new();
    policy.encode(&mut out);
    out.finish()
}

fn decoded(bytes: &[u8]) -> Result<Policy, DecodeError> {
    let mut from = Decoder::new(bytes);
    let policy = Policy::decode(&mut from)?;
    from.finish().map(|()| policy)
}

/// One of each kind.
const ALL: &str = "\
grant k name a.example. A(4) AAAA;
deny * subdomain b.example.;
grant *.hosts.example. self . ANY;
grant k selfsub . TYPE65280(1);
grant k selfwild .;
grant k zonesub;
grant k wildcard *.c.example. TXT(8);
grant *.in-addr.arpa. tcp-self . PTR(1);
deny * 6to4-self .;
grant local:/run/auth.sock external * A(2) TXT;
limit k update-records 1 update-bytes 2 name-records 3 zone-records 4;
limit *.example. zone-records 4294967295;
limit other.;
";

#[test]
fn a_policy_survives_encoding_and_printing() {
    let all = policy(ALL);
    assert_eq!((all.rules().len(), all.limits().len()), (10, 3));
    let bytes = bytes_of(&all);
    assert_eq!(decoded(&bytes), Ok(all.clone()));
    assert_eq!(policy(&all.to_string()), all);
    for cut in 0..bytes.len() {
        assert!(decoded(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

proptest! {
    #[test]
    fn altered_bytes_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = bytes_of(&policy(ALL));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(policy) = decoded(&bytes) {
            prop_assert_eq!(bytes_of(&policy), bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u8..4) {
        let _ = decoded(&bytes);
        let _ = decoded(&[&[0, 0, 0, count], &bytes[..]].concat());
    }
}

fn rule(key: &str) -> Rule {
    Rule {
        effect: Effect::Grant,
        identity: Identity::of_name(name(key).as_ref()),
        scope: Scope::SelfName,
        types: Vec::new(),
    }
}

#[test]
fn a_policy_over_a_limit_is_refused() {
    let many = |count: usize| (0..count).map(|number| rule(&format!("k{number}."))).collect::<Vec<_>>();
    assert!(Policy::new(many(POLICY_RULES_MAX), Vec::new()).is_ok());
    assert_eq!(Policy::new(many(POLICY_RULES_MAX + 1), Vec::new()).err(), Some(PolicyError::Rules));
    let mut of_one = vec![rule("k."); KEY_RULES_MAX - 1];
    of_one.push(rule("*."));
    assert!(Policy::new(of_one.clone(), Vec::new()).is_ok());
    of_one.push(rule("*.example."));
    assert_eq!(Policy::new(of_one, Vec::new()).err(), Some(PolicyError::KeyRules));
    let types = vec![RuleType { rtype: Rtype::A, records_max: None }; RULE_TYPES_MAX + 1];
    assert_eq!(Policy::new(vec![Rule { types, ..rule("k.") }], Vec::new()).err(), Some(PolicyError::Types));
    let long = format!("{}.", ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join("."));
    let scope = Scope::Name(name(&long));
    let rules = (0..9_000).map(|number| Rule { scope: scope.clone(), ..rule(&format!("k{number}.")) }).collect();
    assert_eq!(Policy::new(rules, Vec::new()).err(), Some(PolicyError::Bytes));
}
