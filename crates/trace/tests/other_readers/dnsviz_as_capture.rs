//! Converts the output of DNSViz into a capture for tshark, without our reader and writer.

use data_encoding::BASE64;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;

const UDP: u8 = 17;
const TCP: u8 = 6;
/// ACK and PSH (RFC 9293 3.1).
const TCP_FLAGS: u8 = 0x18;
/// Captures of IP packets (LINKTYPE_RAW).
const RAW: u32 = 101;

/// A libpcap file: every response is a packet from port 53 to port 0, at the time 0.
pub(crate) fn capture(path: &Path) -> Vec<u8> {
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    let read: Value = serde_json::from_str(&text).unwrap();
    let mut file = Vec::new();
    [0xA1B2_C3D4_u32, 4 << 16 | 2, 0, 0, 1 << 18, RAW].into_iter().for_each(|word| file.extend(word.to_le_bytes()));
    // Sequence number of each stream.
    let mut sequences: BTreeMap<(IpAddr, IpAddr), u32> = BTreeMap::new();
    for query in read.as_object().unwrap().values().flat_map(|zone| zone["queries"].as_array()).flatten() {
        for (server, by_client) in query["responses"].as_object().unwrap() {
            for (client, response) in by_client.as_object().unwrap() {
                let Some(message) = response["message"].as_str() else { continue };
                let message = BASE64.decode(message.as_bytes()).unwrap();
                let way: (IpAddr, IpAddr) = (server.parse().unwrap(), client.parse().unwrap());
                let (protocol, segment) = if query["options"]["tcp"].as_bool().unwrap() {
                    let sequence = sequences.entry(way).or_insert(1);
                    let segment = tcp(*sequence, &message);
                    *sequence += 2 + message.len() as u32;
                    (TCP, segment)
                } else {
                    (UDP, udp(&message))
                };
                let packet = ip(way, protocol, &segment);
                // Seconds, nanoseconds, captured bytes, original bytes.
                [0, 0, packet.len() as u32, packet.len() as u32]
                    .into_iter()
                    .for_each(|word| file.extend(word.to_le_bytes()));
                file.extend(packet);
            }
        }
    }
    file
}

/// From port 53 to port 0 (RFC 768), without a checksum.
fn udp(message: &[u8]) -> Vec<u8> {
    let head = [53, 0, 8 + message.len() as u16, 0];
    head.into_iter().flat_map(u16::to_be_bytes).chain(message.iter().copied()).collect()
}

/// From port 53 to port 0 (RFC 9293 3.1), the length before the message (RFC 1035 4.2.2).
fn tcp(sequence: u32, message: &[u8]) -> Vec<u8> {
    let mut segment = [53_u16, 0].into_iter().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    segment.extend(sequence.to_be_bytes());
    segment.extend([0, 0, 0, 0, 5 << 4, TCP_FLAGS, 0xFF, 0xFF, 0, 0, 0, 0]);
    segment.extend((message.len() as u16).to_be_bytes());
    segment.extend(message);
    segment
}

/// IPv4 (RFC 791 3.1) with a checksum that is not verified, or IPv6 (RFC 8200 3).
fn ip(way: (IpAddr, IpAddr), protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = payload.len() as u16;
    let (mut packet, source, destination) = match way {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let [high, low] = (20 + len).to_be_bytes();
            let head = vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0];
            (head, source.octets().to_vec(), destination.octets().to_vec())
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let [high, low] = len.to_be_bytes();
            (vec![0x60, 0, 0, 0, high, low, protocol, 64], source.octets().to_vec(), destination.octets().to_vec())
        }
        _ => panic!("{} and {} are of two families", way.0, way.1),
    };
    packet.extend([source, destination].concat());
    packet.extend(payload);
    packet
}
