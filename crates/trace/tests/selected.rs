//! Protocols similar to DNS and other dnstap sides are counted but not read. Tunnels are decoded.

use std::path::PathBuf;
use trace::{DnstapSide, Options, Tally, UnreadReason, open};

/// A query for `www.example`.
const QUERY: &[u8] = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("catamaran-trace-{}-selected-{name}", std::process::id()))
}

/// Returns the source addresses of the messages in a file with this name and contents, and the tally.
fn read(name: &str, bytes: &[u8], options: &Options) -> (Vec<String>, Tally) {
    let path = scratch(name);
    std::fs::write(&path, bytes).unwrap();
    let mut reader = open(&path, options).unwrap();
    let mut sources = Vec::new();
    while let Some(message) = reader.next().unwrap() {
        sources.push(message.source.to_string());
    }
    std::fs::remove_file(path).unwrap();
    let tally = reader.tally().clone();
    let unread: u64 = tally.all_unread().map(|(_, count)| count).sum();
    assert_eq!(tally.records, tally.messages - tally.further_messages + unread, "{tally:?}");
    (sources, tally)
}

/// A Zeek log with one query at each of these ports.
fn zeek(ports: &[u16]) -> String {
    let mut log = "#fields\tts\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\ttrans_id\tquery\tqtype\n".to_owned();
    for port in ports {
        log += &format!("1600000000.5\t192.0.2.1\t4000\t198.51.100.1\t{port}\tudp\t7\twww.example\t1\n");
    }
    log
}

#[test]
fn only_dns_ports_of_zeek_logs_are_read() {
    let log = zeek(&[53, 137, 5353, 5355, 853, 53]);
    let (found, tally) = read("ports.log", log.as_bytes(), &Options::default());
    assert_eq!(found.len(), 2);
    let counts = [UnreadReason::NetBios, UnreadReason::Mdns, UnreadReason::Llmnr, UnreadReason::OtherPort]
        .map(|reason| tally.unread(reason));
    assert_eq!((counts, tally.lost()), ([1; 4], 0));
    let options = Options { ports: vec![5353, 853], ..Options::default() };
    let (found, tally) = read("other-ports.log", log.as_bytes(), &options);
    assert_eq!((found.len(), tally.unread(UnreadReason::OtherPort), tally.unread(UnreadReason::Mdns)), (2, 2, 0));
}

/// A dnstap log with messages of these types, each from a different client.
fn dnstap(kinds: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let framed = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
    let kind = b"protobuf:dnstap.Dnstap";
    let start = [&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, kind.len() as u8], &kind[..]].concat();
    let mut log = [&[0; 4][..], &framed(&start)].concat();
    for (number, &kind) in (1..).zip(kinds) {
        // Query types are odd numbers; queries and responses are in different fields.
        let message = if kind % 2 == 1 { field(10, QUERY) } else { field(14, QUERY) };
        let sides = [field(4, &[192, 0, 2, number]), field(5, &[198, 51, 100, number])].concat();
        let message = [&[0x08, kind, 0x10, 1, 0x18, 1][..], &sides, &message].concat();
        log.extend(framed(&[field(14, &message), vec![0x78, 1]].concat()));
    }
    log
}

#[test]
fn dnstap_reads_one_side_by_default() {
    let all: Vec<u8> = (1..=14).collect();
    let (found, tally) = read("all.dnstap", &dnstap(&all), &Options::default());
    assert_eq!(found, ["192.0.2.5:0", "198.51.100.6:0"]);
    assert_eq!(
        (tally.unread(UnreadReason::DnstapAuth), tally.unread(UnreadReason::DnstapResolver), tally.lost()),
        (2, 2, 0)
    );
    let (found, _) = read("auth.dnstap", &dnstap(&[3, 4, 1, 2, 1]), &Options::default());
    assert_eq!(found, ["192.0.2.3:0", "198.51.100.4:0", "192.0.2.5:0"]);
    let (found, _) = read("upstream.dnstap", &dnstap(&[3, 4]), &Options::default());
    assert_eq!(found.len(), 2);
    let dnstap_sides = vec![DnstapSide::Resolver, DnstapSide::Tool];
    let (found, tally) = read("chosen.dnstap", &dnstap(&all), &Options { dnstap: dnstap_sides, ..Options::default() });
    assert_eq!(
        (found.len(), tally.unread(UnreadReason::DnstapClient), tally.unread(UnreadReason::DnstapResolver)),
        (4, 2, 0)
    );
}

#[test]
fn a_damaged_dnstap_log_is_read_up_to_the_damage() {
    let log = dnstap(&[3, 4, 3]);
    let path = scratch("damaged.dnstap");
    std::fs::write(&path, &log[..log.len() - 5]).unwrap();
    let mut reader = open(&path, &Options::default()).unwrap();
    assert!(reader.next().unwrap().is_some() && reader.next().unwrap().is_some());
    assert!(reader.next().is_err());
    std::fs::remove_file(path).unwrap();
}

fn capture(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    let mut capture = words(&[0xA1B2_3C4D, 0x0002_0004, 0, 0, 65_535, link]);
    for frame in frames {
        let bytes = frame.len() as u32;
        capture.extend(words(&[1_600_000_000, 0, bytes, bytes]));
        capture.extend(frame);
    }
    capture
}

fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let bytes = ((20 + payload.len()) as u16).to_be_bytes();
    let head = [0x45, 0, bytes[0], bytes[1], 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 192, 0, 2, 53];
    [&head, payload].concat()
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let bytes = (payload.len() as u16).to_be_bytes();
    let head = [0x60, 0, 0, 0, bytes[0], bytes[1], next, 64];
    let addresses = [[0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]; 2].concat();
    [&head, &addresses[..], payload].concat()
}

fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let bytes = ((8 + payload.len()) as u16).to_be_bytes();
    [&[0x0F, 0xA0], &to.to_be_bytes()[..], &bytes, &[0, 0], payload].concat()
}

fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind.to_be_bytes(), payload].concat()
}

/// The query in an IP packet.
fn packet() -> Vec<u8> {
    ipv4(17, &udp(53, QUERY))
}

const RAW: u32 = 101;
const ETHERNET: u32 = 1;

#[test]
fn the_message_in_each_kind_of_tunnel_is_read() {
    let (packet, frame) = (packet(), ethernet(0x0800, &packet()));
    let snap = [&[0xAA, 0xAA, 3, 0, 0, 0, 8, 0][..], &packet].concat();
    let tunnels: &[(&str, u32, Vec<u8>)] = &[
        ("6in4", RAW, ipv4(41, &ipv6(17, &udp(53, QUERY)))),
        ("4in6", RAW, ipv6(4, &packet)),
        ("IPIP", RAW, ipv4(4, &packet)),
        ("GRE", RAW, ipv4(47, &[&[0, 0, 8, 0][..], &packet].concat())),
        ("GRE with all", RAW, ipv4(47, &[&[0xB0, 0, 0x65, 0x58][..], &[0; 12], &frame].concat())),
        ("PPTP", RAW, ipv4(47, &[&[0x30, 0x81, 0x88, 0x0B][..], &[0; 12], &[0xFF, 3, 0, 0x21], &packet].concat())),
        ("ERSPAN I", RAW, ipv4(47, &[&[0, 0, 0x88, 0xBE][..], &frame].concat())),
        ("ERSPAN II", RAW, ipv4(47, &[&[0x10, 0, 0x88, 0xBE, 0, 0, 0, 1][..], &[0x10; 8], &frame].concat())),
        (
            "ERSPAN III",
            RAW,
            ipv4(47, &[&[0x10, 0, 0x22, 0xEB, 0, 0, 0, 1, 0x20][..], &[0; 10], &[1], &[0; 8], &frame].concat()),
        ),
        ("VXLAN", RAW, ipv4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &frame].concat()))),
        ("VXLAN-GPE", RAW, ipv4(17, &udp(4790, &[&[0x0C, 0, 0, 1, 0, 0, 1, 0][..], &packet].concat()))),
        ("Geneve", RAW, ipv4(17, &udp(6081, &[&[1, 0, 0x65, 0x58, 0, 0, 1, 0][..], &[0; 4], &frame].concat()))),
        ("GTP-U", RAW, ipv4(17, &udp(2152, &[&[0x30, 255, 0, 0, 0, 0, 0, 1][..], &packet].concat()))),
        (
            "GTP-U with extension",
            RAW,
            ipv4(17, &udp(2152, &[&[0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0][..], &packet].concat())),
        ),
        ("Teredo", RAW, ipv4(17, &udp(3544, &[&[0; 8][..], &ipv6(17, &udp(53, QUERY))].concat()))),
        ("L2TP", RAW, ipv4(17, &udp(1701, &[&[0x40, 2, 0, 99, 0, 1, 0, 1, 0xFF, 3, 0, 0x21][..], &packet].concat()))),
        ("PPPoE", ETHERNET, ethernet(0x8864, &[&[0x11, 0, 0, 1, 0, 99, 0, 0x21][..], &packet].concat())),
        ("MPLS", ETHERNET, ethernet(0x8847, &[&[0, 1, 0, 64, 0, 2, 1, 64][..], &packet].concat())),
        ("VLAN", ETHERNET, ethernet(0x8100, &[&[0, 5, 8, 0][..], &packet].concat())),
        ("SNAP", ETHERNET, ethernet(100, &snap)),
        ("PPP", 9, [&[0xFF, 3, 0, 0x21][..], &packet].concat()),
        ("NFLOG", 239, [&[2, 0, 0, 0, 6, 0, 10, 0, b'x', 0, 0, 0][..], &[99, 0, 9, 0], &packet].concat()),
        ("Wi-Fi", 105, [&[0x88, 1][..], &[0; 24], &snap].concat()),
        ("radiotap", 127, [&[0, 0, 18, 0, 3, 0, 0, 0][..], &[0; 8], &[0x20, 0], &[0x88, 1], &[0; 26], &snap].concat()),
        ("PKTAP", 258, [&[12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0][..], &frame].concat()),
        ("PPI", 192, [&[0, 0, 8, 0, 1, 0, 0, 0][..], &frame].concat()),
        ("PFLOG", 117, [&[61, 2][..], &[0; 62], &packet].concat()),
        ("with the check sequence noted", 0x4400_0001, frame.clone()),
    ];
    for (name, link, bytes) in tunnels {
        let bytes = match *name {
            // Attribute lengths are in host byte order.
            "NFLOG" => {
                let mut bytes = bytes.clone();
                bytes[12] = (4 + packet.len()) as u8;
                bytes
            }
            _ => bytes.clone(),
        };
        let (found, tally) = read("tunnel.pcap", &capture(*link, &[bytes]), &Options::default());
        let source = if ["6in4", "Teredo"].contains(name) { "[2001:db8::1]:4000" } else { "10.0.0.1:4000" };
        assert_eq!(found, [source], "{name}: {tally:?}");
    }
}

#[test]
fn unread_packets_are_counted_by_kind() {
    let nested = (0..200).fold(packet(), |inner, _| ipv4(4, &inner));
    let vlans = [&[2; 12][..], &[0x81, 0, 0, 1].repeat(200)].concat();
    let bridged = ipv4(47, &[&[0, 0, 8, 0][..], &nested].concat());
    for (link, frame, reason) in [
        (RAW, ipv4(50, &[7; 40]), UnreadReason::EncapsulatedEsp),
        (RAW, ipv4(17, &udp(4500, &[7; 40])), UnreadReason::EncapsulatedEsp),
        (RAW, ipv4(17, &udp(4500, &[0xFF])), UnreadReason::OtherPort),
        (RAW, ipv4(115, &[7; 40]), UnreadReason::EncapsulatedL2tp),
        (RAW, ipv4(47, &[0x40, 0, 8, 0, 0, 0, 0, 0]), UnreadReason::EncapsulatedOther),
        (RAW, ipv4(17, &udp(2152, &[0x32, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0])), UnreadReason::TunnelControl),
        (105, [&[0x88, 0x41][..], &[7; 40]].concat(), UnreadReason::EncapsulatedWifi),
        (9, vec![0xFF, 3, 0, 0xFD, 1, 2, 3], UnreadReason::EncapsulatedPpp),
        (RAW, nested.clone(), UnreadReason::EncapsulatedDeep),
        (RAW, bridged, UnreadReason::EncapsulatedDeep),
        (ETHERNET, vlans, UnreadReason::EncapsulatedDeep),
        (RAW, ipv4(17, &udp(5353, QUERY)), UnreadReason::Mdns),
        (RAW, ipv4(17, &udp(137, QUERY)), UnreadReason::NetBios),
        (RAW, ipv4(17, &udp(5355, QUERY)), UnreadReason::Llmnr),
    ] {
        let (found, tally) = read("closed.pcap", &capture(link, &[frame]), &Options::default());
        assert_eq!((found.len(), tally.unread(reason)), (0, 1), "{reason:?}: {tally:?}");
    }
}

/// A truncated frame of any of these kinds is counted.
#[test]
fn a_tunnel_that_ends_early_is_counted() {
    let frame = ethernet(0x0800, &packet());
    let vxlan = ipv4(17, &udp(4789, &[&[8, 0, 0, 0, 0, 0, 1, 0][..], &frame].concat()));
    let snap = [&[0xAA, 0xAA, 3, 0, 0, 0, 8, 0][..], &packet()].concat();
    let radiotap = [&[0, 0, 18, 0, 3, 0, 0, 0][..], &[0; 8], &[0x20, 0], &[0x88, 1], &[0; 26], &snap].concat();
    for (link, frame) in [(RAW, vxlan), (127, radiotap)] {
        let frames: Vec<_> = (0..frame.len()).map(|end| frame[..end].to_vec()).collect();
        let (found, _) = read("short.pcap", &capture(link, &frames), &Options::default());
        assert_eq!(found, [""; 0]);
    }
}
