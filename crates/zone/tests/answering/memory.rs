//! What answers and zones cost in memory.

use crate::common::{name, record, set_of, small_set, soa, zone_id};
use crate::signing::{Scheme, sign};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use wire::builder::MessageBuilder;
use wire::number::{Rtype, Serial};
use wire::parse::{Parsed, parse_request};
use zone::answer::{AnswerContext, AnswerKind, Batch, Chaos, Servable, Transport, answer};
use zone::record::Record;
use zone::set::ZoneSet;

/// Counts what each thread allocates.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is the system allocator's; counting touches a cell of the thread, which needs no allocation.
#[expect(unsafe_code, reason = "an allocator cannot be made without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

#[test]
fn a_query_allocates_nothing() {
    let apex = name("example.test.");
    let ns = |target: &[u8]| [target, b"\x07example\x04test\x00"].concat();
    let records = vec![
        soa("example.test.", Serial(1)),
        record("example.test.", 600, Rtype::NS, &ns(b"\x02ns")),
        record("ns.example.test.", 600, Rtype::A, &[192, 0, 2, 1]),
        record("*.w.example.test.", 600, Rtype::A, &[192, 0, 2, 1]),
        record("alias.example.test.", 600, Rtype::CNAME, &ns(b"\x01x\x01w")),
        record("d.example.test.", 600, Rtype::DNAME, &ns(b"\x01w")),
        record("cut.example.test.", 600, Rtype::NS, &ns(b"\x02ns\x03cut")),
        record("ns.cut.example.test.", 600, Rtype::A, &[192, 0, 2, 1]),
        record("example.test.", 600, Rtype::MX, &[b"\x00\x01", ns(b"\x02ns").as_slice()].concat()),
    ];
    let state = |_: &zone::set::Zone<'_>| Servable::Ready;
    let context = AnswerContext {
        transport: Transport::Udp,
        udp_bytes_max: 1232,
        payload: 1232,
        nsid: Some(b"x"),
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos::default(),
        zone_state: &state,
        tsig_reserve: 0,
    };
    let (mut out, mut out_of_batch) = ([0; 4096], [0; 4096]);
    let mut batch = Batch::new();
    for scheme in [Scheme::Unsigned, Scheme::Nsec, Scheme::Nsec3, Scheme::Nsec3OptOut] {
        let set = set_of("example.test.", &sign(&apex, records.clone(), scheme));
        let mut reader = set.reader();
        for (qname, qtype, kind) in [
            ("ns.example.test.", Rtype::A, AnswerKind::Positive),
            ("example.test.", Rtype::MX, AnswerKind::Positive),
            ("a.w.example.test.", Rtype::A, AnswerKind::Positive),
            ("a.w.example.test.", Rtype::TXT, AnswerKind::NoData),
            ("alias.example.test.", Rtype::A, AnswerKind::Positive),
            ("a.d.example.test.", Rtype::A, AnswerKind::Positive),
            ("a.b.c.d.e.example.test.", Rtype::A, AnswerKind::NxDomain),
            ("ns.example.test.", Rtype::TXT, AnswerKind::NoData),
            ("w.example.test.", Rtype::TXT, AnswerKind::NoData),
            ("a.cut.example.test.", Rtype::A, AnswerKind::Referral),
            ("cut.example.test.", Rtype::DS, AnswerKind::NoData),
            ("example.org.", Rtype::A, AnswerKind::Refused),
        ] {
            let query = MessageBuilder::query(1, name(qname).as_ref(), qtype).edns(1232, true).build();
            let before = allocations();
            let Parsed::Request(request) = parse_request(&query) else { panic!("no request") };
            let answered = answer(reader.pin(), &request, &context, &mut out);
            let mut prepared = batch.prepare(reader.pin(), core::iter::repeat_n(request.question, 3));
            let again = [0, 1, 2, 2, 3].map(|index| prepared.answer(index, &request, &context, &mut out_of_batch));
            assert_eq!(allocations(), before, "{qname} {qtype:?} {scheme:?}");
            assert_eq!(answered.kind, kind, "{qname} {qtype:?} {scheme:?}");
            assert_eq!(again, [answered; 5], "{qname} {qtype:?} {scheme:?}");
            assert_eq!(out[..answered.len], out_of_batch[..answered.len], "{qname} {qtype:?} {scheme:?}");
        }
    }
}

/// A name with one A record takes about as much as the prototype did: 64 bytes, the index included.
#[test]
fn a_name_with_an_address_is_small() {
    const COUNT: usize = 50_000;
    let mut set = small_set();
    let before = set.stats().used_bytes;
    let names = (0..COUNT).map(|number| format!("host{number:06}.example.test."));
    let mut records: Vec<Record> = names.map(|owner| record(&owner, 600, Rtype::A, &[192, 0, 2, 1])).collect();
    records.push(soa("example.test.", Serial(1)));
    let mut edit = set.edit();
    for chunk in records.chunks(1000) {
        edit.add_records(&zone_id("example.test."), chunk).unwrap();
    }
    edit.commit_stage(&zone_id("example.test.")).unwrap();
    let version = edit.seal();
    set.publish(version);
    let bytes = (set.stats().used_bytes - before) / COUNT;
    assert!(bytes <= 70, "{bytes} bytes for a name");
}

/// Budget: 2 KiB a zone beyond its records; here the SOA and the NS are counted with it. One more, and one less, cost
/// what they cost among few: nothing of the others is written anew.
#[test]
fn adding_one_of_many_zones_needs_little_memory() {
    const COUNT: usize = 100_000;
    let mut set = small_set();
    let add = |set: &mut ZoneSet, numbers: std::ops::Range<usize>| {
        let mut edit = set.edit();
        for number in numbers {
            let apex = format!("zone{number:06}.test.");
            let id = zone_id(&apex);
            let records = [soa(&apex, Serial(1)), record(&apex, 600, Rtype::NS, b"\x02ns\x04test\x00")];
            edit.add_records(&id, &records).unwrap();
            edit.commit_stage(&id).unwrap();
        }
        let version = edit.seal();
        set.publish(version);
    };
    let before = set.stats().used_bytes;
    for first in (0..COUNT).step_by(1_000) {
        add(&mut set, first..first + 1_000);
    }
    while set.reclaim() {}
    let used = set.stats().used_bytes;
    assert_eq!(set.published().zone_count(), COUNT);
    let bytes = (used - before) / COUNT;
    assert!(bytes <= 400, "{bytes} bytes for a zone");

    let hash = set.published().state_hash();
    add(&mut set, COUNT..COUNT + 1);
    let written = set.stats().used_bytes - used;
    assert!(written <= 1 << 10, "{written} bytes for one more");
    while set.reclaim() {}
    let before_removal = set.stats().used_bytes;
    let mut edit = set.edit();
    edit.remove_zone(&zone_id(&format!("zone{COUNT:06}.test."))).unwrap();
    let version = edit.seal();
    set.publish(version);
    let written = set.stats().used_bytes.saturating_sub(before_removal);
    assert!(written <= 1 << 10, "{written} bytes for one less");
    while set.reclaim() {}
    assert_eq!(set.stats().used_bytes, used);
    assert!(set.published().state_hash() == hash, "what is there is as it was");
}
