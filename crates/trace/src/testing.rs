//! Fuzz targets: one for each format. libFuzzer (`fuzz/`), `cargo xtask fuzz` and a test share them.

use crate::binary;
use crate::limits::MESSAGE_BYTES_MAX;
use crate::message::{Message, Transport};
use crate::reader::{Format, Options, Reader};
use crate::text;
use std::io::Cursor;
use std::net::SocketAddr;

/// Largest input.
pub const INPUT_BYTES_MAX: usize = 64 << 10;
/// Largest number of messages in an input, even if it is compressed: each message takes at least one byte of a query
/// log or of a column, and a chunk unpacks to a limited size.
const MESSAGES_MAX: u64 = 16 << 20;

/// A fuzz target: the reader of a format.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name; in `fuzz/` with `trace_` before it.
    pub name: &'static str,
    /// Its format.
    pub format: Format,
}

/// All targets.
pub const TARGETS: [Target; 10] = [
    Target { name: "binary", format: Format::Binary },
    Target { name: "cdns", format: Format::Cdns },
    Target { name: "dnstap", format: Format::Dnstap },
    Target { name: "capture", format: Format::Capture },
    Target { name: "text", format: Format::Text },
    Target { name: "rpl", format: Format::Rpl },
    Target { name: "dnsviz", format: Format::Dnsviz },
    Target { name: "dnsperf", format: Format::Dnsperf },
    Target { name: "zeek", format: Format::Zeek },
    Target { name: "fsdb", format: Format::Fsdb },
];

/// Reads any bytes as a trace. Checks that no message is too long, and that each record gives messages or is counted.
///
/// # Panics
///
/// A check fails.
pub fn read(format: Format, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(INPUT_BYTES_MAX)];
    let boxed = Box::new(Cursor::new(bytes.to_vec()));
    let Ok(mut reader) = Reader::of_bytes(boxed, format, &Options::default()) else { return };
    let mut count = 0;
    while let Ok(Some(message)) = reader.next() {
        assert!(message.bytes.len() <= MESSAGE_BYTES_MAX, "a message of {} bytes", message.bytes.len());
        count += 1;
        assert!(count <= MESSAGES_MAX, "more messages than there can be");
    }
    let tally = reader.tally();
    let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
    assert_eq!(tally.records, tally.messages - tally.further_messages + unread, "{tally:?}");
}

impl Target {
    /// Valid inputs, which the fuzzer alters.
    #[must_use]
    pub fn seeds(self) -> Vec<Vec<u8>> {
        let text = |text: &str| vec![text.as_bytes().to_vec()];
        match self.format {
            Format::Binary => vec![written_binary()],
            Format::Text => vec![written_text()],
            Format::Capture => vec![pcap(), pcapng(), tunnelled(), wireless(), stream()],
            Format::Dnstap => vec![dnstap()],
            Format::Cdns => vec![from_hex(include_str!("../testdata/cdns.hex"))],
            Format::Rpl => text(RPL),
            Format::Dnsviz => text(DNSVIZ),
            Format::Dnsperf => text("www.example.com A\nexample.com MX\n"),
            Format::Zeek => [ZEEK, ZEEK_JSON].map(|text| text.as_bytes().to_vec()).into(),
            Format::Fsdb => text(FSDB),
        }
    }
}

const RPL: &str = "CONFIG_END\nSCENARIO_BEGIN a test\nRANGE_BEGIN 0 100\n\tADDRESS 192.0.2.1\nENTRY_BEGIN\n\
    MATCH opcode qtype qname\nADJUST copy_id\nREPLY QR AA NOERROR\nSECTION QUESTION\nwww.example. IN A\n\
    SECTION ANSWER\nwww.example. 60 IN A 192.0.2.80\nSECTION ADDITIONAL\nENTRY_END\nRANGE_END\nSTEP 1 QUERY\n\
    ENTRY_BEGIN\nREPLY RD\nSECTION QUESTION\nwww.example. IN A\nENTRY_END\nSCENARIO_END\n";

const DNSVIZ: &str = "{\"example.com.\": {\"queries\": [{\"qname\": \"example.com.\", \"options\": {\"tcp\": false}, \
    \"responses\": {\"192.0.2.1\": {\"198.51.100.1\": {\"message\": \"AAeEAAABAAAAAAAAAWEAAAEAAQ==\"}}}}]}}";

const ZEEK: &str = "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tdns\n\
    #fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\ttrans_id\tquery\tqclass\tqtype\trcode\n\
    1600000000.500000\tC1\t192.0.2.1\t4000\t198.51.100.1\t53\tudp\t7\twww.example.com\t1\t1\t0\n";

const ZEEK_JSON: &str = "{\"ts\":1600000000.5,\"id.orig_h\":\"192.0.2.1\",\"id.orig_p\":4000,\
    \"id.resp_h\":\"198.51.100.1\",\"id.resp_p\":53,\"proto\":\"udp\",\"trans_id\":7,\"query\":\"www.example.com\",\
    \"qclass\":1,\"qtype\":1,\"RD\":true}\n";

const FSDB: &str = "#fsdb time src_ip qname qclass qtype protocol\n\
    1600000000.5 192.0.2.1 www.example.com. IN A udp\n";

/// Queries over UDP and TCP.
fn messages() -> impl Iterator<Item = (SocketAddr, SocketAddr, Transport, Vec<u8>)> {
    (0..4_u8).map(|number| {
        let client = SocketAddr::from(([192, 0, 2, number], 4_000));
        let server = SocketAddr::from(([198, 51, 100, 1], 53));
        let transport = if number % 2 == 0 { Transport::Udp } else { Transport::Tcp };
        let bytes = [&[0, number, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a' + number, 0, 0, 1, 0, 1][..]].concat();
        (client, server, transport, bytes)
    })
}

/// Passes the messages to `write`.
fn each_written(mut write: impl FnMut(&Message<'_>)) {
    for (at, (source, destination, transport, bytes)) in (0_u64..).zip(messages()) {
        write(&Message { at_ns: 1_000_000_000 + at, source, destination, transport, bytes: &bytes });
    }
}

fn written_text() -> Vec<u8> {
    let mut out = Vec::new();
    let _memory_takes_all = text::begin(&mut out);
    each_written(|message| {
        let _memory_takes_all = text::write(message, &mut out);
    });
    out
}

fn written_binary() -> Vec<u8> {
    let (mut out, mut writer) = (Vec::new(), binary::BinaryWriter::default());
    let _memory_takes_all = writer.begin(&mut out);
    each_written(|message| {
        let _memory_takes_all = writer.write(message, &mut out);
    });
    let _memory_takes_all = writer.end(&mut out);
    out
}

/// A packet with a message over UDP.
fn packet() -> Vec<u8> {
    let bytes = messages().next().map(|(.., bytes)| bytes).unwrap_or_default();
    let length = (8 + bytes.len()) as u8;
    let ip = [0x45, 0, 0, 20 + length, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
    [&ip[..], &[0x0F, 0xA0, 0, 53, 0, length, 0, 0], &bytes].concat()
}

fn pcap() -> Vec<u8> {
    captured(101, &[packet()])
}

/// A capture with this link type and these frames.
fn captured(link: u8, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut capture = vec![0xA1, 0xB2, 0xC3, 0xD4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0, 0, 0, link];
    for frame in frames {
        let length = (frame.len() as u32).to_be_bytes();
        capture.extend([&[0, 0, 0, 9, 0, 0, 0, 1][..], &length, &length, frame].concat());
    }
    capture
}

/// An IP packet with this protocol number and payload.
fn carried(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = ((20 + payload.len()) as u16).to_be_bytes();
    let ip = [0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1];
    [&ip[..], payload].concat()
}

/// Packets in VXLAN, GRE, GTP-U, Geneve and L2TP.
fn tunnelled() -> Vec<u8> {
    let (packet, frame) = (packet(), [&[2; 12][..], &[8, 0], &packet()].concat());
    let datagram = |port: u16, payload: &[u8]| {
        let ([a, b], [c, d]) = (port.to_be_bytes(), ((8 + payload.len()) as u16).to_be_bytes());
        carried(17, &[&[0x0F, 0xA0, a, b, c, d, 0, 0], payload].concat())
    };
    let frames = [
        datagram(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &frame].concat()),
        carried(47, &[&[0x10, 0, 0x88, 0xBE, 0, 0, 0, 1][..], &[0x10; 8], &frame].concat()),
        datagram(2152, &[&[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0][..], &packet].concat()),
        datagram(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 1, 0][..], &[0; 4], &frame].concat()),
        datagram(1701, &[&[0x40, 2, 0, 99, 0, 1, 0, 1, 0xFF, 3, 0, 0x21][..], &packet].concat()),
    ];
    captured(101, &frames)
}

/// A Wi-Fi frame with a radiotap header.
fn wireless() -> Vec<u8> {
    let snap = [&[0xAA, 0xAA, 3, 0, 0, 0, 8, 0][..], &packet()].concat();
    captured(127, &[[&[0, 0, 18, 0, 3, 0, 0, 0][..], &[0; 8], &[0x20, 0], &[0x88, 1], &[0; 26], &snap].concat()])
}

/// A TCP stream without its first segment. Each length is in a separate segment.
fn stream() -> Vec<u8> {
    let mut sequence = 40_u32;
    let mut frames = Vec::new();
    for (.., bytes) in messages() {
        for part in [&(bytes.len() as u16).to_be_bytes()[..], &bytes] {
            let head =
                [&[0x0F, 0xA0, 0, 53][..], &sequence.to_be_bytes(), &[0, 0, 0, 1, 0x50, 0x10, 0xFF, 0xFF, 0, 0, 0, 0]];
            frames.push(carried(6, &[&head.concat(), part].concat()));
            sequence += part.len() as u32;
        }
    }
    frames.remove(0);
    captured(101, &frames)
}

fn pcapng() -> Vec<u8> {
    let mut packet = packet();
    let bytes = (packet.len() as u32).to_be_bytes();
    packet.resize(packet.len().next_multiple_of(4), 0);
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_be_bytes();
        [&kind.to_be_bytes()[..], &length, body, &length].concat()
    };
    let section = block(0x0A0D_0D0A, &[0x1A, 0x2B, 0x3C, 0x4D, 0, 1, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    let interface = block(1, &[0, 101, 0, 0, 0, 0, 0xFF, 0xFF]);
    let packet = block(6, &[&[0; 4][..], &[0, 5, 0, 0, 0, 0, 0, 1], &bytes, &bytes, &packet].concat());
    [section, interface, packet].concat()
}

/// A log entry of a client's query.
fn dnstap() -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let bytes = messages().next().map(|(.., bytes)| bytes).unwrap_or_default();
    let message = [
        // A client's query, IPv4, UDP; addresses, ports, seconds, nanoseconds, the query.
        &[0x08, 5, 0x10, 1, 0x18, 1][..],
        &field(4, &[192, 0, 2, 1]),
        &field(5, &[198, 51, 100, 1]),
        &[0x30, 0xA0, 0x1F, 0x38, 53, 0x40, 0x80, 0xA0, 0xF8, 0xFA, 0x05, 0x4D, 1, 0, 0, 0],
        &field(10, &bytes),
    ]
    .concat();
    let entry = [field(14, &message), vec![0x78, 1]].concat();
    let kind = b"protobuf:dnstap.Dnstap";
    let start = [&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, kind.len() as u8], &kind[..]].concat();
    let control = |frame: &[u8]| [&[0; 4][..], &(frame.len() as u32).to_be_bytes(), frame].concat();
    let data = [&(entry.len() as u32).to_be_bytes()[..], &entry].concat();
    [control(&start), data, control(&[0, 0, 0, 3])].concat()
}

/// Parses hexadecimal digits, up to the first other character.
fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs that broke a target in the past: its name and the input in hexadecimal digits.
    const FOUND: &str = include_str!("../testdata/fuzz.txt");

    #[test]
    fn all_seeds_are_traces_and_their_prefixes_are_readable() {
        for target in TARGETS {
            for seed in target.seeds() {
                let bytes = Box::new(Cursor::new(seed.clone()));
                let mut reader = Reader::of_bytes(bytes, target.format, &Options::default()).unwrap();
                assert!(reader.next().unwrap().is_some(), "{}", target.name);
                (0..seed.len()).for_each(|end| read(target.format, &seed[..end]));
            }
        }
    }

    #[test]
    fn earlier_fuzz_findings_stay_fixed() {
        for line in FOUND.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            let (name, hex) = line.split_once(' ').unwrap();
            let target = TARGETS.into_iter().find(|target| target.name == name).unwrap();
            read(target.format, &from_hex(hex));
        }
    }
}
