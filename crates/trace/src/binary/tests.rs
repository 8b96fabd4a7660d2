//! Round trips, and detection of damage: messages before the damage are still read.

use super::chunk::{self, Packing};
use super::{BinaryReader, BinaryWriter, HEAD_BYTES, head, index};
use crate::limits::{CHUNK_BYTES_MAX, CHUNK_MESSAGES_MAX, CHUNK_UNPACKED_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::message::{Message, Transport};
use crate::message_queue::MessageQueue;
use crate::tally::Tally;
use proptest::prelude::*;
use std::io::Cursor;
use std::net::{IpAddr, SocketAddr};

/// A message that owns its bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
struct OwnedMessage {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
    transport: Transport,
    bytes: Vec<u8>,
}

impl OwnedMessage {
    fn of(message: &Message<'_>) -> Self {
        let Message { at_ns, source, destination, transport, bytes } = *message;
        Self { at_ns, source, destination, transport, bytes: bytes.to_vec() }
    }

    fn as_message(&self) -> Message<'_> {
        let Self { at_ns, source, destination, transport, ref bytes } = *self;
        Message { at_ns, source, destination, transport, bytes }
    }
}

fn write(messages: &[OwnedMessage], chunk_messages: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = BinaryWriter::with_chunks_of(chunk_messages);
    writer.begin(&mut out).unwrap();
    for message in messages {
        assert!(writer.write(&message.as_message(), &mut out).unwrap());
    }
    writer.end(&mut out).unwrap();
    out
}

/// Returns the messages of a reader, and the error at the end.
fn drain(mut reader: BinaryReader) -> (Vec<OwnedMessage>, Option<String>) {
    let (mut queue, mut tally, mut messages) = (MessageQueue::default(), Tally::default(), Vec::new());
    let error = loop {
        match reader.advance(&mut queue, &mut tally) {
            Ok(true) => messages.push(OwnedMessage::of(&queue.pop().unwrap())),
            Ok(false) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    assert_eq!((tally.records, tally.messages), (messages.len() as u64, messages.len() as u64));
    assert!(matches!(reader.advance(&mut queue, &mut tally), Ok(false)), "nothing comes behind the end");
    (messages, error)
}

fn read(bytes: &[u8]) -> (Vec<OwnedMessage>, Option<String>) {
    drain(BinaryReader::new(Box::new(Cursor::new(bytes.to_vec()))))
}

/// Queries of a few clients, in order.
fn sample(count: usize) -> Vec<OwnedMessage> {
    let number = |at: usize| OwnedMessage {
        at_ns: 1_500_000_000_000_000_000 + 1_000 * at as u64,
        source: SocketAddr::new(IpAddr::from([192, 0, 2, (at % 7) as u8]), 1_024 + at as u16),
        destination: "[2001:db8::53]:53".parse().unwrap(),
        transport: Transport::ALL[at % 5],
        bytes: [&[at as u8, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + (at % 26) as u8, 0, 0, 1, 0, 1][..]].concat(),
    };
    (0..count).map(number).collect()
}

#[test]
fn complete_chunks_of_truncated_files_are_read() {
    let messages = sample(10);
    let whole = write(&messages, 4);
    assert_eq!(read(&whole), (messages.clone(), None));
    let mut most = 0;
    for end in 0..whole.len() {
        let (found, error) = read(&whole[..end]);
        assert!(error.is_some(), "{end}");
        assert!(found.len() >= most && messages.starts_with(&found), "{end}: {}", found.len());
        most = found.len();
    }
    assert_eq!(most, messages.len(), "the end alone is missing");
}

#[test]
fn flipped_bits_are_reported_and_earlier_data_is_read() {
    let messages = sample(9);
    let whole = write(&messages, 4);
    for at in 0..whole.len() {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            let (found, error) = read(&bytes);
            assert!(error.is_some(), "byte {at}, bit {bit}");
            assert!(messages.starts_with(&found), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_missing_or_repeated_chunk_is_an_error() {
    let messages = sample(12);
    let whole = write(&messages, 4);
    let mut begins = vec![HEAD_BYTES];
    for _ in 0..3 {
        let at = *begins.last().unwrap();
        let head = chunk::Head::read(whole[at..].first_chunk().unwrap()).unwrap();
        begins.push(at + chunk::HEAD_BYTES + head.packed_bytes);
    }
    let without = [&whole[..begins[1]], &whole[begins[2]..]].concat();
    let (found, error) = read(&without);
    assert_eq!(found, [&messages[..4], &messages[8..]].concat());
    assert!(error.is_some());
    let twice = [&whole[..begins[2]], &whole[begins[1]..]].concat();
    assert!(read(&twice).1.is_some());
    assert!(read(&[&whole[..], &whole].concat()).1.unwrap().contains("unexpected data after the end"));
}

#[test]
fn claimed_lengths_allocate_no_memory() {
    let good = chunk::Head {
        messages: 1,
        packed_bytes: 1,
        unpacked_bytes: 1,
        earliest_ns: 0,
        latest_ns: 0,
        packing: Packing::Lz4,
        checksum: 0,
    };
    let much = CHUNK_UNPACKED_BYTES_MAX + 1;
    for claim in [
        chunk::Head { packed_bytes: much, ..good },
        chunk::Head { unpacked_bytes: much, ..good },
        chunk::Head { unpacked_bytes: u32::MAX as usize, ..good },
        chunk::Head { messages: CHUNK_MESSAGES_MAX + 1, ..good },
        chunk::Head { messages: 0, ..good },
        chunk::Head { earliest_ns: 1, ..good },
    ] {
        assert!(chunk::Head::read(&claim.to_bytes()).is_err(), "{claim:?}");
    }
    assert_eq!(chunk::Head::read(&good.to_bytes()), Ok(good));
    // LZ4 data that unpacks to more than the head says.
    let packed = lz4_flex::block::compress(&[7; 100_000]);
    let head = chunk::Head { packed_bytes: packed.len(), unpacked_bytes: 50, ..good };
    let head = chunk::Head { checksum: crc32c::crc32c(&packed), ..head };
    let (found, error) = read(&[&super::head()[..], &head.to_bytes(), &packed].concat());
    assert!(found.is_empty() && error.unwrap().contains("cannot be unpacked"));
}

#[test]
fn the_largest_messages_and_the_fullest_chunks_come_back() {
    let large = |id: u16, bytes: usize| OwnedMessage {
        bytes: [&id.to_be_bytes()[..], &vec![id as u8; bytes - 2]].concat(),
        ..sample(1).remove(0)
    };
    let messages: Vec<_> = (0..40).map(|id| large(id, MESSAGE_BYTES_MAX)).collect();
    assert!(messages.len() * MESSAGE_BYTES_MAX > 2 * CHUNK_BYTES_MAX);
    assert_eq!(read(&write(&messages, CHUNK_MESSAGES_MAX)), (messages, None));
    // Nothing repeats: all addresses differ, and times are far apart.
    let message_at = |at: usize| {
        let mixed = (at as u128 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
        OwnedMessage {
            at_ns: mixed as u64,
            source: SocketAddr::new(IpAddr::from(mixed.to_be_bytes()), mixed as u16),
            destination: SocketAddr::new(IpAddr::from((!mixed).to_be_bytes()), (mixed >> 16) as u16),
            transport: Transport::Udp,
            bytes: mixed.to_be_bytes().to_vec(),
        }
    };
    let messages: Vec<_> = (0..CHUNK_MESSAGES_MAX + 1).map(message_at).collect();
    assert_eq!(read(&write(&messages, CHUNK_MESSAGES_MAX)), (messages, None));
}

#[test]
fn messages_of_invalid_length_are_not_written() {
    let mut out = Vec::new();
    let mut writer = BinaryWriter::default();
    writer.begin(&mut out).unwrap();
    for bytes in [11, MESSAGE_BYTES_MAX + 1] {
        let message = OwnedMessage { bytes: vec![0; bytes], ..sample(1).remove(0) };
        assert!(!writer.write(&message.as_message(), &mut out).unwrap());
    }
    writer.end(&mut out).unwrap();
    assert_eq!(read(&out), (Vec::new(), None));
}

#[test]
fn another_version_is_an_error() {
    let whole = write(&sample(1), 4);
    let newer: [u8; HEAD_BYTES] =
        super::sealed(super::concat_parts(&[&super::MAGIC, &2_u32.to_le_bytes()]), HEAD_BYTES - 4);
    let error = read(&[&newer[..], &whole[HEAD_BYTES..]].concat()).1.unwrap();
    assert!(error.contains("version 2"), "{error}");
    assert_eq!(head()[..8], super::MAGIC);
}

/// A temporary file.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("catamaran-trace-{}-{name}.catrace", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn reader(&self) -> BinaryReader {
        BinaryReader::of_file(std::fs::File::open(&self.0).unwrap()).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn any_time_is_found_with_the_index_and_without() {
    let mut messages = sample(1_000);
    // Time goes back in the middle.
    messages[500..].iter_mut().for_each(|message| message.at_ns -= 300_000);
    let whole = write(&messages, 10);
    let end = whole.windows(4).rposition(|bytes| *bytes == index::KIND).unwrap();
    let (with, without) = (Scratch::new("index", &whole), Scratch::new("no-index", &whole[..end]));
    let first = messages[0].at_ns;
    for (from, to) in [(0, 9_999), (250_000, 259_999), (199_999, 700_000), (690_000, 800_000), (5, 5), (900_000, 0)] {
        let wanted = first + from..=first + to;
        let is_wanted = |message: &&OwnedMessage| wanted.contains(&message.at_ns);
        let expected: Vec<_> = messages.iter().filter(is_wanted).cloned().collect();
        let streamed = || BinaryReader::new(Box::new(Cursor::new(whole.clone())));
        for (what, mut reader) in [("index", with.reader()), ("none", without.reader()), ("stream", streamed())] {
            reader.narrow(&wanted).unwrap();
            let (mut found, error) = drain(reader);
            // Only whole chunks are skipped.
            assert!(found.len() <= expected.len() + 40, "{what} {from} {to}: {}", found.len());
            found.retain(|message| is_wanted(&message));
            assert_eq!(found, expected, "{what} {from} {to}");
            assert_eq!(error.is_some(), what == "none", "{what} {from} {to}: {error:?}");
        }
    }
}

#[test]
fn the_range_can_be_narrowed_after_reading_has_begun() {
    let messages = sample(1_000);
    let scratch = Scratch::new("begun", &write(&messages, 10));
    let (mut queue, mut tally) = (MessageQueue::default(), Tally::default());
    let mut reader = scratch.reader();
    assert!(reader.advance(&mut queue, &mut tally).unwrap());
    assert_eq!(OwnedMessage::of(&queue.pop().unwrap()), messages[0]);
    let first = messages[0].at_ns;
    reader.narrow(&(first + 900_000..=first + 901_000)).unwrap();
    // The rest of the first chunk, then the wanted chunk.
    let rest = drain(reader).0;
    assert_eq!(rest, [&messages[1..10], &messages[900..910]].concat());
}

#[test]
fn a_damaged_index_is_not_used() {
    let messages = sample(100);
    let mut whole = write(&messages, 10);
    let end = whole.len() - 60;
    whole[end] ^= 1;
    let scratch = Scratch::new("misled", &whole);
    let mut reader = scratch.reader();
    let first = messages[0].at_ns;
    reader.narrow(&(first + 55_000..=first + 56_000)).unwrap();
    let (found, error) = drain(reader);
    assert!(found == messages[50..60] && error.unwrap().contains("index is damaged"));
}

fn any_message() -> impl Strategy<Value = OwnedMessage> {
    let address = || {
        prop_oneof![
            any::<[u8; 4]>().prop_map(IpAddr::from),
            any::<[u8; 16]>().prop_map(IpAddr::from),
            Just(IpAddr::from([192, 0, 2, 1])),
        ]
    };
    let at_ns = prop_oneof![any::<u64>(), 1_000_u64..2_000, Just(0), Just(u64::MAX)];
    let source = (address(), any::<u16>());
    let bytes = prop::collection::vec(any::<u8>(), 12..60);
    let transport = prop::sample::select(Transport::ALL.to_vec());
    (at_ns, source, (address(), any::<u16>()), transport, bytes).prop_map(
        |(at_ns, source, destination, transport, bytes)| OwnedMessage {
            at_ns,
            source: source.into(),
            destination: destination.into(),
            transport,
            bytes,
        },
    )
}

proptest! {
    #[test]
    fn written_messages_are_read_back(
        messages in prop::collection::vec(any_message(), 0..60),
        chunk_messages in 1_usize..20,
    ) {
        prop_assert_eq!(read(&write(&messages, chunk_messages)), (messages, None));
    }

    #[test]
    fn random_columns_are_errors(
        sizes in prop::collection::vec(prop_oneof![0_u32..4, any::<u32>()], 6),
        rest in prop::collection::vec(any::<u8>(), 0..200),
        messages in 1_usize..6,
    ) {
        let mut columns: Vec<u8> = sizes.iter().flat_map(|size| size.to_le_bytes()).collect();
        columns.extend_from_slice(&rest);
        let head = chunk::Head {
            messages,
            packed_bytes: columns.len(),
            unpacked_bytes: columns.len(),
            earliest_ns: 0,
            latest_ns: u64::MAX,
            packing: Packing::Plain,
            checksum: crc32c::crc32c(&columns),
        };
        let (found, error) = read(&[&super::head()[..], &head.to_bytes(), &columns].concat());
        prop_assert!(error.is_some() && found.len() <= messages);
    }

    #[test]
    fn random_bytes_are_no_trace(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).1.is_some());
        let (found, error) = read(&[&super::head()[..], &bytes].concat());
        prop_assert!(found.is_empty() && error.is_some());
    }
}
