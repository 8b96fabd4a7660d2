//! What looking a batch of names up side by side saves: `cargo run --release -p catamaran-zone --example
//! batched_answers`. One million A records; random names of all of them, and of a thousand; with and without in turn.
#![expect(clippy::disallowed_methods, reason = "an example is a shell: it has a clock")]

use catamaran_zone as zone;
use std::time::Instant;
use wire::builder::MessageBuilder;
use wire::parse::{FirstQuestion, Parsed, parse_request};
use wire::{Name, Rtype};
use zone::answer::{AnswerContext, Batch, Chaos, Servable, Transport, answer};
use zone::record::{Record, ZoneId};
use zone::set::{StoreConfig, ZoneReader, ZoneSet, ZoneSetConfig};

const NAMES: u64 = 1_000_000;
const HOT: u64 = 1_000;
const PAIRS: usize = 9;
/// As many datagrams as a worker takes at once when it has much to do.
const BATCH: usize = 64;

fn owner(number: u64) -> Name {
    // An odd factor scatters the numbers over 32 bits, without collisions.
    let scattered = (number as u32).wrapping_mul(2_654_435_761);
    format!("host{scattered:08x}.example.test.").parse().expect("a name")
}

fn set() -> ZoneSet {
    let apex: Name = "example.test.".parse().expect("a name");
    let id = ZoneId { view: 0, apex: apex.clone() };
    let soa = [b"\x02ns\x00\x04mail\x00".as_slice(), &[0, 0, 0, 1].repeat(5)].concat();
    let mut records = vec![Record { owner: apex, rtype: Rtype::SOA, ttl: 1, rdata: soa.into() }];
    let address = |number: u64| (number as u32).to_be_bytes().as_slice().into();
    let host = |number| Record { owner: owner(number), rtype: Rtype::A, ttl: 1, rdata: address(number) };
    records.extend((0..NAMES).map(host));
    let mut set = ZoneSet::new(ZoneSetConfig { store: StoreConfig::default() }).expect("addresses");
    let mut edit = set.edit();
    edit.add_records(&id, &records).expect("memory");
    edit.commit_stage(&id).expect("a zone");
    let version = edit.seal();
    set.publish(version);
    set
}

/// A million queries, in an order of no pattern, for the first `count` names.
fn queries(count: u64) -> Vec<Vec<u8>> {
    let mut state = 1_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % count
    };
    (0..NAMES).map(|_| MessageBuilder::query(7, owner(draw()).as_ref(), Rtype::A).build()).collect()
}

/// Nanoseconds for each answer.
fn run(reader: &mut ZoneReader, queries: &[Vec<u8>], mut batch: Option<&mut Batch>) -> f64 {
    let state = |_: &zone::set::Zone<'_>| Servable::Ready;
    let context = AnswerContext {
        transport: Transport::Udp,
        udp_bytes_max: 1232,
        payload: 1232,
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos::default(),
        zone_state: &state,
        tsig_reserve: 0,
    };
    let (mut out, mut bytes) = ([0; 4096], 0);
    let start = Instant::now();
    for chunk in queries.chunks(BATCH) {
        let set = reader.pin();
        let questions = chunk.iter().map(|query| FirstQuestion::read(query).ok());
        let mut prepared = batch.as_mut().map(|batch| batch.prepare(set, questions));
        for (index, query) in chunk.iter().enumerate() {
            let Parsed::Request(request) = parse_request(query) else { unreachable!("queries are well-formed") };
            bytes += match &mut prepared {
                Some(prepared) => prepared.answer(index, &request, &context, &mut out).len,
                None => answer(set, &request, &context, &mut out).len,
            };
        }
    }
    let time = start.elapsed();
    // Header, question and one address of 4 bytes behind a pointer to the name.
    assert_eq!(bytes, queries.iter().map(|query| query.len() + 16).sum());
    time.as_nanos() as f64 / queries.len() as f64
}

fn main() {
    let set = set();
    let (mut reader, mut batch) = (set.reader(), Batch::new());
    for (what, count) in [("of a million", NAMES), ("of a thousand", HOT)] {
        let queries = queries(count);
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            let (one, all) = (run(&mut reader, &queries, None), run(&mut reader, &queries, Some(&mut batch)));
            println!("names {what}: one by one {one:.0} ns an answer, side by side {all:.0} ns: {:.2}", all / one);
            ratios.push(all / one);
        }
        ratios.sort_by(f64::total_cmp);
        println!("names {what}: median of the ratios {:.2}", ratios[PAIRS / 2]);
    }
}
