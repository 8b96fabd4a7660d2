//! Measures work that grows with a zone or with the update rate (docs/history/zone-replace.md):
//!
//! ```text
//! cargo run --profile gate -p catamaran-replica --example replica_figures
//! ```
//!
//! Exits with 1 if a budget is exceeded (docs/history/budgets.md).
#![expect(clippy::disallowed_methods, reason = "it measures time; the crate itself knows no clock")]

use catamaran_replica::entry::{Body, Entry, UpdateEntry, ZoneChange};
use catamaran_replica::io::Replacement;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tsig::limits::KEYS_MAX;
use tsig::{KeyAlgorithm, KeyTable, TsigKey};
use wire::number::{Rcode, Rtype, Serial};
use zone::set::{StoreConfig, ZoneSetConfig};
use zone::{Changeset, Record, ZoneId, ZoneSet};

const RECORD_COUNT: u32 = 1_000_000;
const DECODE_COUNT: u32 = 1_000_000;
const KEYS_CHANGED: usize = 1_000;
const UPDATES: u32 = 200_000;
/// Updates per batch.
const BATCH: u32 = 100;
/// Budget of processor time for one update on a node, in microseconds.
const UPDATE_US_MAX: f64 = 8.0;

fn main() -> ExitCode {
    replacing();
    let update_us = updating();
    decoding();
    keys();
    if update_us <= UPDATE_US_MAX { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A million A records at scattered owners, replaced by equal ones and by others.
fn replacing() {
    let zone = zone_id();
    let start = Instant::now();
    let zones = loaded();
    println!("{RECORD_COUNT} records made and loaded into the zone set: {} ms", start.elapsed().as_millis());
    for (what, salt) in [("the same again", 0), ("all others", 1)] {
        let after = records(salt);
        let published = zones.published();
        let old = published.zone(&zone).expect("it was published");
        let start = Instant::now();
        let replacement = Replacement::new(&old, after).expect("a zone");
        println!("replaced by {what}: compared in {} ms", start.elapsed().as_millis());
        assert_eq!(replacement.is_unchanged(), salt == 0, "{what}");
    }
}

fn zone_id() -> ZoneId {
    ZoneId { view: 0, apex: "a.".parse().expect("a name") }
}

/// The published zone.
fn loaded() -> ZoneSet {
    let store = StoreConfig { reserve_bytes: 1 << 30, huge_pages: true };
    let mut zones = ZoneSet::new(ZoneSetConfig { store }).expect("addresses for 1 GiB");
    let mut edit = zones.edit();
    edit.add_records(&zone_id(), &records(0)).expect("room in the arena");
    edit.commit_stage(&zone_id()).expect("a zone");
    let version = edit.seal();
    zones.publish(version);
    zones
}

/// Updates of one record each in a zone of a million records, as a follower executes them: decoded, applied and
/// hashed one by one, and published in batches of 100. Returns the microseconds per update.
fn updating() -> f64 {
    let mut zones = loaded();
    let zone = zone_id();
    let mut entries = (1..=UPDATES).map(|number| {
        let owner = format!("h{:08x}.a.", (number % RECORD_COUNT).wrapping_mul(0x9E37_79B1));
        // Half of them are at existing names, half at new ones.
        let owner = if number % 2 == 0 { owner } else { format!("new-{owner}") };
        let added = record(&owner, Rtype::A, &(number ^ 0xC000_0000).to_be_bytes());
        entry(Serial(6 + number), Serial(7 + number), added).encode()
    });
    let mut spent = Duration::ZERO;
    for _ in 0..UPDATES / BATCH {
        let bytes: Vec<Vec<u8>> = entries.by_ref().take(BATCH as usize).collect();
        let start = Instant::now();
        let mut version = None;
        for bytes in &bytes {
            let Ok(Entry { body: Body::Update(UpdateEntry { change: Some(change), .. }), .. }) = Entry::decode(bytes)
            else {
                panic!("it was encoded just now")
            };
            let _base = black_box(zones.head().zone(&zone).map(|zone| zone.hash()));
            let mut edit = zones.edit();
            edit.apply(&change.zone, &change.changeset).expect("it fits");
            version = Some(edit.seal());
            let _hash = black_box(zones.head().state_hash());
        }
        zones.publish(version.expect("a batch holds some"));
        zones.reclaim();
        spent += start.elapsed();
    }
    let each = spent.as_secs_f64() * 1e6 / f64::from(UPDATES);
    println!("{UPDATES} updates of one record, {BATCH} at once, carried out in {each:.2} us each");
    each
}

fn records(salt: u32) -> Vec<Record> {
    let mut all = vec![record("a.", Rtype::SOA, &soa(Serial(7)))];
    all.extend((0..RECORD_COUNT).map(|number| {
        let scattered = number.wrapping_mul(0x9E37_79B1);
        record(&format!("h{scattered:08x}.a."), Rtype::A, &(number ^ salt).to_be_bytes())
    }));
    all
}

fn record(owner: &str, rtype: Rtype, rdata: &[u8]) -> Record {
    Record { owner: owner.parse().expect("a name"), rtype, ttl: 60, rdata: rdata.into() }
}

/// An SOA with the root as both names.
fn soa(serial: Serial) -> Vec<u8> {
    let mut rdata = vec![0, 0];
    [serial.0, 1, 1, 1, 1].iter().for_each(|number| rdata.extend_from_slice(&number.to_be_bytes()));
    rdata
}

/// The cost of changing one key on a node with the maximum number of keys: for all keys, and for this key alone.
fn keys() {
    let key = |number: usize| {
        let name: wire::Name = format!("key{number}.example.").parse().expect("a name");
        TsigKey::new(name.as_ref(), KeyAlgorithm::HmacSha256, &[&[7; 32]]).expect("a secret")
    };
    let start = Instant::now();
    let mut table = KeyTable::new();
    (0..KEYS_MAX).for_each(|number| table.insert(key(number)).expect("room"));
    println!("{KEYS_MAX} keys made ready: {} ms", start.elapsed().as_millis());
    let start = Instant::now();
    for number in 0..KEYS_CHANGED {
        let before = table.clone();
        table.insert(key(number * 13)).expect("room");
        drop(black_box(before));
    }
    let each = start.elapsed().as_micros() / KEYS_CHANGED as u128;
    println!("one of them changed, while a copy is being read: {each} us");
}

/// The cost of decoding an update of one record, which a leader does again for its own entries.
fn decoding() {
    let entry = entry(Serial(1), Serial(2), record("h.a.", Rtype::A, &[192, 0, 2, 1]));
    let bytes = entry.encode();
    assert_eq!(Entry::decode(&bytes).as_ref(), Ok(&entry));
    let start = Instant::now();
    for _ in 0..DECODE_COUNT {
        let _decoded = black_box(Entry::decode(black_box(&bytes)));
    }
    let nanoseconds = start.elapsed().as_nanos() / u128::from(DECODE_COUNT);
    println!("an update's entry of {} bytes decoded: {nanoseconds} ns", bytes.len());
}

/// The log entry of an update that adds a record.
fn entry(from: Serial, to: Serial, added: Record) -> Entry {
    let changeset = Changeset {
        serial_from: Some(from),
        serial_to: to,
        deleted: vec![record("a.", Rtype::SOA, &soa(from))],
        added: vec![record("a.", Rtype::SOA, &soa(to)), added],
    };
    let change = ZoneChange { zone: zone_id(), base_hash: 1, changeset };
    let update = UpdateEntry {
        identity: [1; 16],
        key_name: "key.".parse().expect("a name"),
        key_generation: 3,
        policy_epoch: 41,
        source: [2; 16],
        time_signed: 1_700_000_000,
        rcode: Rcode::NOERROR,
        change: Some(change),
    };
    Entry { group: 0, time_ms: 1_700_000_000_123, body: Body::Update(update) }
}
