//! Every field of the settings affects the state hash, so that members detect any difference.

use super::tests::{name, rich, sealed, zone};
use super::*;
use crate::io::{AckOption, SerialPolicyOption, StaleOption, ZoneLimits};
use tsig::KeyAlgorithm;

type Mutation = (&'static str, fn(&mut Settings));

/// Names every field. Code with a new field does not compile until the field has a row in [`MUTATIONS`] or a reason
/// here.
fn assert_all_fields_are_known(settings: &Settings) {
    let Settings {
        cluster_id: _,
        epoch: _,
        feature_level: _,
        zones,
        retired,
        // Covered by `retired`.
        retired_order: _,
        keys,
        grants: _,
        policies: _,
        // Covered by `policies`.
        policies_bytes: _,
        members: _,
        incarnations: _,
        learners: _,
        tokens: _,
        learner_tokens: _,
        // Covered in `trust.rs` and `pins.rs`.
        trust: _,
        rotation: _,
        all_live: _,
        all_live_known: _,
        // The hash itself.
        hash: _,
    } = settings;
    for ZoneOptions { serial_policy: _, stale: _, ack: _, limits } in zones.values() {
        let ZoneLimits { ttl_max_s: _, rrset_records_max: _, records_max: _ } = limits;
    }
    for Retired { serial: _, index: _ } in retired.values() {}
    for KeyEntry { algorithm: _, secret, previous: _, generation: _ } in keys.values() {
        let Sealed { data_key_number: _, nonce: _, bytes: _ } = secret;
    }
}

fn options(settings: &mut Settings, change: fn(&mut ZoneOptions)) {
    let mut options = settings.zones[&zone()];
    change(&mut options);
    settings.put_zone(&zone(), options);
}

fn key(settings: &mut Settings, change: fn(&mut KeyEntry)) {
    let mut key = settings.keys[&name("key.")].clone();
    change(&mut key);
    settings.put_key(&name("key."), key);
}

fn retired(settings: &mut Settings, change: fn(&mut Retired)) {
    let gone = ZoneId { view: 0, apex: name("gone.") };
    let mut retired = settings.retired[&gone];
    change(&mut retired);
    settings.put_retired(&gone, retired);
}

/// The smallest change of each field.
const MUTATIONS: &[Mutation] = &[
    ("cluster id", |it| it.with_scalars(|it| it.cluster_id[15] ^= 1)),
    ("epoch", |it| it.with_scalars(|it| it.epoch += 1)),
    ("feature level", |it| it.with_scalars(|it| it.feature_level += 1)),
    ("zone", |it| it.put_zone(&ZoneId { view: 1, ..zone() }, ZoneOptions::default())),
    ("serial policy", |it| options(it, |options| options.serial_policy = SerialPolicyOption::Date)),
    ("stale", |it| options(it, |options| options.stale = StaleOption::Expire)),
    ("ack", |it| options(it, |options| options.ack = AckOption::Majority)),
    ("longest TTL", |it| options(it, |options| options.limits.ttl_max_s = 1)),
    ("records of a type", |it| options(it, |options| options.limits.rrset_records_max = 1)),
    ("records of a zone", |it| options(it, |options| options.limits.records_max = 1)),
    ("serial of a removed zone", |it| retired(it, |retired| retired.serial.0 += 1)),
    ("index of a removed zone", |it| retired(it, |retired| retired.index += 1)),
    ("algorithm", |it| key(it, |key| key.algorithm = KeyAlgorithm::HmacSha512)),
    ("secret", |it| key(it, |key| key.secret = sealed(77))),
    ("nonce of a secret", |it| key(it, |key| key.secret.nonce[11] ^= 1)),
    ("data key of a secret", |it| key(it, |key| key.secret.data_key_number += 1)),
    ("previous secret", |it| key(it, |key| key.previous = Some(sealed(78)))),
    ("no previous secret", |it| key(it, |key| key.previous = None)),
    ("generation", |it| key(it, |key| key.generation += 1)),
    ("grant", |it| it.put_grant((name("key."), Some(zone()), Right::Transfer))),
    ("grant for all zones", |it| it.put_grant((name("key."), None, Right::Update))),
    ("no grant", |it| it.remove_grant(&(name("key."), Some(zone()), Right::Update))),
    ("policy", |it| it.put_policy(Some(zone()), Arc::default())),
    ("policy of all zones", |it| it.put_policy(None, Arc::default())),
    ("address", |it| it.put_member(9, "y".to_owned())),
    ("member", |it| it.put_member(10, "x".to_owned())),
    ("incarnation", |it| it.put_incarnation(9, 7)),
    ("learner", |it| it.set_learner(9, false)),
    ("token", |it| it.put_token([3; 32], 100)),
    ("expiry of a token", |it| it.put_token([2; 32], 101)),
    ("learner token", |it| it.put_learner_token([2; 32])),
    ("trust", |it| it.with_trust(|trust| trust.data_key.current += 1)),
    ("rotation", |it| it.take_out_of_rotation(1)),
    ("all-live", |it| it.set_ack(&zone(), AckOption::Majority, 0)),
    ("all-live of another entry", |it| {
        it.set_ack(&zone(), AckOption::Majority, 0);
        it.set_ack(&zone(), AckOption::AllLive, 5);
    }),
    ("all-live is known", |it| it.apply_rotation(&SettingsChange::AllLiveKnown { index: 9 }, 9)),
];

fn items(settings: &Settings) -> Vec<Vec<u8>> {
    let mut items = Vec::new();
    settings.encode_items(|item| items.push(item.finish()));
    items
}

#[test]
fn a_change_of_any_field_changes_the_hash() {
    let settings = rich();
    assert_all_fields_are_known(&settings);
    let mut hashes = std::collections::BTreeMap::from([(settings.hash(), "none")]);
    for (what, mutate) in MUTATIONS {
        let mut mutated = settings.clone();
        mutate(&mut mutated);
        assert_ne!(items(&mutated), items(&settings), "{what}: nothing was changed");
        let other = hashes.insert(mutated.hash(), what);
        assert_eq!(other, None, "{what} leaves the hash as it is");
        // Settings that are restored from a checkpoint have the same hash.
        let mut restored = Settings::empty([0; 16]);
        for item in items(&mutated) {
            restored.restore(&mut zone::codec::Decoder::new(&item)).unwrap();
        }
        assert_eq!(restored.hash(), mutated.hash(), "{what}");
    }
}
