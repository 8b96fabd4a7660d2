//! Figures of work that grows with a zone or with the rate of updates (docs/experiments/zone-replace.md):
//!
//! ```text
//! cargo run --profile gate -p catamaran-replica --example replica_figures
//! ```
#![expect(clippy::disallowed_methods, reason = "it measures time; the crate itself knows no clock")]

use catamaran_replica::entry::{Body, Entry, UpdateEntry, ZoneChange};
use catamaran_replica::io::{KeyAlgorithm, Replacement};
use catamaran_replica::limits::KEYS_MAX;
use catamaran_replica::update::{KeyTable, TsigKey};
use std::hint::black_box;
use std::time::Instant;
use wire::number::{Rcode, Rtype, Serial};
use zone::set::{StoreConfig, ZoneSetConfig};
use zone::{Changeset, Record, ZoneId, ZoneSet};

const RECORD_COUNT: u32 = 1_000_000;
const DECODE_COUNT: u32 = 1_000_000;
const KEYS_CHANGED: usize = 1_000;

fn main() {
    replacing();
    decoding();
    keys();
}

/// A million A records at scattered owners, replaced by the same ones and by others.
fn replacing() {
    let zone = ZoneId { view: 0, apex: "a.".parse().expect("a name") };
    let store = StoreConfig { reserve_bytes: 1 << 30, huge_pages: true };
    let mut zones = ZoneSet::new(ZoneSetConfig { store }).expect("addresses for 1 GiB");
    let before = records(0);
    let start = Instant::now();
    let mut edit = zones.edit();
    edit.add_records(&zone, &before).expect("room in the arena");
    edit.commit_stage(&zone).expect("a zone");
    let version = edit.seal();
    zones.publish(version);
    println!("{RECORD_COUNT} records loaded into the zone set: {} ms", start.elapsed().as_millis());
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

fn records(salt: u32) -> Vec<Record> {
    let mut all = vec![record("a.", Rtype::SOA, &soa())];
    all.extend((0..RECORD_COUNT).map(|number| {
        let scattered = number.wrapping_mul(0x9E37_79B1);
        record(&format!("h{scattered:08x}.a."), Rtype::A, &(number ^ salt).to_be_bytes())
    }));
    all
}

fn record(owner: &str, rtype: Rtype, rdata: &[u8]) -> Record {
    Record { owner: owner.parse().expect("a name"), rtype, ttl: 60, rdata: rdata.into() }
}

/// Both names the root; serial 7.
fn soa() -> Vec<u8> {
    let mut rdata = vec![0, 0];
    [7u32, 1, 1, 1, 1].iter().for_each(|number| rdata.extend_from_slice(&number.to_be_bytes()));
    rdata
}

/// What a change of one key costs a node that has as many as there may be: all of them anew, and that one alone.
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
    println!("one of them changed, beside a copy that others read: {each} us");
}

/// A leader decodes its own entries again when it applies them: what that costs an update of one record.
fn decoding() {
    let change = ZoneChange {
        zone: ZoneId { view: 0, apex: "a.".parse().expect("a name") },
        base_hash: 1,
        changeset: Changeset {
            serial_from: Some(Serial(1)),
            serial_to: Serial(2),
            deleted: vec![record("a.", Rtype::SOA, &soa())],
            added: vec![record("a.", Rtype::SOA, &soa()), record("h.a.", Rtype::A, &[192, 0, 2, 1])],
        },
    };
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
    let entry = Entry { group: 0, time_ms: 1_700_000_000_123, body: Body::Update(update) };
    let octets = entry.encode();
    assert_eq!(Entry::decode(&octets).as_ref(), Ok(&entry));
    let start = Instant::now();
    for _ in 0..DECODE_COUNT {
        let _decoded = black_box(Entry::decode(black_box(&octets)));
    }
    let nanoseconds = start.elapsed().as_nanos() / u128::from(DECODE_COUNT);
    println!("an update's entry of {} octets decoded: {nanoseconds} ns", octets.len());
}
