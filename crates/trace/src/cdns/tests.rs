//! Tests with generated C-DNS files: messages are rebuilt, and missing or damaged parts are reported.

use super::CdnsReader;
use crate::message::Transport;
use crate::message_queue::MessageQueue;
use crate::tally::{Tally, UnreadReason};
use proptest::prelude::*;
use std::io::Cursor;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rtype};
use wire::parse::{Header, Section};
use wire::{Name, NameRef};

/// First bytes of an item (RFC 8949 3).
fn head(major: u8, argument: u64) -> Vec<u8> {
    let first = major << 5;
    match argument {
        0..=23 => vec![first | argument as u8],
        24..=0xFF => vec![first | 24, argument as u8],
        0x100..=0xFFFF => [&[first | 25], &(argument as u16).to_be_bytes()[..]].concat(),
        0x1_0000..=0xFFFF_FFFF => [&[first | 26], &(argument as u32).to_be_bytes()[..]].concat(),
        _ => [&[first | 27], &argument.to_be_bytes()[..]].concat(),
    }
}

fn number(number: i64) -> Vec<u8> {
    if number < 0 { head(1, !number as u64) } else { head(0, number as u64) }
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

fn array(items: &[Vec<u8>]) -> Vec<u8> {
    [head(4, items.len() as u64), items.concat()].concat()
}

fn map(pairs: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let items: Vec<u8> = pairs.iter().flat_map(|(key, value)| [number(*key), value.clone()].concat()).collect();
    [head(5, pairs.len() as u64), items].concat()
}

fn numbers(pairs: &[(i64, i64)]) -> Vec<u8> {
    map(&pairs.iter().map(|&(key, value)| (key, number(value))).collect::<Vec<_>>())
}

/// Every part of queries and responses is recorded.
const ALL_HINTS: i64 = 0x3_FFFF;
/// Everything except the records of responses.
const NO_RESPONSE_HINTS: i64 = 0x7FFF;
const COOKIE: [u8; 12] = [0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];

fn name() -> Name {
    "www.example.".parse().unwrap()
}

fn tables() -> Vec<u8> {
    let v6 = "2001:db8::53".parse::<std::net::Ipv6Addr>().unwrap().octets();
    let addresses: [&[u8]; 4] = [&[192, 0, 2, 1], &v6, &[198, 51, 100, 53], &[10, 1]];
    let name = name();
    let names: [&[u8]; 7] = [name.as_bytes(), b"\0", &[192, 0, 2, 7], &COOKIE, &[1, 2, 3], b"", &[0xC0, 0x0C]];
    let strings = |all: &[&[u8]]| array(&all.iter().map(|string| bytes(string)).collect::<Vec<_>>());
    let classtypes = [(1, 1), (41, 1_232), (250, 255), (2, 1)].map(|(rtype, class)| numbers(&[(0, rtype), (1, class)]));
    // RD and DO of the query, AA and RD of the response.
    let flags = 1 << 4 | 1 << 7 | 1 << 14 | 1 << 12;
    let common = [(0, 2), (1, 53), (2, 0), (3, 3), (5, 0), (6, flags), (7, 0), (8, 0)];
    let edns = [(9, 1), (10, 0), (11, 0), (12, 2), (13, 0), (14, 1_232), (15, 3), (16, 0)];
    let signatures = [
        // Query and response, both with OPT.
        numbers(&[&common[..], &edns, &[(4, 0b1111)]].concat()),
        // A query over TCP and IPv6.
        numbers(&[(0, 1), (1, 53), (2, 0b11), (4, 0b01), (8, 3)]),
        // Neither.
        numbers(&[(0, 2)]),
        // A query whose header counts a missing record.
        numbers(&[(0, 2), (2, 0), (4, 0b01), (8, 0), (12, 1)]),
        // Only a response, without a question.
        numbers(&[(0, 2), (1, 53), (2, 0), (4, 0b10_0010), (6, 1 << 13), (16, 5)]),
        // Over DTLS.
        numbers(&[(0, 2), (2, 3 << 1), (4, 0b01), (8, 0)]),
    ];
    let record = |values: [i64; 4]| numbers(&[(0, values[0]), (1, values[1]), (2, values[2]), (3, values[3])]);
    let lists = [vec![0], vec![1], vec![2], vec![99]];
    map(&[
        (0, strings(&addresses)),
        (1, array(&classtypes)),
        (2, strings(&names)),
        (3, array(&signatures)),
        (6, array(&lists.map(|list| array(&list.into_iter().map(number).collect::<Vec<_>>())))),
        (7, array(&[record([0, 0, 300, 2]), record([1, 1, 0x8000, 5]), record([0, 2, 0, 4])])),
        (8, array(&[map(&[(0, number(2)), (1, number(53)), (2, number(0)), (3, bytes(&[9; 20]))])])),
    ])
}

/// A file with one block of these items.
fn file(hints: i64, items: &[Vec<u8>], more: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let storage = map(&[(0, number(1_000_000)), (1, number(5_000)), (2, numbers(&[(0, hints), (1, 0)]))]);
    let parameters = array(&[map(&[(0, storage)])]);
    let preamble = map(&[(0, number(1)), (1, number(0)), (-1, number(7)), (3, parameters)]);
    let earliest = array(&[number(1_600_000_000), number(500_000)]);
    let block = [(0, map(&[(0, earliest)])), (2, tables()), (3, array(items))];
    let block = map(&[&block[..], more].concat());
    [head(4, 3), head(3, 5), b"C-DNS".to_vec(), preamble, array(&[block])].concat()
}

/// Position of the array of blocks. Its only item is a map of three.
fn blocks_at(file: &[u8]) -> usize {
    let found: Vec<_> = file.windows(3).enumerate().filter(|(_, bytes)| **bytes == [0x81, 0xA3, 0]).collect();
    assert_eq!(found.len(), 1);
    found[0].0
}

/// A query, and its response 1.5 ms later, with all fields.
fn full() -> Vec<u8> {
    let own = [(0, number(250_000)), (1, number(0)), (2, number(40_000)), (3, number(4_711)), (4, number(0))];
    let rest = [(6, number(1_500)), (7, number(0)), (11, numbers(&[(3, 2)])), (12, numbers(&[(1, 0), (3, 1)]))];
    map(&[&own[..], &rest].concat())
}

type Found = (u64, String, String, Transport, Vec<u8>);

fn read(bytes: &[u8]) -> (Vec<Found>, Tally, Option<String>) {
    let (mut queue, mut tally, mut found) = (MessageQueue::default(), Tally::default(), Vec::new());
    let mut reader = CdnsReader::new(Box::new(Cursor::new(bytes.to_vec())));
    let error = loop {
        match reader.advance(&mut queue, &mut tally) {
            Ok(true) => {
                while let Some(message) = queue.pop() {
                    let (source, destination) = (message.source.to_string(), message.destination.to_string());
                    found.push((message.at_ns, source, destination, message.transport, message.bytes.to_vec()));
                }
            }
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
    assert_eq!(tally.records, tally.messages + unread, "{tally:?}");
    assert_eq!(tally.messages, found.len() as u64);
    (found, tally, error)
}

fn example(header: Header) -> MessageBuilder {
    MessageBuilder::new(header).question(name().as_ref(), Rtype::A, Class::IN)
}

#[test]
fn a_query_and_its_response_are_rebuilt_with_their_times() {
    let early = numbers(&[(0, 100), (1, 1), (2, 50_000), (3, 7), (4, 1), (7, 0)]);
    let (found, tally, error) = read(&file(ALL_HINTS, &[full(), early], &[]));
    assert_eq!((error, tally.lost()), (None, 0));
    let ns = MessageBuilder::query(7, name().as_ref(), Rtype::NS).build();
    let query = example(Header { id: 4_711, rd: true, ..Header::default() })
        .record(Section::Additional, NameRef::ROOT, Rtype::OPT, Class(1_232), 0x8000, &COOKIE)
        .record(Section::Additional, name().as_ref(), Rtype::TSIG, Class::ANY, 0, &[1, 2, 3])
        .build();
    let response = example(Header { id: 4_711, qr: true, aa: true, rd: true, ..Header::default() })
        .record(Section::Answer, name().as_ref(), Rtype::A, Class::IN, 300, &[192, 0, 2, 7])
        .record(Section::Additional, NameRef::ROOT, Rtype::OPT, Class(1_232), 0x8000, &[])
        .build();
    let (client, server, v6) = ("192.0.2.1:40000", "198.51.100.53:53", "[2001:db8::53]");
    let expected = [
        (1_600_000_000_500_100_000, format!("{v6}:50000"), format!("{v6}:53"), Transport::Tcp, ns),
        (1_600_000_000_750_000_000, client.to_owned(), server.to_owned(), Transport::Udp, query),
        (1_600_000_000_751_500_000, server.to_owned(), client.to_owned(), Transport::Udp, response),
    ];
    assert_eq!(found, expected);
}

#[test]
fn missing_data_is_counted_and_not_invented() {
    let item = |pairs: &[(i64, i64)]| numbers(pairs);
    for (what, hints, items, messages, unread) in [
        ("responses", NO_RESPONSE_HINTS, full(), 1, Some(UnreadReason::NoMessage)),
        ("name", ALL_HINTS, item(&[(1, 1), (4, 1)]), 0, Some(UnreadReason::NoMessage)),
        ("signature", ALL_HINTS, item(&[(1, 0), (7, 0)]), 0, Some(UnreadReason::NoMessage)),
        ("flags", ALL_HINTS, item(&[(1, 0), (4, 2), (7, 0)]), 0, Some(UnreadReason::NoMessage)),
        ("records", ALL_HINTS, item(&[(1, 0), (4, 3), (7, 0)]), 0, Some(UnreadReason::NoMessage)),
        ("question", ALL_HINTS, item(&[(1, 0), (3, 9), (4, 4)]), 1, None),
        ("DTLS", ALL_HINTS, item(&[(1, 0), (4, 5), (7, 0)]), 0, Some(UnreadReason::OtherProtocol)),
        ("address, port and ID", ALL_HINTS, item(&[(4, 1), (7, 0)]), 1, None),
        ("index", ALL_HINTS, item(&[(1, 77), (4, 1), (7, 0)]), 0, Some(UnreadReason::HeaderMalformed)),
        ("no name", ALL_HINTS, item(&[(1, 1), (4, 1), (7, 6)]), 0, Some(UnreadReason::NotSendable)),
        ("port", ALL_HINTS, item(&[(1, 1), (2, 65_536), (4, 1), (7, 0)]), 0, Some(UnreadReason::HeaderMalformed)),
    ] {
        let (found, tally, error) = read(&file(hints, &[items], &[]));
        assert_eq!((found.len(), error), (messages, None), "{what}");
        let reasons: Vec<_> = tally.all_unread().collect();
        assert_eq!(reasons, unread.map(|unread| (unread, 1)).into_iter().collect::<Vec<_>>(), "{what}");
    }
}

#[test]
fn lone_responses_have_their_time_and_prefixes_are_padded_with_zeros() {
    let item = numbers(&[(0, 5), (1, 3), (3, 9), (4, 4), (6, 1_000)]);
    let (found, ..) = read(&file(ALL_HINTS, &[item], &[]));
    let refused = Header { id: 9, qr: true, tc: true, rcode: 5, ..Header::default() };
    let (server, client) = ("198.51.100.53:53".to_owned(), "10.1.0.0:0".to_owned());
    let bytes = MessageBuilder::new(refused).build();
    assert_eq!(found, [(1_600_000_000_500_005_000, server, client, Transport::Udp, bytes)]);
}

#[test]
fn malformed_messages_are_kept_and_events_are_no_messages() {
    let malformed = array(&[numbers(&[(0, 1), (1, 0), (2, 4_000), (3, 0)]), numbers(&[(0, 1), (3, 8)])]);
    let events = array(&[numbers(&[(0, 1), (3, 0), (4, 12)])]);
    let (found, tally, error) = read(&file(ALL_HINTS, &[], &[(5, malformed), (4, events)]));
    assert_eq!(error, None);
    let (client, server) = ("192.0.2.1:4000".to_owned(), "198.51.100.53:53".to_owned());
    assert_eq!(found, [(1_600_000_000_500_001_000, client, server, Transport::Udp, vec![9; 20])]);
    assert_eq!((tally.unread(UnreadReason::OtherRecord), tally.unread(UnreadReason::NoMessage)), (1, 1));
}

#[test]
fn arrays_and_maps_without_a_length_are_read_too() {
    let whole = file(ALL_HINTS, &[full()], &[]);
    let expected = read(&whole).0;
    // The file and its blocks are arrays, as real programs write them.
    let blocks = blocks_at(&whole);
    let mut endless = whole.clone();
    (endless[0], endless[blocks]) = (0x9F, 0x9F);
    // {0: .., 2: .., 3: ..} with a break after it.
    endless[blocks + 1] = 0xBF;
    endless.extend_from_slice(&[0xFF, 0xFF, 0xFF]);
    assert_eq!(read(&endless), (expected, read(&whole).1, None));
}

#[test]
fn truncated_files_are_reported_and_complete_blocks_are_read() {
    let one = file(ALL_HINTS, &[full()], &[]);
    // The same block twice.
    let start = blocks_at(&one);
    let mut both = one.clone();
    both[start] = 0x82;
    both.extend_from_slice(&one[start + 1..]);
    assert_eq!(read(&both).0.len(), 4);
    for end in 0..both.len() {
        let (found, _, error) = read(&both[..end]);
        assert!(error.is_some(), "{end}");
        assert_eq!(found.len(), if end < one.len() { 0 } else { 2 }, "{end}");
    }
}

#[test]
fn claimed_sizes_allocate_no_memory() {
    let head_of = |claim: &[u8]| {
        let whole = file(ALL_HINTS, &[full()], &[]);
        let start = blocks_at(&whole);
        [&whole[..=start], claim].concat()
    };
    for (claim, why) in [
        (&[0x9B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF][..], "ends within a block"),
        (&[0xBB, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF], "a map with too many pairs"),
        (&[0x5A, 0xFF, 0xFF, 0xFF, 0xFF], "larger than 64 MiB"),
        (&[0x5A, 0x03, 0xFF, 0xFF, 0x00], "ends within a block"),
        (&[0x81; 100], "nested too deeply"),
        (&[0xFF], "expected an item"),
        (&[0x07], "without a preamble"),
    ] {
        let (found, _, error) = read(&head_of(claim));
        let error = error.unwrap_or_default();
        assert!(found.is_empty() && error.contains(why), "{claim:02x?}: {error}");
    }
}

#[test]
fn other_cbor_is_no_cdns() {
    for bytes in [&b"\x83\x65C-DNT\xA0\x80"[..], b"\x82\x65C-DNS\xA1\x00\x01", b"\x83\x65C-DNS\xA1\x00\x02\x80", b""] {
        let (found, _, error) = read(bytes);
        assert!(found.is_empty() && error.is_some(), "{bytes:02x?}");
    }
}

#[test]
fn no_altered_byte_makes_the_reader_panic_or_count_wrong() {
    let malformed = array(&[numbers(&[(0, 1), (1, 0), (2, 4_000), (3, 0)])]);
    let whole = file(ALL_HINTS, &[full(), numbers(&[(0, 1), (1, 1), (4, 1), (7, 0)])], &[(5, malformed)]);
    for at in 0..whole.len() {
        for change in [0x01, 0x02, 0x10, 0x20, 0x80, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            read(&bytes);
        }
    }
}

proptest! {
    #[test]
    fn random_items_are_counted(items in prop::collection::vec(
        prop::collection::vec((0_i64..13, prop_oneof![-2_i64..8, any::<i64>()]), 0..10), 0..10,
    )) {
        let items: Vec<_> = items.iter().map(|pairs| numbers(pairs)).collect();
        let (_, tally, error) = read(&file(ALL_HINTS, &items, &[]));
        prop_assert!(error.is_none() && tally.records >= items.len() as u64);
    }

    #[test]
    fn random_bytes_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let whole = file(ALL_HINTS, &[], &[]);
        let start = blocks_at(&whole);
        read(&[&whole[..=start], &bytes].concat());
        read(&bytes);
    }
}

#[test]
fn the_fuzz_seed_is_valid() {
    let early = numbers(&[(0, 100), (1, 1), (2, 50_000), (3, 7), (4, 1), (7, 0)]);
    let hex: String = file(ALL_HINTS, &[full(), early], &[]).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(include_str!("../../testdata/cdns.hex").trim_end(), hex);
}
