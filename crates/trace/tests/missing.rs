//! Captures with missing or repeated data. Complete messages come once, at their own time. Incomplete ones count as
//! lost.

use std::net::SocketAddr;
use std::path::PathBuf;
use trace::{Message, Options, Tally, Transport, UnreadReason, open};

const SYN: u8 = 0x02;
const FIN: u8 = 0x11;
const ACK: u8 = 0x10;

/// Sequence number at the start of each stream.
const FIRST: u32 = 3_000_000_000;
/// A tenth of a second.
const STEP_NS: u64 = 100_000_000;

/// A query with its length field, 31 bytes in all. The number is its ID.
fn framed(number: u16) -> Vec<u8> {
    let name = b"\x03www\x07example\0";
    [&[0, 29][..], &number.to_be_bytes(), &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], name, &[0, 1, 0, 1]].concat()
}

const FRAMED_BYTES: u32 = 31;

/// A packet of a client without IP options.
fn packet(identification: u16, fragment_field: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let bytes = ((20 + payload.len()) as u16).to_be_bytes();
    let ([a, b], [c, d]) = (identification.to_be_bytes(), fragment_field.to_be_bytes());
    let head = [0x45, 0, bytes[0], bytes[1], a, b, c, d, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 53];
    [&head, payload].concat()
}

fn segment(sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let head = [&[0x0F, 0xA0, 0, 53][..], &sequence.to_be_bytes(), &[0, 0, 0, 1, 0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]];
    packet(0, 0, 6, &[&head.concat(), payload].concat())
}

/// The query with this number in a stream.
fn query(number: u16) -> Vec<u8> {
    segment(FIRST + FRAMED_BYTES * u32::from(number), ACK, &framed(number))
}

/// Time, source and number of each message in order, and the tally.
type ReadResult = (Vec<(u64, SocketAddr, u16)>, Tally);

fn read(name: &str, packets: &[(u64, Vec<u8>)]) -> ReadResult {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let mut capture = words(&[0xA1B2_3C4D, 0x0002_0004, 0, 0, 65_535, 101]);
    for (at_ns, packet) in packets {
        let bytes = packet.len() as u32;
        capture.extend(words(&[(at_ns / 1_000_000_000) as u32, (at_ns % 1_000_000_000) as u32, bytes, bytes]));
        capture.extend(packet);
    }
    let path = scratch(&format!("{name}.pcap"));
    std::fs::write(&path, capture).unwrap();
    let mut reader = open(&path, &Options::default()).unwrap();
    let mut messages = Vec::new();
    while let Some(Message { at_ns, source, bytes, transport, .. }) = reader.next().unwrap() {
        assert!(transport == Transport::Udp || bytes == &framed(u16::from_be_bytes([bytes[0], bytes[1]]))[2..]);
        messages.push((at_ns, source, u16::from_be_bytes([bytes[0], bytes[1]])));
    }
    std::fs::remove_file(path).unwrap();
    let tally = reader.tally().clone();
    let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
    assert_eq!(tally.records, tally.messages - tally.further_messages + unread, "{tally:?}");
    assert_eq!(tally.messages, messages.len() as u64);
    (messages, tally)
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("catamaran-trace-{}-{name}", std::process::id()))
}

fn client() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 4_000))
}

/// The expected messages for these numbers, one per step, as in [`stream`].
fn at_their_times(numbers: impl Iterator<Item = u16>) -> Vec<(u64, SocketAddr, u16)> {
    numbers.map(|number| (STEP_NS * u64::from(number), client(), number)).collect()
}

/// A stream of queries, one per step, without those that were not captured.
fn stream(count: u16, is_there: impl Fn(&u16) -> bool) -> Vec<(u64, Vec<u8>)> {
    let end = FIRST + FRAMED_BYTES * u32::from(count);
    let mut packets = vec![(0, segment(FIRST - 1, SYN, &[]))];
    packets.extend((0..count).filter(is_there).map(|number| (STEP_NS * u64::from(number), query(number))));
    packets.push((STEP_NS * u64::from(count), segment(end, FIN, &[])));
    packets
}

#[test]
fn all_messages_after_a_missing_segment_keep_their_times() {
    // A gap is given up at the end, after a time, or when too many segments wait.
    for (name, count, step) in [("end", 60, 1), ("time", 400, 1), ("count", 400, 100)] {
        let mut packets = stream(count, |&number| number != 3);
        packets.iter_mut().for_each(|(at_ns, _)| *at_ns /= step);
        let (messages, tally) = read(name, &packets);
        let mut expected = at_their_times((0..count).filter(|&number| number != 3));
        expected.iter_mut().for_each(|(at_ns, ..)| *at_ns /= step);
        assert_eq!(messages, expected, "{name}");
        // Only the number of missing bytes is known.
        assert_eq!((tally.lost(), tally.unread(UnreadReason::SegmentPart)), (0, 0), "{name}: {tally:?}");
    }
}

/// A silent stream with a gap does not delay other streams.
#[test]
fn gaps_are_abandoned_as_time_advances() {
    let mut packets = stream(6, |&number| number != 3);
    let datagram = [&[0x0F, 0xA1, 0, 53, 0, 37, 0, 0][..], &framed(9)[2..]].concat();
    packets.extend([1, 20].map(|seconds| (seconds * 1_000_000_000, packet(1, 0, 17, &datagram))));
    let (messages, tally) = read("elsewhere", &packets);
    assert_eq!(messages.iter().map(|message| message.2).collect::<Vec<_>>(), [0, 1, 2, 9, 4, 5, 9]);
    assert_eq!(tally.lost(), 0);
}

#[test]
fn an_incomplete_message_loses_only_itself() {
    let split = |number: u16| {
        let (at, whole) = (FIRST + FRAMED_BYTES * u32::from(number), framed(number));
        [segment(at, ACK, &whole[..10]), segment(at + 10, ACK, &whole[10..20]), segment(at + 20, ACK, &whole[20..])]
    };
    let [[begin, _, end], [one, two, three]] = [split(1), split(4)];
    let packets = [query(0), begin, end, query(2), query(3), one, two, three, query(5)];
    let packets: Vec<_> = packets.into_iter().zip(1..).map(|(packet, at_ns)| (at_ns, packet)).collect();
    let (messages, tally) = read("parts", &packets);
    let found: Vec<_> = messages.iter().map(|&(at_ns, _, number)| (at_ns, number)).collect();
    // A message over several segments has the time of its last byte.
    assert_eq!(found, [(1, 0), (4, 2), (5, 3), (8, 4), (9, 5)]);
    assert_eq!(
        (tally.lost(), tally.unread(UnreadReason::SegmentUnsynced), tally.unread(UnreadReason::SegmentPart)),
        (2, 2, 2)
    );
}

/// Data that fills a gap does not change the times of later messages. Data that arrives after the gap was given up
/// counts as lost, not as retransmitted.
#[test]
fn late_segments_are_used_or_counted_as_lost() {
    let late = |seconds: u64| {
        let mut packets = stream(6, |&number| number != 3);
        packets.push((seconds * 1_000_000_000, query(3)));
        read("late", &packets)
    };
    let (mut messages, tally) = late(2);
    messages.sort_by_key(|message| message.2);
    let mut expected = at_their_times(0..6);
    expected[3].0 = 2_000_000_000;
    assert_eq!((messages, tally.lost()), (expected, 0));
    let (messages, tally) = late(60);
    assert_eq!((messages, tally.lost()), (at_their_times((0..6).filter(|&number| number != 3)), 1));
}

/// The SYN of the second connection was not captured. Its sequence numbers are lower or higher than those of the first.
#[test]
fn connections_with_reused_ports_are_new_streams() {
    for first in [2_000_000_000, 4_000_000_000_u32] {
        let mut packets = vec![(0, segment(FIRST - 1, SYN, &[]))];
        packets.extend((0..5).map(|number| (STEP_NS * u64::from(number), query(number))));
        packets.extend((5..305).map(|number| {
            let sequence = first + FRAMED_BYTES * u32::from(number);
            (STEP_NS * u64::from(number), segment(sequence, ACK, &framed(number)))
        }));
        let (messages, tally) = read("again", &packets);
        assert_eq!(messages, at_their_times(0..305), "{first}");
        assert_eq!(tally.lost(), 0, "{first}: {tally:?}");
    }
}

#[test]
fn distant_data_without_a_message_is_lost() {
    let strange = segment(FIRST - 1_000_000_000, ACK, &[0xFF; 40]);
    let packets = [(1, query(0)), (2, strange), (3, query(1))];
    let (messages, tally) = read("strange", &packets);
    assert_eq!((messages.len(), tally.lost(), tally.unread(UnreadReason::SegmentUnsynced)), (2, 1, 1));
}

#[test]
fn a_repeated_syn_does_not_restart_the_stream() {
    let mut packets = stream(10, |_| true);
    packets.insert(4, (STEP_NS * 2, segment(FIRST - 1, SYN, &[])));
    let (messages, tally) = read("syn", &packets);
    assert_eq!((messages, tally.lost()), (at_their_times(0..10), 0));
}

/// Queries of a client that sends each length field in a separate segment.
fn length_apart(count: u16) -> Vec<(u64, Vec<u8>)> {
    let parts = |number: u16| {
        let (at, whole) = (FIRST + FRAMED_BYTES * u32::from(number), framed(number));
        [segment(at, ACK, &whole[..2]), segment(at + 2, ACK, &whole[2..])]
    };
    let mut packets = vec![(0, segment(FIRST - 1, SYN, &[]))];
    packets.extend(
        (0..count).flat_map(|number| parts(number).map(|segment| (STEP_NS * (u64::from(number) + 1), segment))),
    );
    packets
}

#[test]
fn a_lost_segment_loses_only_its_message() {
    let all = length_apart(20);
    for lost in 1..all.len() {
        let mut packets = all.clone();
        packets.remove(lost);
        let (messages, tally) = read("lost", &packets);
        let numbers: Vec<_> = messages.iter().map(|message| message.2).collect();
        let expected: Vec<_> = (0..20).filter(|&number| usize::from(number) != (lost - 1) / 2).collect();
        assert_eq!(numbers, expected, "without segment {lost}");
        let bytes = [2, 29];
        let (missing, skipped) = (bytes[(lost - 1) % 2], bytes[lost % 2]);
        let at_the_end = lost == all.len() - 1;
        assert_eq!(tally.bytes_missing, if at_the_end { 0 } else { missing }, "without segment {lost}");
        assert_eq!(tally.bytes_skipped, skipped, "without segment {lost}");
    }
}

#[test]
fn captures_that_begin_within_a_stream_have_all_complete_messages() {
    let all = length_apart(20);
    for begin in 1..all.len() {
        let (messages, tally) = read("begin", &all[begin..]);
        let first = (begin / 2) as u16;
        assert_eq!(messages.iter().map(|message| message.2).collect::<Vec<_>>(), (first..20).collect::<Vec<_>>());
        assert_eq!(tally.bytes_skipped, if begin % 2 == 0 { 29 } else { 0 }, "from segment {begin} on");
    }
}

/// Many messages share few segments, so after a gap no message begins at the start of a segment.
#[test]
fn a_message_within_a_segment_after_a_gap_is_found() {
    let bytes: Vec<u8> = (0..60).flat_map(framed).collect();
    let segments: Vec<_> = bytes.chunks(100).zip(0..).collect();
    for lost in 0..segments.len() - 1 {
        let there = segments.iter().filter(|(_, at)| *at != lost);
        let packets: Vec<_> =
            there.map(|(part, at)| (*at as u64, segment(FIRST + 100 * *at as u32, ACK, part))).collect();
        let (messages, _) = read("across", &packets);
        let is_whole = |number: usize| number * 31 / 100 != lost && (number * 31 + 30) / 100 != lost;
        let expected: Vec<_> = (0..60).filter(|&number| is_whole(number.into())).collect();
        assert_eq!(messages.iter().map(|message| message.2).collect::<Vec<_>>(), expected, "without segment {lost}");
    }
}

/// The fragments of a datagram with a message of 64 bytes and this ID.
fn fragments(number: u16) -> [Vec<u8>; 2] {
    let message = [&framed(number)[2..], &[0; 27]].concat();
    let datagram = [&[0x0F, 0xA0, 0, 53, 0, 64, 0, 0][..], &message].concat();
    // RFC 791 3.2: offset in words of eight bytes, and the flag for more fragments.
    [packet(7, 1 << 13, 17, &datagram[..32]), packet(7, 4, 17, &datagram[32..])]
}

#[test]
fn duplicate_fragments_give_one_datagram() {
    let ([one, two], [other_one, other_two]) = (fragments(1), fragments(2));
    for (name, packets, found) in [
        ("pairs", vec![&one, &one, &two, &two], &[1][..]),
        ("rounds", vec![&one, &two, &one, &two], &[1]),
        ("backwards", vec![&two, &two, &one, &one], &[1]),
        // The same identification with another datagram.
        ("other", vec![&one, &two, &other_one, &other_two, &two], &[1, 2]),
    ] {
        let packets: Vec<_> = packets.into_iter().zip(0..).map(|(packet, at_ns)| (at_ns, packet.clone())).collect();
        let (messages, tally) = read(name, &packets);
        assert_eq!(messages.iter().map(|message| message.2).collect::<Vec<_>>(), found, "{name}");
        assert_eq!(tally.lost(), 0, "{name}: {tally:?}");
    }
}

/// A client without an answer retransmits, and its system may reuse the IP identification.
#[test]
fn a_resent_fragmented_datagram_is_a_message() {
    let [one, two] = fragments(1);
    let packets = [(0, &one), (1, &two), (5_000, &one), (5_001, &two), (2_000_000, &one), (2_000_001, &two)];
    let packets = packets.map(|(at_us, packet)| (at_us * 1_000, packet.clone()));
    let (messages, tally) = read("sent-again", &packets);
    assert_eq!(messages.iter().map(|message| message.0).collect::<Vec<_>>(), [1_000, 2_000_001_000]);
    assert_eq!(
        (tally.unread(UnreadReason::FragmentRepeated), tally.unread(UnreadReason::Fragment), tally.lost()),
        (2, 2, 0)
    );
}
