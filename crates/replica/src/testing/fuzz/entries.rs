//! Any entries in a log: every member applies them alike, and none stops.

use super::chunks::{join, split};
use super::world::{TIME_MS, apply, import, in_settings, machine, name, records, settings, zone};
use crate::checkpoint::CheckpointItems;
use crate::entry::{Body, Entry, SettingsChange};
use crate::machine::{Applied, Machine, Restore};

/// Applying entries never fails and always has the same result, and that result survives a checkpoint.
///
/// # Panics
/// If not.
pub fn entries(bytes: &[u8]) {
    let (mut one, mut other) = (machine(), machine());
    for (tag, chunk) in split(bytes) {
        let Ok(entry) = Entry::decode(chunk) else { continue };
        assert_eq!(entry.encode(), chunk, "an entry must have one encoding");
        let index = one.applied.0 + 1;
        let applied = one.apply(index, 1, &entry, None);
        if applied == Applied::Full {
            return;
        }
        assert_eq!(other.apply(index, 1, &entry, None), applied);
        assert_eq!(one.state_hash(), other.state_hash());
        // The time of publication must not matter.
        if tag & 1 == 1 {
            one.publish();
        }
    }
    one.publish();
    other.publish();
    assert_eq!(restored(&mut one).state_hash(), other.state_hash());
}

fn restored(machine: &mut Machine) -> Machine {
    let mut state = machine.freeze();
    let mut restore = Restore::new(&super::world::config(1)).expect("room");
    let mut bytes = Vec::new();
    while let Some(section) = state.next_item(&mut bytes) {
        restore.item(section, &bytes).expect("an item that was written");
        bytes.clear();
    }
    restore.finish(machine.applied).expect("the state that was written")
}

fn encoded(machine: &mut Machine, body: Body) -> Vec<u8> {
    let bytes = Entry { group: 0, time_ms: TIME_MS, body: body.clone() }.encode();
    apply(machine, body);
    bytes
}

/// Histories that continue from the state: settings that are added and removed, an import, and outcomes of updates.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut machine = machine();
    let mut history = Vec::new();
    let changes = settings().into_iter().chain([
        SettingsChange::MemberAdd { id: 4, address: "[::1]:7004".to_owned(), token: None },
        SettingsChange::MemberRole { id: 4, votes: false },
        SettingsChange::MemberRemove { id: 4 },
        SettingsChange::KeyRetire { name: name("all.") },
        SettingsChange::FeatureLevel { level: 2 },
        SettingsChange::KeyRemove { name: name("some.") },
    ]);
    for change in changes {
        let body = in_settings(&machine, change);
        history.push(encoded(&mut machine, body));
    }
    let second: Vec<_> = records()
        .into_iter()
        .map(|mut record| {
            let text = record.owner.to_string().replace("example.test.", "other.test.");
            record.owner = name(&text);
            record
        })
        .collect();
    for body in import(&machine, "other.test.", &second) {
        history.push(encoded(&mut machine, body));
    }
    let body = in_settings(&machine, SettingsChange::ZoneRemove { zone: zone("other.test.") });
    history.push(encoded(&mut machine, body));
    let mut seeds: Vec<Vec<u8>> = history.iter().map(|entry| join([(1, &entry[..])])).collect();
    seeds.push(join(history.iter().map(|entry| (1, &entry[..]))));
    let golden = include_str!("../../../testdata/entries.txt");
    let lines = golden.lines().filter_map(|line| line.split_once(' ')).filter(|(label, _)| !label.starts_with('#'));
    seeds.extend(lines.map(|(_, hex)| join([(0, &from_hex(hex)[..])])));
    seeds
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a digit") as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
