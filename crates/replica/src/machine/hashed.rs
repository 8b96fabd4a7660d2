//! Every part of the replicated state affects the state hash, so that members detect any difference.

use super::tests::{add_zone, change, machine, restored, stage, text, zone};
use super::*;
use crate::entry::{ImportPurpose, StageId};
use crate::machine::stages::Stage;

type Mutation = (&'static str, fn(&mut Machine));

/// Names every field. Code with a new field does not compile until the field has a row in [`MUTATIONS`] or a reason
/// here.
fn assert_all_fields_are_known(machine: &Machine) {
    let Machine {
        zones: _,
        // `state/settings/hashed.rs` checks it field by field.
        settings: _,
        sessions: _,
        history: _,
        stages: _,
        time_ms: _,
        // Only leaders use it.
        growth: _,
        // The index at which hashes are compared.
        applied: _,
        // These are hashes themselves.
        zones_hash: _,
        hashes: _,
        // Local memory use and faults of this replica.
        invariant_violations: _,
        unpublished: _,
        published_allocated: _,
        is_broken: _,
        panics_at: _,
    } = machine;
    if let Some(Stage { zone: _, purpose: _, chunk_count: _, next_chunk: _, digest: _, touched: _ }) =
        machine.stages.get(StageId([2; 16]))
    {}
}

fn session(machine: &mut Machine, identity: u8, key: &str, time_signed: u64, source: u8, rcode: Rcode) {
    machine.sessions.insert([identity; 16], &key.parse().unwrap(), time_signed, [source; 16], rcode, None);
}

fn with_stage(machine: &mut Machine, mutate: fn(&mut Stage)) {
    mutate(machine.stages.get_mut(StageId([2; 16])).unwrap());
}

/// Applies a change of the zone without adding it to the history.
fn with_zone(machine: &mut Machine, added: Vec<zone::Record>) {
    let body = Body::Change(change(machine, "a.test.", 1, added));
    apply_work(&mut machine.zones, zone_work(&body, &machine.stages).unwrap()).unwrap();
    machine.zones_hash = machine.zones.head().state_hash();
}

fn with_history(machine: &mut Machine, index: u64, serial: u32, bytes: u8) {
    let changeset = change(machine, "a.test.", serial, text("x.a.test.", bytes, 1)).changeset;
    machine.history.push(index, &zone("a.test."), &changeset);
}

/// The smallest change of each part.
const MUTATIONS: &[Mutation] = &[
    ("serial of a zone", |it| with_zone(it, Vec::new())),
    ("record of a zone", |it| with_zone(it, text("x.a.test.", 9, 1))),
    ("TTL of a record", |it| {
        let record = text("x.a.test.", 9, 1).remove(0);
        with_zone(it, vec![zone::Record { ttl: 61, ..record }]);
    }),
    ("settings", |it| it.settings.apply(&SettingsChange::FeatureLevel { level: 9 }, 1, 0)),
    ("session", |it| session(it, 1, "key.", 5, 0, Rcode::NOERROR)),
    ("identity of a session", |it| session(it, 2, "key.", 5, 0, Rcode::NOERROR)),
    ("key of a session", |it| session(it, 1, "other.", 5, 0, Rcode::NOERROR)),
    ("time of a session", |it| session(it, 1, "key.", 6, 0, Rcode::NOERROR)),
    ("source of a session", |it| session(it, 1, "key.", 5, 1, Rcode::NOERROR)),
    ("outcome of a session", |it| session(it, 1, "key.", 5, 0, Rcode::REFUSED)),
    ("floor of a key", |it| {
        it.sessions = Sessions::new(1);
        session(it, 1, "key.", 5, 0, Rcode::NOERROR);
        session(it, 9, "key.", 9, 0, Rcode::NOERROR);
    }),
    ("history", |it| with_history(it, 90, 1, 9)),
    ("index in the history", |it| with_history(it, 91, 1, 9)),
    ("serial in the history", |it| with_history(it, 90, 2, 9)),
    ("contents in the history", |it| with_history(it, 90, 1, 8)),
    ("zone of a stage", |it| with_stage(it, |stage| stage.zone = zone("c.test."))),
    ("purpose of a stage", |it| with_stage(it, |stage| stage.purpose = ImportPurpose::Replace { base_hash: 1 })),
    ("base of a stage", |it| with_stage(it, |stage| stage.purpose = ImportPurpose::Replace { base_hash: 2 })),
    ("chunks of a stage", |it| with_stage(it, |stage| stage.chunk_count += 1)),
    ("next chunk of a stage", |it| with_stage(it, |stage| stage.next_chunk += 1)),
    ("digest of a stage", |it| with_stage(it, |stage| stage.digest ^= 1)),
    ("index of a stage", |it| with_stage(it, |stage| stage.touched += 1)),
    ("time", |it| it.time_ms += 1),
];

#[test]
fn a_change_of_any_part_changes_the_hash() {
    let mut base = machine();
    add_zone(&mut base, "a.test.", &[]);
    stage(&mut base, 2, "b.test.", &[text("b.test.", 9, 2)].concat());
    base.publish();
    assert_all_fields_are_known(&base);
    let mut hashes = std::collections::BTreeMap::from([(base.state_hash(), "none")]);
    for (what, mutate) in MUTATIONS {
        let mut mutated = restored(&mut base);
        assert_eq!(mutated.state_hash(), base.state_hash());
        mutate(&mut mutated);
        assert_eq!(hashes.insert(mutated.state_hash(), what), None, "{what} leaves the hash as it is");
    }
}
