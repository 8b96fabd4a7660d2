//! Instructions of each step of an answer, for twelve kinds of answer, under callgrind: `cargo xtask bench
//! instructions`.
//!
//! A count over its limit fails the run. Each limit is 10% above the count at the time it was set. A change that needs
//! more instructions raises the limit and gives the reason.

use gungraun::{Callgrind, CallgrindMetrics, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use std::hint::black_box;
use wire::builder::MessageBuilder;
use wire::name::Name;
use wire::number::{Rtype, Serial};
use wire::parse::{FirstQuestion, Parsed, Request, parse_request};
use zone::answer::{AnswerContext, AnswerKind, Batch, Chaos, Servable, Transport, answer};
use zone::lookup::lookup;
use zone::record::Record;
use zone::set::{SetVersion, ZoneReader, ZoneSet};

#[path = "../../crates/zone/tests/answering/common.rs"]
#[expect(dead_code, reason = "only tests use the rest")]
mod common;
#[path = "../../crates/zone/tests/answering/signing.rs"]
mod signing;

use AnswerKind::{NoData, NxDomain, Positive, Referral};
use Scheme::{Nsec, Nsec3, Unsigned};
use common::{add_zone, name, record, small_set, soa};
use signing::{Scheme, sign};

/// Names in the zone besides those that are queried. With this many, the tree has a realistic depth.
const HOSTS: u32 = 10_000;

/// A query, and the zones that answer it.
struct Case {
    reader: ZoneReader,
    query: Vec<u8>,
    qname: Name,
    rtype: Rtype,
    kind: AnswerKind,
    _set: ZoneSet,
}

fn records() -> Vec<Record> {
    let target = |text: &str| name(text).as_bytes().to_vec();
    let mx = |text: &str| [&[0, 10], name(text).as_bytes()].concat();
    let mut records = vec![
        soa("example.", Serial(1)),
        record("example.", 300, Rtype::NS, &target("ns.example.")),
        record("example.", 300, Rtype::MX, &mx("ns.example.")),
        record("ns.example.", 300, Rtype::A, &[192, 0, 2, 1]),
        record("alias.example.", 300, Rtype::CNAME, &target("ns.example.")),
        record("other.example.", 300, Rtype::DNAME, &target("names.example.")),
        record("www.names.example.", 300, Rtype::A, &[192, 0, 2, 2]),
        record("*.wild.example.", 300, Rtype::A, &[192, 0, 2, 3]),
        record("below.example.", 300, Rtype::NS, &target("ns.below.example.")),
        record("ns.below.example.", 300, Rtype::A, &[192, 0, 2, 4]),
    ];
    records.extend((0..40).map(|last| record("many.example.", 300, Rtype::A, &[10, 0, 0, last])));
    let host = |number: u32| record(&format!("host{number:05}.example."), 300, Rtype::A, &number.to_be_bytes());
    records.extend((0..HOSTS).map(host));
    records
}

fn case(qname: &str, rtype: Rtype, scheme: Scheme, kind: AnswerKind) -> Case {
    let mut set = small_set();
    add_zone(&mut set, "example.", &sign(&name("example."), records(), scheme));
    let query = MessageBuilder::query(7, name(qname).as_ref(), rtype).edns(1232, scheme != Unsigned).build();
    let mut case = Case { reader: set.reader(), query, qname: name(qname), rtype, kind, _set: set };
    // Warms up.
    answered(&mut case);
    case
}

fn request(query: &[u8]) -> Request<'_> {
    match parse_request(query) {
        Parsed::Request(request) => request,
        _ => panic!("a well-formed query"),
    }
}

/// Parses, looks up and composes.
fn answered(case: &mut Case) -> usize {
    let set = case.reader.pin();
    respond(set, &case.query, case.kind)
}

fn context(zone_state: &dyn Fn(&zone::set::Zone<'_>) -> Servable) -> AnswerContext<'_> {
    AnswerContext {
        transport: Transport::Udp,
        udp_bytes_max: 1232,
        payload: 1232,
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos::default(),
        zone_state,
        tsig_reserve: 0,
    }
}

fn respond(set: SetVersion<'_>, query: &[u8], kind: AnswerKind) -> usize {
    let mut out = [0; 1232];
    let answered = answer(set, &request(query), &context(&|_| Servable::Ready), &mut out);
    assert_eq!(answered.kind, kind);
    black_box(&out);
    answered.len
}

/// Sixteen queries in one batch, for names spread over the zone.
struct Together {
    batch: Batch,
    case: Case,
    queries: Vec<Vec<u8>>,
    out: Vec<u8>,
}

fn together() -> Together {
    let case = case("host04711.example.", Rtype::A, Unsigned, Positive);
    let qname = |number: u32| name(&format!("host{:05}.example.", number * 4_711 % HOSTS));
    let query = |number| MessageBuilder::query(7, qname(number).as_ref(), Rtype::A).edns(1232, false).build();
    let queries = (0..16).map(query).collect();
    let mut together = Together { batch: Batch::new(), case, queries, out: vec![0; 1232] };
    answered_together(&mut together);
    together
}

/// Answers a batch like a worker: looks all names up together, then answers each query.
fn answered_together(together: &mut Together) -> usize {
    let Together { batch, case, queries, out } = together;
    let set = case.reader.pin();
    let mut prepared = batch.prepare(set, queries.iter().map(|query| FirstQuestion::read(query).ok()));
    let mut bytes = 0;
    for (index, query) in queries.iter().enumerate() {
        let answered = prepared.answer(index, &request(query), &context(&|_| Servable::Ready), out);
        assert_eq!(answered.kind, Positive);
        bytes += answered.len;
    }
    bytes
}

/// A limit on the number of instructions.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(CallgrindMetrics::SingleEvent(gungraun::EventKind::Ir), instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark(setup = case)]
#[bench::positive(args = ("host04711.example.", Rtype::A, Unsigned, Positive), config = at_most(4_150))]
#[bench::no_data(args = ("host04711.example.", Rtype::AAAA, Unsigned, NoData), config = at_most(4_050))]
#[bench::no_name(args = ("nothing.example.", Rtype::A, Unsigned, NxDomain), config = at_most(6_950))]
#[bench::alias(args = ("alias.example.", Rtype::A, Unsigned, Positive), config = at_most(7_950))]
#[bench::redirect(args = ("www.other.example.", Rtype::A, Unsigned, Positive), config = at_most(9_950))]
#[bench::wildcard(args = ("any.wild.example.", Rtype::A, Unsigned, Positive), config = at_most(6_350))]
#[bench::referral(args = ("www.below.example.", Rtype::A, Unsigned, Referral), config = at_most(8_550))]
#[bench::additional(args = ("example.", Rtype::MX, Unsigned, Positive), config = at_most(6_800))]
#[bench::many(args = ("many.example.", Rtype::A, Unsigned, Positive), config = at_most(8_950))]
#[bench::signed(args = ("host04711.example.", Rtype::A, Nsec, Positive), config = at_most(4_600))]
#[bench::no_name_nsec(args = ("nothing.example.", Rtype::A, Nsec, NxDomain), config = at_most(15_950))]
#[bench::no_name_nsec3(args = ("nothing.example.", Rtype::A, Nsec3, NxDomain), config = at_most(34_650))]
fn whole(mut case: Case) -> (usize, Case) {
    let len = answered(black_box(&mut case));
    (len, case)
}

#[library_benchmark(setup = case)]
#[bench::positive(args = ("host04711.example.", Rtype::A, Unsigned, Positive), config = at_most(770))]
#[bench::no_data(args = ("host04711.example.", Rtype::AAAA, Unsigned, NoData), config = at_most(770))]
#[bench::no_name(args = ("nothing.example.", Rtype::A, Unsigned, NxDomain), config = at_most(770))]
#[bench::alias(args = ("alias.example.", Rtype::A, Unsigned, Positive), config = at_most(770))]
#[bench::redirect(args = ("www.other.example.", Rtype::A, Unsigned, Positive), config = at_most(780))]
#[bench::wildcard(args = ("any.wild.example.", Rtype::A, Unsigned, Positive), config = at_most(780))]
#[bench::referral(args = ("www.below.example.", Rtype::A, Unsigned, Referral), config = at_most(780))]
#[bench::additional(args = ("example.", Rtype::MX, Unsigned, Positive), config = at_most(755))]
#[bench::many(args = ("many.example.", Rtype::A, Unsigned, Positive), config = at_most(770))]
#[bench::signed(args = ("host04711.example.", Rtype::A, Nsec, Positive), config = at_most(770))]
#[bench::no_name_nsec(args = ("nothing.example.", Rtype::A, Nsec, NxDomain), config = at_most(770))]
#[bench::no_name_nsec3(args = ("nothing.example.", Rtype::A, Nsec3, NxDomain), config = at_most(770))]
fn parse(case: Case) -> (bool, Case) {
    let parsed = parse_request(black_box(&case.query));
    (matches!(black_box(parsed), Parsed::Request(_)), case)
}

#[library_benchmark(setup = case)]
#[bench::positive(args = ("host04711.example.", Rtype::A, Unsigned, Positive), config = at_most(2_930))]
#[bench::no_data(args = ("host04711.example.", Rtype::AAAA, Unsigned, NoData), config = at_most(2_950))]
#[bench::no_name(args = ("nothing.example.", Rtype::A, Unsigned, NxDomain), config = at_most(5_780))]
#[bench::alias(args = ("alias.example.", Rtype::A, Unsigned, Positive), config = at_most(2_660))]
#[bench::redirect(args = ("www.other.example.", Rtype::A, Unsigned, Positive), config = at_most(3_390))]
#[bench::wildcard(args = ("any.wild.example.", Rtype::A, Unsigned, Positive), config = at_most(5_150))]
#[bench::referral(args = ("www.below.example.", Rtype::A, Unsigned, Referral), config = at_most(3_460))]
#[bench::additional(args = ("example.", Rtype::MX, Unsigned, Positive), config = at_most(2_410))]
#[bench::many(args = ("many.example.", Rtype::A, Unsigned, Positive), config = at_most(2_550))]
#[bench::signed(args = ("host04711.example.", Rtype::A, Nsec, Positive), config = at_most(2_960))]
#[bench::no_name_nsec(args = ("nothing.example.", Rtype::A, Nsec, NxDomain), config = at_most(5_770))]
#[bench::no_name_nsec3(args = ("nothing.example.", Rtype::A, Nsec3, NxDomain), config = at_most(5_770))]
fn look_up(mut case: Case) -> (bool, Case) {
    let Case { reader, qname, rtype, .. } = &mut case;
    let set = reader.pin();
    let zone = set.find_for(black_box(qname.as_ref()), *rtype);
    let outcome = zone.as_ref().map(|zone| lookup(zone, qname.as_ref(), *rtype));
    (black_box(outcome).is_some(), case)
}

#[library_benchmark(setup = together)]
#[bench::sixteen(config = at_most(58_000))]
fn batch(mut together: Together) -> (usize, Together) {
    let bytes = answered_together(black_box(&mut together));
    (bytes, together)
}

library_benchmark_group!(name = answers, benchmarks = [parse, look_up, whole, batch]);

main!(library_benchmark_groups = answers);
