//! Truncated, altered and random traces: messages before the damage are read, and nothing panics.

use proptest::prelude::*;
use std::net::SocketAddr;
use std::path::PathBuf;
use trace::{Format, Message, Options, Tally, Transport, Writer, open};

/// A temporary file for each test and case.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("catamaran-trace-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Messages over UDP and TCP, IPv4 and IPv6.
fn sample() -> Vec<(SocketAddr, SocketAddr, Transport, Vec<u8>)> {
    let pairs = [("192.0.2.1:4000", "198.51.100.1:53"), ("[2001:db8::1]:4001", "[2001:db8::53]:53")];
    (0..20_u8)
        .map(|number| {
            let (source, destination) = pairs[usize::from(number % 2)];
            let transport = if number % 3 == 0 { Transport::Tcp } else { Transport::Udp };
            let query = [&[0, number, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + number, 0, 0, 1, 0, 1][..]].concat();
            (source.parse().unwrap(), destination.parse().unwrap(), transport, query)
        })
        .collect()
}

fn write(scratch: &Scratch, format: Format) -> Vec<u8> {
    let mut writer = Writer::create(&scratch.0, format).unwrap();
    for (at, (source, destination, transport, bytes)) in sample().iter().enumerate() {
        let at_ns = 1_000_000_000 + at as u64;
        writer
            .write(&Message { at_ns, source: *source, destination: *destination, transport: *transport, bytes })
            .unwrap();
    }
    writer.finish().unwrap();
    std::fs::read(&scratch.0).unwrap()
}

/// Returns the messages of a file, and whether it was read to its end.
fn read(scratch: &Scratch, bytes: &[u8], format: Format) -> (Vec<Vec<u8>>, Tally, bool) {
    // A new file is faster: rewriting a truncated file waits for the disk.
    let _ = std::fs::remove_file(&scratch.0);
    std::fs::write(&scratch.0, bytes).unwrap();
    let Ok(mut reader) = open(&scratch.0, &Options { format: Some(format), ..Options::default() }) else {
        return (Vec::new(), Tally::default(), false);
    };
    let mut messages = Vec::new();
    let is_whole = loop {
        match reader.next() {
            Ok(Some(message)) => messages.push(message.bytes.to_vec()),
            Ok(None) => break true,
            Err(_) => break false,
        }
    };
    (messages, reader.tally().clone(), is_whole)
}

fn adds_up(tally: &Tally) -> bool {
    let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
    tally.records == tally.messages - tally.further_messages + unread
}

#[test]
fn truncated_captures_are_read_up_to_the_end() {
    let scratch = Scratch::new("cut");
    let whole = write(&scratch, Format::Capture);
    let (all, _, is_whole) = read(&scratch, &whole, Format::Capture);
    assert!(is_whole && all.iter().eq(sample().iter().map(|(.., bytes)| bytes)));
    let mut most = 0;
    for end in 0..whole.len() {
        let (messages, tally, _) = read(&scratch, &whole[..end], Format::Capture);
        assert!(messages.len() >= most && all.starts_with(&messages) && adds_up(&tally), "{end}: {}", messages.len());
        most = messages.len();
    }
    assert_eq!(most, all.len() - 1);
}

#[test]
fn no_altered_byte_makes_a_reader_panic_or_count_wrong() {
    for format in [Format::Capture, Format::Text, Format::Binary] {
        let scratch = Scratch::new(&format!("altered-{}", format.label()));
        let whole = write(&scratch, format);
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] ^= change;
                let (_, tally, _) = read(&scratch, &bytes, format);
                assert!(adds_up(&tally), "{at} {change}: {tally:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn random_frames_are_counted(
        link in prop::sample::select(vec![0_u32, 1, 12, 101, 108, 113, 228, 229, 276, 999]),
        frames in prop::collection::vec(
            (prop::sample::select(vec![&b""[..], b"\x45", b"\x60", b"\x02\0\0\0\x45", b"0123456789ab\x08\x00\x45"]),
             prop::collection::vec(any::<u8>(), 0..120)),
            0..20,
        )
    ) {
        let mut bytes = [&0xA1B2_C3D4_u32.to_be_bytes()[..], &[0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
        bytes.extend_from_slice(&65_535_u32.to_be_bytes());
        bytes.extend_from_slice(&link.to_be_bytes());
        for (begin, rest) in &frames {
            let length = (begin.len() + rest.len()) as u32;
            bytes.extend_from_slice(&[0, 0, 0, 9, 0, 0, 0, 1]);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(begin);
            bytes.extend_from_slice(rest);
        }
        let (_, tally, is_whole) = read(&Scratch::new("chance"), &bytes, Format::Capture);
        prop_assert!(is_whole && adds_up(&tally) && tally.records == frames.len() as u64, "{tally:?}");
    }

    #[test]
    fn random_bytes_are_no_log(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let begin = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
        let bytes = [&begin[..], &bytes].concat();
        let (_, tally, _) = read(&Scratch::new("log"), &bytes, Format::Dnstap);
        prop_assert!(adds_up(&tally));
    }
}
