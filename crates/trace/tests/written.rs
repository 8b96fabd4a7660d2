//! Messages that a capture cannot hold are left out and counted. All others are read back unchanged.

use std::net::SocketAddr;
use trace::{Format, Message, Options, Transport, Writer, open};

type Owned = (u64, Transport, Vec<u8>);

/// Writes and reads messages. Returns them and the number of messages left out.
fn there_and_back(name: &str, messages: &[Owned]) -> (Vec<Owned>, u64) {
    let path = std::env::temp_dir().join(format!("catamaran-trace-{}-{name}.pcap", std::process::id()));
    let (source, destination) = (SocketAddr::from(([10, 0, 0, 1], 4_000)), SocketAddr::from(([192, 0, 2, 53], 53)));
    let mut writer = Writer::create(&path, Format::Capture).unwrap();
    for (at_ns, transport, bytes) in messages {
        let (at_ns, transport) = (*at_ns, *transport);
        writer.write(&Message { at_ns, source, destination, transport, bytes }).unwrap();
    }
    let left_out = writer.left_out();
    writer.finish().unwrap();
    let mut reader = open(&path, &Options::default()).unwrap();
    let mut read = Vec::new();
    while let Some(message) = reader.next().unwrap() {
        read.push((message.at_ns, message.transport, message.bytes.to_vec()));
    }
    std::fs::remove_file(path).unwrap();
    assert_eq!(reader.tally().lost(), 0);
    (read, left_out)
}

/// A query for the root, padded with bytes after it to this size.
fn message(bytes: usize) -> Vec<u8> {
    let mut message = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    message.resize(bytes, 0);
    message
}

#[test]
fn messages_too_long_for_a_stream_are_skipped() {
    let all = [17, 70_000, 65_535, 65_536, 65_001, 18].map(|bytes| (5, Transport::Tcp, message(bytes)));
    let expected: Vec<_> = all.iter().filter(|message| message.2.len() < 65_536).cloned().collect();
    let (read, left_out) = there_and_back("long", &all);
    assert!(read == expected, "{:?}", read.iter().map(|message| message.2.len()).collect::<Vec<_>>());
    assert_eq!(left_out, 2);
}

/// The format has 32 bits for seconds, which end in 2106.
#[test]
fn times_out_of_range_are_skipped() {
    const LAST_NS: u64 = (1 << 32) * 1_000_000_000 - 1;
    let times = [0, LAST_NS, LAST_NS + 1, u64::MAX, 1];
    let all: Vec<_> = [Transport::Udp, Transport::Tcp]
        .into_iter()
        .flat_map(|transport| times.map(|at_ns| (at_ns, transport, message(17))))
        .collect();
    let expected: Vec<_> = all.iter().filter(|message| message.0 <= LAST_NS).cloned().collect();
    assert_eq!(there_and_back("late", &all), (expected, 4));
}
