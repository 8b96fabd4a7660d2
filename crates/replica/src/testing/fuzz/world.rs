//! A small state with zones, keys, grants and rules.

use crate::entry::{
    Body, Entry, ImportBegin, ImportChunk, ImportCommit, ImportPurpose, SettingsChange, SettingsEntry, StageId,
};
use crate::io::{Member, NodeId, Right, ZoneOptions};
use crate::log::LogConfig;
use crate::machine::{Applied, Machine, chunk_digest, empty_machine};
use crate::peer::FEATURE_LEVEL;
use crate::state::{Settings, secret_context};
use crate::{DataKey, ReplicaConfig};
use policy::text::parse_policy;
use std::sync::Arc;
use tsig::KeyAlgorithm;
use wire::name::Name;
use wire::number::Rtype;
use zone::set::StoreConfig;
use zone::{Record, RecordList, ZoneId};

pub(super) const CLUSTER: [u8; 16] = [1; 16];
pub(super) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
pub(super) const APEX: &str = "example.test.";
/// The time of all events, in milliseconds since 1970.
pub(super) const TIME_MS: u64 = 1_700_000_000_000;
/// A key that may change everything, and one with narrow rules.
pub(super) const KEYS: [&str; 2] = ["all.", "some."];

const RULES: &str = "deny some. name ns.example.test.;\ngrant some. zonesub A(2) AAAA TXT;\n\
                     grant some. selfsub . ANY;\ngrant * tcp-self . PTR(1);\n\
                     limit some. update-records 8 name-records 4 zone-records 40;";

pub(super) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(super) fn zone(apex: &str) -> ZoneId {
    ZoneId { view: 0, apex: name(apex) }
}

pub(super) fn data_key() -> DataKey {
    DataKey::new(1, &[9; 32])
}

pub(super) fn config(id: NodeId) -> ReplicaConfig {
    let mut config = ReplicaConfig::new(CLUSTER, id, id << 32, 5, data_key());
    config.store = StoreConfig { reserve_bytes: 64 << 20, huge_pages: false };
    config.log = LogConfig { segment_bytes: 1 << 18, ..LogConfig::default() };
    config.session_count_max = 100;
    config
}

pub(super) fn members() -> Vec<Member> {
    (1..=3).map(|id| Member { id, address: format!("[::1]:{}", 7_000 + id) }).collect()
}

fn record(owner: &str, rtype: Rtype, rdata: &[u8]) -> Record {
    Record { owner: name(owner), rtype, ttl: 300, rdata: rdata.into() }
}

/// The first contents of the zone.
pub(super) fn records() -> Vec<Record> {
    let ns = name("ns.example.test.");
    let mut soa = [ns.as_bytes(), name("root.example.test.").as_bytes()].concat();
    for number in [7_u32, 3_600, 600, 86_400, 300] {
        soa.extend_from_slice(&number.to_be_bytes());
    }
    vec![
        record(APEX, Rtype::SOA, &soa),
        record(APEX, Rtype::NS, ns.as_bytes()),
        record("ns.example.test.", Rtype::A, &[192, 0, 2, 53]),
        record("www.example.test.", Rtype::A, &[192, 0, 2, 1]),
        record("www.example.test.", Rtype::A, &[192, 0, 2, 2]),
        record("www.example.test.", Rtype::TXT, b"\x04text"),
        record("alias.example.test.", Rtype::CNAME, name("www.example.test.").as_bytes()),
        record("*.wild.example.test.", Rtype::A, &[192, 0, 2, 3]),
        record("sub.example.test.", Rtype::NS, name("ns.sub.example.test.").as_bytes()),
        record("ns.sub.example.test.", Rtype::A, &[192, 0, 2, 4]),
    ]
}

/// Applies an entry as a follower does.
pub(super) fn apply(machine: &mut Machine, body: Body) -> Applied {
    let index = machine.applied.0 + 1;
    machine.apply(index, 1, &Entry { group: 0, time_ms: TIME_MS, body }, None)
}

/// An import in two chunks and its commit, for the present state.
pub(super) fn import(machine: &Machine, apex: &str, records: &[Record]) -> [Body; 3] {
    let stage = StageId([5; 16]);
    let records: RecordList = records.iter().collect();
    let purpose = ImportPurpose::Create { options: ZoneOptions::default() };
    let digest = chunk_digest(0, &records);
    [
        Body::ImportBegin(ImportBegin { stage, zone: zone(apex), purpose, chunk_count: 1 }),
        Body::ImportChunk(ImportChunk { stage, chunk_index: 0, records }),
        Body::ImportCommit(ImportCommit { stage, digest, policy_epoch: machine.settings.epoch() }),
    ]
}

/// Changes of the settings that produce the state.
pub(super) fn settings() -> Vec<SettingsChange> {
    let mut changes = Vec::new();
    for (number, key) in (1..).zip(KEYS) {
        let name = name(key);
        let secret = data_key().seal([number; 12], &secret_context(&name), SECRET);
        changes.push(SettingsChange::KeyAdd { name, algorithm: KeyAlgorithm::HmacSha256, secret });
    }
    changes.push(SettingsChange::Grant { key: name(KEYS[0]), zone: None, right: Right::UpdateApex });
    changes.push(SettingsChange::Grant { key: name(KEYS[0]), zone: Some(zone(APEX)), right: Right::Transfer });
    let policy = Arc::new(parse_policy(RULES).expect("rules"));
    changes.push(SettingsChange::PolicySet { zone: Some(zone(APEX)), policy });
    changes
}

pub(super) fn in_settings(machine: &Machine, change: SettingsChange) -> Body {
    Body::Settings(SettingsEntry { epoch: machine.settings.epoch(), change })
}

/// The state.
pub(super) fn machine() -> Machine {
    let settings_before = Settings::genesis(CLUSTER, &members(), FEATURE_LEVEL);
    let mut machine = empty_machine(&config(1), settings_before).expect("room for a small state");
    machine.apply_empty(1, 1);
    for change in settings() {
        let body = in_settings(&machine, change);
        assert!(matches!(apply(&mut machine, body), Applied::Settings(_)));
    }
    for body in import(&machine, APEX, &records()) {
        assert!(!matches!(apply(&mut machine, body), Applied::Mismatch { .. }));
    }
    machine.publish();
    machine
}

/// No applied entry was a mismatch, and no evaluated change was refused by the zones.
pub(super) fn assert_no_alarm(machine: &Machine) {
    assert_eq!(machine.invariant_violations, crate::InvariantViolations::default());
}
