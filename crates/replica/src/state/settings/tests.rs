//! Checks, changes and checkpoints of the settings.

use super::*;
use crate::entry::TrustChange;
use crate::io::{AckOption, AdminError, CredentialProgress};
use crate::limits::RETIRED_ZONES_MAX;
use policy::UpdateGrant;
use tsig::KeyAlgorithm;
use wire::number::Serial;
use zone::codec::Decoder;

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(super) fn zone() -> ZoneId {
    ZoneId { view: 0, apex: name("a.test.") }
}

fn key_add(secret: u8) -> SettingsChange {
    SettingsChange::KeyAdd {
        name: name("key."),
        algorithm: KeyAlgorithm::HmacSha256,
        secret: Sealed { data_key_number: 1, nonce: [0; 12], bytes: vec![secret; 20] },
    }
}

fn rules(text: &str) -> Arc<Policy> {
    Arc::new(policy::text::parse_policy(text).unwrap())
}

fn policy_set(zone: Option<ZoneId>, text: &str) -> SettingsChange {
    SettingsChange::PolicySet { zone, policy: rules(text) }
}

pub(super) fn sealed(secret: u8) -> Sealed {
    Sealed { data_key_number: 1, nonce: [0; 12], bytes: vec![secret; 20] }
}

pub(super) fn ca_add(number: u32) -> TrustChange {
    let key = Sealed { data_key_number: 1, nonce: [0; 12], bytes: vec![number as u8; 20] };
    TrustChange::CaAdd { number, certificate: vec![number as u8; 9], key }
}

pub(super) fn reports(id: NodeId, accepts: u32, issued_by: u32) -> TrustChange {
    TrustChange::Credentials {
        id,
        progress: CredentialProgress { accepts, issued_by, renewal: 0, expires_s: 77, data_key: 1 },
    }
}

/// Settings with a value in every field.
pub(super) fn rich() -> Settings {
    let mut settings = Settings::genesis([1; 16], &[Member { id: 1, address: "[::1]:7001".to_owned() }], 1);
    settings.add_zone(&zone(), ZoneOptions { ack: AckOption::AllLive, ..ZoneOptions::default() }, 4);
    settings.apply(&SettingsChange::RotationIn { ids: vec![1] }, 5, 0);
    settings.apply(&SettingsChange::AllLiveKnown { index: 4 }, 5, 0);
    settings.apply(&key_add(1), 5, 0);
    let grant = SettingsChange::Grant { key: name("key."), zone: Some(zone()), right: Right::Update };
    settings.apply(&grant, 6, 0);
    settings.apply(&SettingsChange::TokenAdd { digest: [2; 32], expires_wall_ms: 100 }, 7, 0);
    settings.apply(&SettingsChange::LearnerTokenAdd { digest: [4; 32], expires_wall_ms: 100 }, 7, 0);
    settings.apply(&SettingsChange::MemberAdd { id: 9, address: "x".to_owned(), token: None }, 7, 0);
    settings.apply(&SettingsChange::MemberRole { id: 9, votes: false }, 7, 0);
    settings.retire(&ZoneId { view: 0, apex: name("gone.") }, Serial(9), 8);
    settings.apply(&policy_set(Some(zone()), "grant other. zonesub A(4);\nlimit * name-records 3;"), 9, 0);
    settings.apply(&policy_set(None, "deny * zonesub;"), 10, 0);
    settings.apply(&SettingsChange::KeyRoll { name: name("key."), secret: sealed(9) }, 11, 0);
    let progress = CredentialProgress { accepts: 1, issued_by: 1, renewal: 2, expires_s: 3, data_key: 4 };
    for change in [
        TrustChange::CaAdd { number: 1, certificate: vec![0x30, 0], key: sealed(8) },
        TrustChange::Renew { number: 2 },
        TrustChange::Credentials { id: 9, progress },
    ] {
        settings.apply(&SettingsChange::Trust(change), 12, 0);
    }
    settings
}

#[test]
fn checkpoint_items_restore_the_same_hash() {
    let settings = rich();
    let mut copy = Settings::empty([0; 16]);
    settings.encode_items(|item| {
        let bytes = item.finish();
        let mut from = Decoder::new(&bytes);
        copy.restore(&mut from).unwrap();
        from.finish().unwrap();
    });
    assert_eq!(copy.hash(), settings.hash());
    assert_eq!(copy.members(), settings.members());
    assert_eq!(copy.epoch(), settings.epoch());
    assert_eq!((&copy.learners, &copy.learner_tokens), (&settings.learners, &settings.learner_tokens));
    assert!(copy.is_learner(9) && !copy.is_learner(1));
    assert_eq!(copy.policies(), settings.policies());
    assert_eq!(copy.policies_bytes, settings.policies_bytes);
    assert_eq!(copy.keys(), settings.keys());
    assert_eq!((copy.trust(), copy.trust().credentials().len()), (settings.trust(), 1));
    assert!(copy.is_all_live(&zone()) && copy.all_live_unknown().is_none());
    assert_eq!(copy.rotation(), settings.rotation());
}

#[test]
fn a_zone_is_all_live_when_every_member_knows_it() {
    let all_live = ZoneOptions { ack: AckOption::AllLive, ..ZoneOptions::default() };
    let mut settings = Settings::genesis([1; 16], &[Member { id: 1, address: "x".to_owned() }], 2);
    let set = |options| SettingsChange::ZoneOptions { zone: zone(), options };
    settings.add_zone(&zone(), ZoneOptions::default(), 4);
    let before = settings.hash();
    settings.apply(&set(all_live), 5, 0);
    assert!(settings.has_all_live() && !settings.is_all_live(&zone()));
    assert_eq!(settings.all_live_unknown(), Some(5));
    settings.apply(&SettingsChange::AllLiveKnown { index: 4 }, 6, 0);
    assert!(!settings.is_all_live(&zone()));
    settings.apply(&SettingsChange::AllLiveKnown { index: 5 }, 7, 0);
    assert!(settings.is_all_live(&zone()) && settings.all_live_unknown().is_none());
    // Another option of the zone does not affect this one.
    settings.apply(&set(ZoneOptions { stale: crate::io::StaleOption::Expire, ..all_live }), 8, 0);
    assert!(settings.is_all_live(&zone()));
    // A non-member is not added, and a member that is added twice keeps its first index.
    settings.apply(&SettingsChange::RotationIn { ids: vec![1, 2] }, 9, 0);
    settings.apply(&SettingsChange::RotationIn { ids: vec![1] }, 10, 0);
    assert_eq!(settings.rotation().iter().collect::<Vec<_>>(), [(&1, &9)]);
    settings.apply(&SettingsChange::RotationOut { ids: vec![1, 3] }, 11, 0);
    settings.apply(&set(ZoneOptions::default()), 12, 0);
    assert!(!settings.has_all_live() && settings.rotation().is_empty());
    assert_ne!(settings.hash(), before, "the epoch and the known index have changed");
    settings.apply(&set(all_live), 13, 0);
    assert_eq!(settings.all_live_unknown(), Some(13));
    settings.apply(&SettingsChange::ZoneRemove { zone: zone() }, 14, 0);
    assert!(!settings.has_all_live());
    settings.apply(&SettingsChange::MemberAdd { id: 9, address: "y".to_owned(), token: None }, 15, 0);
    settings.apply(&SettingsChange::RotationIn { ids: vec![1, 9] }, 16, 0);
    settings.apply(&SettingsChange::MemberRemove { id: 9 }, 17, 0);
    assert_eq!(settings.rotation().keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn a_policy_goes_with_its_zone_and_an_empty_one_leaves_nothing() {
    let mut settings = rich();
    assert_eq!(settings.policies().len(), 2);
    settings.apply(&SettingsChange::ZoneRemove { zone: zone() }, 12, 0);
    assert_eq!(settings.policies().keys().collect::<Vec<_>>(), [&None]);
    // A policy for a missing zone has no effect.
    settings.apply(&policy_set(Some(zone()), "grant other. zonesub;"), 13, 0);
    assert_eq!(settings.policies().len(), 1);
    assert_eq!(settings.check(&policy_set(Some(zone()), ""), 0), Err(AdminError::ZoneUnknown));
    let with = settings.clone();
    settings.apply(&policy_set(None, ""), 14, 0);
    assert!(settings.policies().is_empty());
    assert_eq!(settings.policies_bytes, 0);
    settings.apply(&policy_set(None, "deny * zonesub;"), 15, 0);
    // They are equal except for their epochs.
    assert_eq!(settings.hash().wrapping_sub(settings.scalars_hash()), with.hash().wrapping_sub(with.scalars_hash()));
    assert_eq!(settings.check(&policy_set(None, "deny * zonesub;"), 0), Ok(false));
    assert_eq!(settings.check(&policy_set(None, "deny * zonesub A;"), 0), Ok(true));
}

#[test]
fn policies_have_one_bound_together() {
    let mut settings = rich();
    let long = format!("{}.", ["a".repeat(63), "b".repeat(63), "c".repeat(63)].join("."));
    let large: String = (0..4_600).map(|number| format!("grant k{number}. name {long};\n")).collect();
    let large = rules(&large);
    let mut checked = Vec::new();
    for number in 0..80u16 {
        let zone = ZoneId { view: number, apex: name("b.test.") };
        settings.add_zone(&zone, ZoneOptions::default(), 1);
        let set = SettingsChange::PolicySet { zone: Some(zone), policy: large.clone() };
        checked.push(settings.check(&set, 0));
        if checked.last() == Some(&Ok(true)) {
            settings.apply(&set, 20, 0);
        }
    }
    assert!(settings.policies_bytes <= policy::limits::POLICIES_BYTES_MAX);
    assert!(checked.len() > 40 && checked.contains(&Err(AdminError::TooLarge)), "{checked:?}");
    // A policy that replaces another counts once.
    let (last, _) = settings.policies().last_key_value().unwrap();
    let set = SettingsChange::PolicySet { zone: last.clone(), policy: rules("grant k. zonesub;") };
    assert_eq!(settings.check(&set, 0), Ok(true));
}

#[test]
fn a_key_has_two_secrets_until_the_older_is_retired() {
    let mut settings = rich();
    let (roll, retire) = (
        |secret| SettingsChange::KeyRoll { name: name("key."), secret: sealed(secret) },
        SettingsChange::KeyRetire { name: name("key.") },
    );
    let secrets = |settings: &Settings| {
        let key = &settings.keys()[&name("key.")];
        (key.secret.bytes[0], key.previous.as_ref().map(|previous| previous.bytes[0]), key.generation)
    };
    // The generation stays: earlier updates are still repeats.
    assert_eq!(secrets(&settings), (9, Some(1), 5));
    assert_eq!(settings.check(&roll(3), 0), Err(AdminError::KeyRolling));
    assert_eq!(settings.check(&retire, 0), Ok(true));
    settings.apply(&retire, 12, 0);
    assert_eq!(secrets(&settings), (9, None, 5));
    assert_eq!(settings.check(&retire, 0), Ok(false));
    settings.apply(&roll(3), 13, 0);
    assert_eq!(secrets(&settings), (3, Some(9), 5));
    let unknown = SettingsChange::KeyRetire { name: name("no.") };
    assert_eq!(settings.check(&unknown, 0), Err(AdminError::KeyUnknown));
    // A removed key cannot be rolled, and the change has no effect.
    settings.apply(&SettingsChange::KeyRemove { name: name("key.") }, 14, 0);
    settings.apply(&roll(4), 15, 0);
    assert!(settings.keys().is_empty());
}

#[test]
fn grant_scope_depends_on_the_feature_level() {
    let mut settings = rich();
    settings.apply(&policy_set(None, ""), 12, 0);
    let grant = |settings: &Settings| settings.rules(&name("key."), &zone()).grant;
    assert_eq!(grant(&settings), UpdateGrant::Whole);
    settings.apply(&SettingsChange::FeatureLevel { level: 2 }, 13, 0);
    assert_eq!(grant(&settings), UpdateGrant::BelowApex);
    let apex = SettingsChange::Grant { key: name("key."), zone: None, right: Right::UpdateApex };
    settings.apply(&apex, 14, 0);
    assert_eq!(grant(&settings), UpdateGrant::Whole);
    assert_eq!(settings.rules(&name("no."), &zone()).grant, UpdateGrant::None);
}

#[test]
fn grants_go_with_their_key_and_with_their_zone() {
    let mut settings = rich();
    assert!(settings.is_granted(&name("KEY."), &zone(), Right::Update));
    assert!(!settings.is_granted(&name("key."), &zone(), Right::Transfer));
    let mut other = settings.clone();
    settings.apply(&SettingsChange::KeyRemove { name: name("key.") }, 8, 0);
    assert!(settings.grants().is_empty());
    other.apply(&SettingsChange::ZoneRemove { zone: zone() }, 8, 0);
    assert!(other.grants().is_empty());
    // A key with the same name is another key.
    settings.apply(&key_add(1), 20, 0);
    assert!(!settings.is_granted(&name("key."), &zone(), Right::Update));
    assert_eq!(settings.keys()[&name("key.")].generation, 20);
}

#[test]
fn the_zones_that_were_removed_first_are_forgotten_first() {
    let mut settings = Settings::empty([1; 16]);
    let zone = |number: usize| ZoneId { view: 0, apex: name(&format!("z{number:06}.")) };
    // Zones that are removed later have earlier names.
    let numbers: Vec<usize> = (0..RETIRED_ZONES_MAX + 2).rev().collect();
    for (index, &number) in numbers.iter().enumerate() {
        settings.retire(&zone(number), Serial(7), index as u64);
    }
    assert_eq!(settings.retired_serial(&zone(numbers[1])), None);
    assert_eq!(settings.retired_serial(&zone(numbers[2])), Some(Serial(7)));
    assert_eq!(settings.retired_serial(&zone(0)), Some(Serial(7)));
    // After another removal it is the newest, and counts once.
    settings.retire(&zone(numbers[2]), Serial(9), 1_000_000);
    settings.retire(&zone(numbers[0]), Serial(9), 1_000_001);
    assert_eq!(settings.retired_serial(&zone(numbers[2])), Some(Serial(9)));
    assert_eq!(settings.retired_serial(&zone(numbers[3])), None);
    assert_eq!((settings.retired.len(), settings.retired_order.len()), (RETIRED_ZONES_MAX, RETIRED_ZONES_MAX));
    for &number in &numbers {
        settings.forget_retired(&zone(number));
    }
    assert_eq!(settings.hash(), Settings::empty([1; 16]).hash());
}

#[test]
fn changes_are_checked_before_they_are_proposed() {
    let settings = rich();
    assert_eq!(settings.check(&key_add(9), 0), Ok(false));
    assert_eq!(settings.check(&key_add(2), 0), Err(AdminError::KeyExists));
    let join = |id, token| SettingsChange::MemberAdd { id, address: String::new(), token };
    assert_eq!(settings.check(&join(1, None), 0), Err(AdminError::NodeExists));
    assert_eq!(settings.check(&join(2, Some([2; 32])), 100), Ok(true));
    assert_eq!(settings.check(&join(2, Some([2; 32])), 101), Err(AdminError::TokenInvalid));
    assert_eq!(settings.check(&join(2, Some([3; 32])), 0), Err(AdminError::TokenInvalid));
}

#[test]
fn a_token_is_used_once_and_an_id_never_comes_back() {
    let mut settings = rich();
    assert_eq!(settings.next_id(Some(1)), 1 << 32 | 1);
    assert_eq!(settings.next_id(None), 10);
    let join = SettingsChange::MemberAdd { id: 2, address: "x".to_owned(), token: Some([2; 32]) };
    settings.apply(&join, 8, 0);
    settings.apply(&SettingsChange::MemberRemove { id: 2 }, 9, 0);
    assert_eq!(settings.next_id(Some(2)), 1 << 32 | 2);
    let again = SettingsChange::MemberAdd { id: 3, address: "x".to_owned(), token: Some([2; 32]) };
    assert_eq!(settings.check(&again, 0), Err(AdminError::TokenInvalid));
}

#[test]
fn the_role_of_a_member_comes_from_its_token_and_ends_with_its_membership() {
    let mut settings = rich();
    let empty = settings.hash();
    let join = SettingsChange::MemberAdd { id: 2, address: "x".to_owned(), token: Some([4; 32]) };
    assert_eq!(settings.check(&join, 0), Ok(true));
    settings.apply(&join, 8, 0);
    assert!(settings.is_learner(2));
    let role = |votes| SettingsChange::MemberRole { id: 2, votes };
    assert_eq!((settings.check(&role(false), 0), settings.check(&role(true), 0)), (Ok(false), Ok(true)));
    let replace = SettingsChange::MemberReplace { gone: 1, new: 2 };
    assert_eq!(settings.check(&replace, 0), Ok(true));
    settings.apply(&replace, 9, 0);
    assert!(!settings.is_member(1) && settings.is_member(2) && !settings.is_learner(2));
    assert_eq!(settings.check(&SettingsChange::MemberReplace { gone: 9, new: 2 }, 0), Err(AdminError::NodeVotes));
    assert_eq!(settings.check(&replace, 0), Err(AdminError::NodeUnknown));
    // Only the node number of a removed member remains, as the hash shows.
    settings.apply(&role(false), 10, 0);
    settings.apply(&SettingsChange::MemberRemove { id: 2 }, 11, 0);
    assert!(!settings.is_learner(2) && settings.hash() != empty);
    let members: Vec<_> = settings.members().into_iter().map(|member| member.id).collect();
    assert_eq!(members, [9]);
}
