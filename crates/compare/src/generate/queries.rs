//! Queries for a generated zone: its own names, names beside and below them, and odd flags.

use super::zones::ZoneText;
use crate::recorded::Recorded;
use rand::Rng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use trace::Transport;
use wire::name::Name;
use wire::number::{Class, Rtype};

/// Query types. Common ones are listed several times.
const QTYPES: &[Rtype] = &[
    Rtype::A,
    Rtype::A,
    Rtype::A,
    Rtype::AAAA,
    Rtype::AAAA,
    Rtype::TXT,
    Rtype::TXT,
    Rtype::MX,
    Rtype::NS,
    Rtype::NS,
    Rtype::DS,
    Rtype::DS,
    Rtype::SOA,
    Rtype::CNAME,
    Rtype::DNAME,
    Rtype::SRV,
    Rtype::HTTPS,
    Rtype::SVCB,
    Rtype::PTR,
    Rtype::NAPTR,
    Rtype::NSEC,
    Rtype::DNSKEY,
    Rtype::NSEC3PARAM,
    Rtype(65280),
    Rtype::CAA,
    Rtype::ANY,
];
/// Rare query types.
const ODD_QTYPES: &[Rtype] = &[
    Rtype::RRSIG,
    Rtype::NSEC3,
    Rtype::KEY,
    Rtype::NULL,
    Rtype(0),
    Rtype::NXNAME,
    Rtype::MAILB,
    Rtype::TKEY,
    Rtype::AXFR,
];
/// Query classes besides IN.
const CLASSES: &[Class] = &[Class::CH, Class::HS, Class::NONE, Class::ANY, Class(0), Class(65_280)];
/// Payload sizes that clients offer.
const PAYLOADS: &[u16] = &[512, 1232, 1400, 4096];

/// Draws `count` queries for the names of `zone` and names near them.
pub fn queries(zone: &ZoneText, count: usize, rng: &mut ChaCha8Rng) -> Vec<Recorded> {
    (0..count).map(|_| query(zone, rng)).collect()
}

fn query(zone: &ZoneText, rng: &mut ChaCha8Rng) -> Recorded {
    let qname = loop {
        if let Ok(qname) = draw_qname(zone, rng).parse::<Name>() {
            break qname;
        }
    };
    let qtypes = if rng.random_bool(0.97) { QTYPES } else { ODD_QTYPES };
    let qtype = *qtypes.choose(rng).unwrap_or(&Rtype::A);
    let recursion_desired = u8::from(rng.random_bool(0.3));
    let (authentic_data, checking_disabled) = (u8::from(rng.random_bool(0.05)), u8::from(rng.random_bool(0.1)));
    let flags = authentic_data * 0x20 + checking_disabled * 0x10;
    let edns = rng.random_bool(0.75);
    let mut bytes = vec![0, 0, recursion_desired, flags, 0, 1, 0, 0, 0, 0, 0, u8::from(edns)];
    bytes.extend(qname.as_bytes().iter().map(|&byte| mixed_case(byte, rng)));
    bytes.extend_from_slice(&qtype.0.to_be_bytes());
    let qclass = if rng.random_bool(0.995) { Class::IN } else { *CLASSES.choose(rng).unwrap_or(&Class::IN) };
    bytes.extend_from_slice(&qclass.0.to_be_bytes());
    if edns {
        let payload = PAYLOADS.choose(rng).unwrap_or(&1232).to_be_bytes();
        let dnssec_ok = if rng.random_bool(0.7) { 0x80 } else { 0 };
        bytes.extend_from_slice(&[0, 0, 41, payload[0], payload[1], 0, 0, dnssec_ok, 0, 0, 0]);
    }
    let transport = if rng.random_bool(0.01) { Transport::Tcp } else { Transport::Udp };
    Recorded { transport, bytes }
}

fn draw_qname(zone: &ZoneText, rng: &mut ChaCha8Rng) -> String {
    let owner = zone.owners.choose(rng).unwrap_or(&zone.apex).clone();
    match rng.random_range(0..10) {
        0..4 => owner,
        4..6 => format!("{}.{owner}", draw_label(rng)),
        6..7 => format!("{}.{}.{owner}", draw_label(rng), draw_label(rng)),
        // A sibling, or an ancestor, which may be an empty non-terminal.
        7..9 => match owner.split_once('.') {
            Some((_, parent)) if owner.len() > zone.apex.len() => {
                if rng.random_bool(0.5) {
                    parent.to_string()
                } else {
                    format!("{}.{parent}", draw_label(rng))
                }
            }
            _ => owner,
        },
        _ => format!("{}.{}", "a.".repeat(rng.random_range(1..60)).trim_end_matches('.'), owner),
    }
}

fn draw_label(rng: &mut ChaCha8Rng) -> &'static str {
    ["a", "b", "c", "*", "zz", "0", "ns1", "_tcp", "\\000", "mixed"].choose(rng).copied().unwrap_or("a")
}

/// Randomizes the case: the answer must not depend on it (RFC 4343).
fn mixed_case(byte: u8, rng: &mut ChaCha8Rng) -> u8 {
    if byte.is_ascii_lowercase() && rng.random_bool(0.1) { byte.to_ascii_uppercase() } else { byte }
}
