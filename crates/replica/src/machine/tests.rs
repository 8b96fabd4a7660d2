//! The state machine alone: entries that fit are applied, others are counted, and a checkpoint restores the state.

use super::*;
use crate::checkpoint::CheckpointItems;
use crate::checkpoint::limits::ITEM_BYTES_MAX;
use crate::entry::{ImportBegin, ImportChunk, ImportCommit, SettingsEntry, StageId, ZoneChange};
use crate::io::ZoneOptions;
use crate::{DataKey, ReplicaConfig, Sealed};
use tsig::KeyAlgorithm;
use wire::number::Rtype;
use zone::set::StoreConfig;
use zone::{Changeset, Record, ZoneId};

fn config() -> ReplicaConfig {
    let mut config = ReplicaConfig::new([1; 16], 1, 1, 1, DataKey::new(1, &[0; 32]));
    config.store = StoreConfig { reserve_bytes: 64 << 20, huge_pages: false };
    config
}

pub(super) fn machine() -> Machine {
    empty_machine(&config(), Settings::empty([1; 16])).unwrap()
}

pub(super) fn zone(apex: &str) -> ZoneId {
    ZoneId { view: 0, apex: apex.parse().unwrap() }
}

fn soa(apex: &str, serial: u32) -> Record {
    let mut rdata = b"\x02ns\x01a\0\x04root\x01a\0".to_vec();
    for number in [serial, 1, 2, 3, 4] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    Record { owner: apex.parse().unwrap(), rtype: Rtype::SOA, ttl: 60, rdata: rdata.into() }
}

pub(super) fn text(owner: &str, bytes: u8, count: usize) -> Vec<Record> {
    let owner: wire::name::Name = owner.parse().unwrap();
    let record = |number: usize| {
        let mut rdata = vec![bytes; usize::from(bytes) + 1];
        rdata[1..3].copy_from_slice(&(number as u16).to_be_bytes());
        Record { owner: owner.clone(), rtype: Rtype::TXT, ttl: 60, rdata: rdata.into() }
    };
    (0..count).map(record).collect()
}

fn apply(machine: &mut Machine, body: Body) -> Applied {
    let index = machine.applied.0 + 1;
    let entry = Entry { group: 0, time_ms: index, body };
    machine.apply(index, 1, &entry, None)
}

/// Stages these records, in two chunks.
pub(super) fn stage(machine: &mut Machine, number: u8, apex: &str, records: &[Record]) -> ImportCommit {
    stage_for(machine, number, apex, records, ImportPurpose::Create { options: ZoneOptions::default() })
}

fn stage_for(
    machine: &mut Machine,
    number: u8,
    apex: &str,
    records: &[Record],
    purpose: ImportPurpose,
) -> ImportCommit {
    let stage = StageId([number; 16]);
    let begin = ImportBegin { stage, zone: zone(apex), purpose, chunk_count: 2 };
    assert_eq!(apply(machine, Body::ImportBegin(begin)), Applied::Other);
    let mut digest = 0;
    for (chunk_index, records) in records.chunks(records.len().div_ceil(2)).enumerate() {
        let records: zone::RecordList = records.iter().collect();
        digest = chunk_digest(digest, &records);
        let chunk = ImportChunk { stage, chunk_index: chunk_index as u32, records };
        assert_eq!(apply(machine, Body::ImportChunk(chunk)), Applied::Other);
    }
    ImportCommit { stage, digest, policy_epoch: machine.settings.epoch() }
}

pub(super) fn add_zone(machine: &mut Machine, apex: &str, more: &[Record]) {
    let records = [&[soa(apex, 1), text(apex, 9, 1).remove(0)], more].concat();
    let commit = stage(machine, 1, apex, &records);
    assert!(matches!(apply(machine, Body::ImportCommit(commit)), Applied::Settings(_)));
}

pub(super) fn change(machine: &Machine, apex: &str, serial: u32, added: Vec<Record>) -> ZoneChange {
    let base_hash = machine.zones.head().zone(&zone(apex)).unwrap().hash();
    let changeset = Changeset {
        serial_from: Some(Serial(serial)),
        serial_to: Serial(serial + 1),
        deleted: vec![soa(apex, serial)],
        added: [vec![soa(apex, serial + 1)], added].concat(),
    };
    ZoneChange { zone: zone(apex), base_hash, changeset }
}

pub(super) fn restored(machine: &mut Machine) -> Machine {
    restored_with(&config(), machine)
}

fn restored_with(config: &ReplicaConfig, machine: &mut Machine) -> Machine {
    let mut state = machine.freeze();
    let mut restore = Restore::new(config).unwrap();
    let mut bytes = Vec::new();
    while let Some(section) = state.next_item(&mut bytes) {
        assert!(bytes.len() <= ITEM_BYTES_MAX);
        restore.item(section, &bytes).unwrap();
        bytes.clear();
    }
    restore.finish(machine.applied).unwrap()
}

/// Each zone that was added or replaced is reported, and no other.
#[test]
fn imported_zone_is_reported_as_changed() {
    let mut machine = machine();
    add_zone(&mut machine, "b.test.", &[]);
    let contents = |serial| [vec![soa("a.test.", serial)], text("a.test.", 9, 3)].concat();
    let expected = Applied::Settings(SettingsEffect { zones: vec![zone("a.test.")], ..SettingsEffect::default() });
    let commit = stage(&mut machine, 2, "a.test.", &contents(1));
    assert_eq!(apply(&mut machine, Body::ImportCommit(commit)), expected);
    let base_hash = machine.zones.head().zone(&zone("a.test.")).unwrap().hash();
    let commit = stage_for(&mut machine, 3, "a.test.", &contents(2), ImportPurpose::Replace { base_hash });
    assert_eq!(apply(&mut machine, Body::ImportCommit(commit)), expected);
    let serial = machine.zones.head().zone(&zone("a.test.")).unwrap().serial();
    assert_eq!(serial, Some(Serial(2)));
}

#[test]
fn a_checkpoint_restores_everything() {
    let mut machine = machine();
    add_zone(&mut machine, "a.test.", &text("x.a.test.", 200, 3_000));
    add_zone(&mut machine, "b.test.", &[]);
    let secret = Sealed { data_key_number: 1, nonce: [0; 12], bytes: vec![1; 20] };
    let name = "key.".parse().unwrap();
    let key = SettingsChange::KeyAdd { name, algorithm: KeyAlgorithm::HmacSha256, secret };
    let epoch = machine.settings.epoch();
    apply(&mut machine, Body::Settings(SettingsEntry { epoch, change: key }));
    // An item of the history that is larger than a checkpoint allows.
    let large = change(&machine, "a.test.", 1, text("y.a.test.", 250, 3_000));
    assert_eq!(apply(&mut machine, Body::Change(large)), Applied::Other);
    // And an unfinished import.
    let commit = stage(&mut machine, 7, "c.test.", &[vec![soa("c.test.", 5)], text("c.test.", 9, 3)].concat());
    let mut copy = restored(&mut machine);
    assert_eq!(copy.state_hash(), machine.state_hash());
    assert_eq!(copy.history.since(&zone("a.test."), Serial(1)), machine.history.since(&zone("a.test."), Serial(1)));
    assert!(copy.zones.published().zone(&zone("c.test.")).is_none());
    for machine in [&mut machine, &mut copy] {
        assert!(matches!(apply(machine, Body::ImportCommit(commit.clone())), Applied::Settings(_)));
        let remove = SettingsChange::ZoneRemove { zone: zone("a.test.") };
        let epoch = machine.settings.epoch();
        apply(machine, Body::Settings(SettingsEntry { epoch, change: remove }));
        assert_eq!(machine.settings.retired_serial(&zone("a.test.")), Some(Serial(2)));
        machine.publish();
        assert_eq!(machine.invariant_violations, InvariantViolations::default());
    }
    assert_eq!(copy.state_hash(), machine.state_hash());
}

/// Members compare their states by this hash. It must cover every part, or a difference goes undetected.
#[test]
fn the_state_hash_covers_every_part_of_the_state() {
    let mut full = machine();
    add_zone(&mut full, "a.test.", &[]);
    let large = change(&full, "a.test.", 1, text("y.a.test.", 9, 2));
    assert_eq!(apply(&mut full, Body::Change(large)), Applied::Other);
    stage(&mut full, 7, "c.test.", &[vec![soa("c.test.", 5)], text("c.test.", 9, 3)].concat());
    full.sessions.insert([5; 16], &"key.".parse().unwrap(), 7, [0; 16], Rcode::NOERROR, None);
    let mut empty = machine();
    type Swap = fn(&mut Machine, &mut Machine);
    let parts: [(&str, Swap); 6] = [
        ("zones", |one, other| std::mem::swap(&mut one.zones_hash, &mut other.zones_hash)),
        ("settings", |one, other| std::mem::swap(&mut one.settings, &mut other.settings)),
        ("repeats", |one, other| std::mem::swap(&mut one.sessions, &mut other.sessions)),
        ("history", |one, other| std::mem::swap(&mut one.history, &mut other.history)),
        ("imports", |one, other| std::mem::swap(&mut one.stages, &mut other.stages)),
        ("time", |one, other| std::mem::swap(&mut one.time_ms, &mut other.time_ms)),
    ];
    let hash = full.state_hash();
    for (part, swap) in parts {
        swap(&mut full, &mut empty);
        assert_ne!(full.state_hash(), hash, "{part}");
        swap(&mut full, &mut empty);
        assert_eq!(full.state_hash(), hash, "{part}");
    }
}

#[test]
fn mismatched_entry_is_counted_and_not_applied() {
    let mut machine = machine();
    add_zone(&mut machine, "a.test.", &[]);
    let before = machine.state_hash();
    let mut wrong_base = change(&machine, "a.test.", 1, Vec::new());
    wrong_base.base_hash ^= 1;
    let wrong_epoch = SettingsEntry { epoch: 99, change: SettingsChange::ZoneRemove { zone: zone("a.test.") } };
    let unknown = Body::ImportAbandon(StageId([9; 16]));
    for body in [Body::Change(wrong_base), Body::Settings(wrong_epoch), unknown] {
        assert_eq!(apply(&mut machine, body), Applied::Mismatch { identity: None });
    }
    let update = UpdateEntry {
        identity: [4; 16],
        key_name: "key.".parse().unwrap(),
        key_generation: 0,
        policy_epoch: machine.settings.epoch(),
        source: [0; 16],
        time_signed: 5,
        rcode: Rcode::NOERROR,
        change: Some(change(&machine, "a.test.", 1, Vec::new())),
    };
    // A change by a key that does not exist.
    let applied = apply(&mut machine, Body::Update(update.clone()));
    assert_eq!(applied, Applied::Mismatch { identity: Some([4; 16]) });
    // A refusal needs no key. The same message a second time does not fit.
    let refused = UpdateEntry { change: None, rcode: Rcode::REFUSED, ..update };
    let first = apply(&mut machine, Body::Update(refused.clone()));
    assert_eq!(first, Applied::Update { identity: [4; 16], rcode: Rcode::REFUSED });
    let second = apply(&mut machine, Body::Update(refused.clone()));
    assert_eq!(second, Applied::Mismatch { identity: Some([4; 16]) });
    // The policies have changed since the update was checked.
    let old = UpdateEntry { identity: [6; 16], policy_epoch: machine.settings.epoch() + 1, ..refused };
    let mismatch = apply(&mut machine, Body::Update(old));
    assert_eq!(mismatch, Applied::Mismatch { identity: Some([6; 16]) });
    assert_eq!(machine.invariant_violations.entry_mismatches, 6);
    assert_eq!(machine.zones.head().zone(&zone("a.test.")).unwrap().serial(), Some(Serial(1)));
    assert_ne!(machine.state_hash(), before);
}

#[test]
fn leader_and_follower_apply_the_same_result() {
    let (mut leader, mut follower) = (machine(), machine());
    for machine in [&mut leader, &mut follower] {
        add_zone(machine, "a.test.", &[]);
        machine.publish();
    }
    // Three changes on the leader's head, each on the outcome of the one before.
    let mut prepared = Vec::new();
    for serial in 1..=3 {
        let change = change(&leader, "a.test.", serial, text(&format!("t{serial}.a.test."), 9, 1));
        let body = Body::Change(change);
        let version = apply_work(&mut leader.zones, zone_work(&body, &leader.stages).unwrap()).unwrap();
        let zones_hash = leader.zones.head().state_hash();
        prepared.push((body, Prepared { version: Some(version), zones_hash }));
    }
    assert_eq!(leader.state_hash(), follower.state_hash());
    for (body, prepared) in prepared {
        let index = leader.applied.0 + 1;
        let entry = Entry { group: 0, time_ms: index, body };
        leader.apply(index, 1, &entry, Some(prepared));
        follower.apply(index, 1, &entry, None);
        assert_eq!(leader.state_hash(), follower.state_hash());
        leader.publish();
        follower.publish();
        let serial = |machine: &Machine| machine.zones.published().zone(&zone("a.test.")).unwrap().serial();
        assert_eq!(serial(&leader), serial(&follower));
    }
}

/// Sessions are evicted by entry times, so all replicas agree, including a restored one. Below feature level 2 the
/// oldest is evicted, as in older software.
#[test]
fn all_replicas_evict_the_same_session() {
    const NOW_S: u64 = 1_000_000;
    let config = ReplicaConfig { session_count_max: 4, ..config() };
    for (level, is_known) in [(1, false), (2, true)] {
        let mut settings = Settings::empty([1; 16]);
        settings.apply(&SettingsChange::FeatureLevel { level }, 1, 0);
        let [mut one, mut other] = [(); 2].map(|()| empty_machine(&config, settings.clone()).unwrap());
        let entry = |machine: &Machine, key: &str, ahead_s: u64| {
            let index = machine.applied.0 + 1;
            let update = UpdateEntry {
                identity: [index as u8; 16],
                key_name: key.parse().unwrap(),
                key_generation: 0,
                policy_epoch: machine.settings.epoch(),
                source: [0; 16],
                time_signed: NOW_S + ahead_s,
                rcode: Rcode::REFUSED,
                change: None,
            };
            (index, Entry { group: 0, time_ms: NOW_S * 1_000, body: Body::Update(update) })
        };
        for (key, ahead_s) in [("flood.", 298), ("flood.", 299), ("flood.", 299), ("flood.", 300), ("calm.", 0)] {
            let (index, entry) = entry(&one, key, ahead_s);
            one.apply(index, 1, &entry, None);
            other.apply(index, 1, &entry, None);
            assert_eq!(one.state_hash(), other.state_hash());
            other = restored_with(&config, &mut other);
        }
        assert_eq!(one.sessions.get(&[5; 16], NOW_S).is_some(), is_known, "level {level}");
        assert_eq!(one.sessions.get(&[4; 16], NOW_S + 300).is_some(), !is_known, "level {level}");
    }
}
