//! Real captures and server logs.

#[path = "support/data.rs"]
mod real;

use real::{captures, data};
use std::net::SocketAddr;
use std::path::Path;
use trace::{Format, Message, Options, Tally, Transport, UnreadReason, Writer, open};

/// Returns every message as transport, client, ID and QR, and the tally.
fn read(path: &Path, ports: &[u16]) -> (Vec<String>, Tally, Option<String>) {
    let mut reader = open(path, &Options { ports: ports.into(), ..Options::default() }).unwrap();
    let mut messages = Vec::new();
    let error = loop {
        match reader.next() {
            Ok(Some(message)) => messages.push(format!(
                "{} {} {} {} {}",
                message.transport,
                message.source,
                message.destination,
                u16::from_be_bytes([message.bytes[0], message.bytes[1]]),
                u8::from(message.is_response())
            )),
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    messages.sort();
    (messages, reader.tally().clone(), error)
}

/// Whether each frame gave messages or was counted.
fn adds_up(tally: &Tally) -> bool {
    let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
    tally.records == tally.messages - tally.further_messages + unread
}

#[test]
fn frames_give_messages_or_are_counted_by_reason() {
    let Some(folder) = data() else { return };
    for path in captures(&folder) {
        let (messages, tally, error) = read(&path, &[53]);
        assert_eq!(error, None, "{}", path.display());
        assert!(adds_up(&tally), "{}: {tally:?}", path.display());
        println!("{}: {} messages, lost {}", path.display(), messages.len(), tally.lost());
    }
}

/// Writes a capture without its first frames (pcap, little-endian).
fn without_first(path: &Path, frames: usize, out: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let mut at = 24;
    for _ in 0..frames {
        at += 16 + u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
    }
    std::fs::write(out, [&bytes[..24], &bytes[at..]].concat()).unwrap();
}

/// One connection. Its client sends the length of each query in a separate segment.
#[test]
fn captures_that_begin_within_a_connection_are_read_in_both_directions() {
    let Some(folder) = data() else { return };
    let scratch = std::env::temp_dir().join(format!("catamaran-trace-{}-within.pcap", std::process::id()));
    for (frames, queries, responses) in [(0, 41, 41), (3, 41, 41), (29, 36, 36)] {
        without_first(&folder.join("captures/dnscap-dnso1tcp.pcap"), frames, &scratch);
        let (found, tally, error) = read(&scratch, &[53]);
        let count = |kind: &str| found.iter().filter(|message| message.ends_with(kind)).count();
        assert_eq!((count(" 0"), count(" 1"), error), (queries, responses, None), "without {frames}: {tally:?}");
        assert!(adds_up(&tally), "{tally:?}");
    }
    std::fs::remove_file(scratch).unwrap();
}

type Owned = (u64, SocketAddr, SocketAddr, Transport, Vec<u8>);

fn owned(message: &Message<'_>) -> Owned {
    (message.at_ns, message.source, message.destination, message.transport, message.bytes.to_vec())
}

/// Returns the trace as text.
fn as_text(path: &Path, scratch: &Path) -> Vec<u8> {
    let mut reader = open(path, &Options::default()).unwrap();
    let mut writer = Writer::create(scratch, Format::Text).unwrap();
    while let Some(message) = reader.next().unwrap() {
        writer.write(&message).unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(scratch).unwrap()
}

#[test]
fn text_survives_the_binary_format() {
    let Some(folder) = data() else { return };
    let scratch = std::env::temp_dir().join(format!("catamaran-trace-{}-both", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    let (text, binary) = (scratch.join("a.txt"), scratch.join("a.catrace"));
    for path in captures(&folder) {
        let straight = as_text(&path, &text);
        let mut reader = open(&text, &Options::default()).unwrap();
        let mut writer = Writer::create(&binary, Format::Binary).unwrap();
        while let Some(message) = reader.next().unwrap() {
            writer.write(&message).unwrap();
        }
        assert_eq!(writer.left_out(), 0);
        writer.finish().unwrap();
        assert!(as_text(&binary, &text) == straight, "{}", path.display());
    }
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn written_messages_equal_those_read() {
    let Some(folder) = data() else { return };
    let scratch = std::env::temp_dir().join(format!("catamaran-trace-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).unwrap();
    for path in captures(&folder) {
        for (ending, format) in [
            ("txt", Format::Text),
            ("txt.gz", Format::Text),
            ("pcap.lz4", Format::Capture),
            ("catrace", Format::Binary),
            ("catrace.gz", Format::Binary),
        ] {
            let copy = scratch.join(format!("copy.{ending}"));
            let mut reader = open(&path, &Options::default()).unwrap();
            let mut writer = Writer::create(&copy, format).unwrap();
            let mut originals = Vec::new();
            while let Some(message) = reader.next().unwrap() {
                writer.write(&message).unwrap();
                originals.push(owned(&message));
            }
            assert_eq!(writer.left_out(), 0);
            writer.finish().unwrap();
            let mut reader = open(&copy, &Options::default()).unwrap();
            for original in &originals {
                let message = reader.next().unwrap().unwrap_or_else(|| panic!("{}: {ending}", path.display()));
                assert_eq!(owned(&message), *original, "{}: {ending}", path.display());
            }
            assert!(reader.next().unwrap().is_none());
        }
    }
    std::fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn logs_of_servers_are_read() {
    let Some(folder) = data() else { return };
    // The first log has eight messages of each type, so the first side has 16.
    for (file, messages) in [("bind-dnstap.saved.fstrm", 16), ("compactor-test.dnstap", 10), ("dsc-test.dnstap", 2)] {
        let (found, tally, error) = read(&folder.join("traces").join(file), &[53]);
        assert!(adds_up(&tally), "{file}: {tally:?}");
        assert_eq!((found.len(), error), (messages, None), "{file}");
    }
    let (found, tally, error) = read(&folder.join("queries/wrccdc-zeek-dns.log.gz"), &[53]);
    // Nine lines are responses whose query Zeek had not seen.
    assert_eq!((found.len(), tally.unread(UnreadReason::NoMessage), tally.lost(), error), (49_772, 9, 9, None));
    assert_eq!(tally.unread(UnreadReason::NetBios), 3_834);
}

/// The contents of a message, independent of compression: header, questions, records with full names.
fn meaning(bytes: &[u8]) -> (Vec<u8>, Vec<String>) {
    let message = wire::parse::Message::parse(bytes).unwrap();
    let question = |question: wire::parse::Question| format!("{} {:?}", question.qname.to_name(), question.qtype);
    let mut parts: Vec<_> = message.questions().map(question).collect();
    for section in wire::parse::Section::ALL {
        for record in message.records(section) {
            let record = record.unwrap();
            let mut rdata = Vec::new();
            record.rdata_canonical(&mut rdata).unwrap();
            let (owner, rtype, class, ttl) = (record.owner.to_name(), record.rtype, record.class, record.ttl);
            parts.push(format!("{section:?} {owner} {rtype:?} {class:?} {ttl} {rdata:02x?}"));
        }
    }
    (bytes[..12].to_vec(), parts)
}

/// The reference program of the format made the file from the capture.
#[test]
fn a_cdns_file_equals_its_capture() {
    let Some(folder) = data() else { return };
    let all = |path: &str| {
        let mut reader = open(&folder.join(path), &Options::default()).unwrap();
        let mut messages = Vec::new();
        while let Some(message) = reader.next().unwrap() {
            messages.push(owned(&message));
        }
        assert!(adds_up(reader.tally()), "{path}: {:?}", reader.tally());
        messages.sort();
        messages
    };
    let (capture, cdns) = (all("captures/compactor-dns.pcap.xz"), all("traces/compactor-gold.cbor.xz"));
    assert_eq!((capture.len(), cdns.len()), (1_998, 1_998));
    for (seen, told) in capture.iter().zip(&cdns) {
        assert_eq!((seen.0, seen.1, seen.2, seen.3), (told.0, told.1, told.2, told.3));
        assert_eq!(meaning(&seen.4), meaning(&told.4));
        // Names in queries are not compressed.
        assert!(seen.4[2] & 0x80 != 0 || seen.4 == told.4);
    }
}
