//! Packets inside packets: the contents of tunnels.

use super::header_bytes::{after, u16_at};
use super::ip::{Packet, UDP};
use super::link::Layer;
use crate::limits::LAYERS_MAX;
use crate::tally::UnreadReason;

/// Protocol numbers (IANA).
const IPV4: u8 = 4;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ESP: u8 = 50;
const ETHERIP: u8 = 97;
const L2TP: u8 = 115;
const MPLS: u8 = 137;

/// UDP ports of tunnels (IANA). Linux used 8472 for VXLAN before 4789 was assigned.
mod port {
    pub(super) const L2TP: u16 = 1701;
    pub(super) const GTP_USER: u16 = 2152;
    pub(super) const TEREDO: u16 = 3544;
    pub(super) const ESP: u16 = 4500;
    pub(super) const GRE: u16 = 4754;
    pub(super) const VXLAN: u16 = 4789;
    pub(super) const VXLAN_GENERIC: u16 = 4790;
    pub(super) const GENEVE: u16 = 6081;
    pub(super) const MPLS: u16 = 6635;
    pub(super) const VXLAN_OF_LINUX: u16 = 8472;
}

type Inner<'p> = Result<(Layer, &'p [u8]), UnreadReason>;

/// The contents of a packet whose IP protocol is a tunnel; `None` for other protocols.
pub(super) fn in_packet<'p>(packet: &Packet<'p>) -> Option<Inner<'p>> {
    let payload = packet.payload;
    Some(match packet.protocol {
        IPV4 | IPV6 => Ok((Layer::Ip, payload)),
        GRE => gre(payload),
        // RFC 3378 3: a version, and a frame.
        ETHERIP => after(payload, 2).map(|frame| (Layer::Ethernet, frame)),
        MPLS => Ok((Layer::Mpls, payload)),
        ESP => Err(UnreadReason::EncapsulatedEsp),
        L2TP => Err(UnreadReason::EncapsulatedL2tp),
        _ => return None,
    })
}

/// Decodes a datagram to a tunnel port, including its UDP header. Returns `None` if it does not look like a tunnel.
pub(super) fn in_datagram(protocol: u8, [from, to]: [u16; 2], datagram: &[u8]) -> Option<Inner<'_>> {
    let payload = datagram.get(8..).filter(|_| protocol == UDP)?;
    let first = *payload.first()?;
    match to {
        // RFC 7348 5: the flag for a network identifier must be set.
        port::VXLAN | port::VXLAN_OF_LINUX if first & 0x08 != 0 => {
            Some(after(payload, 8).map(|frame| (Layer::Ethernet, frame)))
        }
        port::VXLAN_GENERIC if first & 0x08 != 0 => Some(vxlan_generic(payload)),
        // RFC 8926 3.4: version, length of options in words, and an EtherType.
        port::GENEVE if first >> 6 == 0 => Some(geneve(payload)),
        port::GRE => Some(gre(payload)),
        port::MPLS => Some(Ok((Layer::Mpls, payload))),
        _ if [from, to].contains(&port::GTP_USER) && first & 0xF0 == 0x30 => Some(gtp(payload)),
        _ if [from, to].contains(&port::TEREDO) => teredo(payload),
        _ if [from, to].contains(&port::L2TP) && payload.get(1)? & 0x0F == 2 => Some(l2tp(payload)),
        // RFC 3948 2.2 and 2.3: four zero bytes precede a key exchange; a single byte is a NAT keepalive.
        _ if [from, to].contains(&port::ESP) => match payload {
            [0, 0, 0, 0, ..] | [_] => None,
            _ => Some(Err(UnreadReason::EncapsulatedEsp)),
        },
        _ => None,
    }
}

/// RFC 2784 2.1 and RFC 2890 2: flags, version, protocol, and four bytes for each flag. PPTP has version 1
/// (RFC 2637 4.1).
fn gre(bytes: &[u8]) -> Inner<'_> {
    let (flags, protocol) = (u16_at(bytes, 0)?, u16_at(bytes, 2)?);
    let has = |bit: u16| usize::from(flags & bit != 0);
    let (checksum, routing, key, sequence) = (has(0x8000), has(0x4000), has(0x2000), has(0x1000));
    if flags & 7 == 1 {
        let rest = after(bytes, 4 + 4 * (key + sequence + has(0x0080)))?;
        return if rest.is_empty() { Err(UnreadReason::TunnelControl) } else { Ok((Layer::Ppp, rest)) };
    }
    if routing == 1 || flags & 7 != 0 {
        return Err(UnreadReason::EncapsulatedOther);
    }
    let rest = after(bytes, 4 + 4 * (checksum + key + sequence))?;
    match protocol {
        // ERSPAN type I has no header and no GRE sequence number.
        0x88BE => Ok((Layer::Ethernet, after(rest, 8 * sequence)?)),
        0x22EB => erspan(rest),
        0 => Err(UnreadReason::TunnelControl),
        protocol => Ok((Layer::Type(protocol), rest)),
    }
}

/// ERSPAN type III: the header has the frame type and a flag for eight more bytes.
fn erspan(bytes: &[u8]) -> Inner<'_> {
    let flags = u16_at(bytes, 10)?;
    let rest = after(bytes, 12 + 8 * usize::from(flags & 1))?;
    match flags >> 10 & 0x1F {
        0 => Ok((Layer::Ethernet, rest)),
        2 => Ok((Layer::Ip, rest)),
        _ => Err(UnreadReason::EncapsulatedOther),
    }
}

fn vxlan_generic(bytes: &[u8]) -> Inner<'_> {
    let rest = after(bytes, 8)?;
    match (bytes[0] & 0x04 != 0, bytes[3]) {
        (false, _) | (true, 3) => Ok((Layer::Ethernet, rest)),
        (true, 1 | 2) => Ok((Layer::Ip, rest)),
        _ => Err(UnreadReason::EncapsulatedOther),
    }
}

fn geneve(bytes: &[u8]) -> Inner<'_> {
    let (options, kind) = (usize::from(bytes[0] & 0x3F) * 4, u16_at(bytes, 2)?);
    let rest = after(bytes, 8 + options)?;
    if bytes[1] & 0x80 != 0 { Err(UnreadReason::TunnelControl) } else { Ok((Layer::Type(kind), rest)) }
}

/// 3GPP TS 29.281 5.1 and 5.2: a header of eight bytes, four more with any of three flags, and chained extensions.
fn gtp(bytes: &[u8]) -> Inner<'_> {
    const USER_DATA: u8 = 255;
    let &[flags, kind, ..] = bytes.first_chunk::<8>().ok_or(UnreadReason::HeaderMalformed)?;
    if kind != USER_DATA {
        return Err(UnreadReason::TunnelControl);
    }
    let mut rest = after(bytes, 8)?;
    if flags & 7 != 0 {
        let &[_, _, _, mut next] = rest.first_chunk::<4>().ok_or(UnreadReason::HeaderMalformed)?;
        rest = &rest[4..];
        for _ in 0..LAYERS_MAX {
            if next == 0 || flags & 4 == 0 {
                return Ok((Layer::Ip, rest));
            }
            let words = rest.first().copied().filter(|words| *words > 0).ok_or(UnreadReason::HeaderMalformed)?;
            let (extension, after) =
                rest.split_at_checked(usize::from(words) * 4).ok_or(UnreadReason::HeaderMalformed)?;
            (next, rest) = (extension[extension.len() - 1], after);
        }
        return Err(UnreadReason::EncapsulatedDeep);
    }
    Ok((Layer::Ip, rest))
}

/// RFC 4380 5.1.1: an authentication header and an origin header may precede the packet.
fn teredo(mut bytes: &[u8]) -> Option<Inner<'_>> {
    if let [0, 1, identifier, authentication, rest @ ..] = bytes {
        bytes = rest.get(usize::from(*identifier) + usize::from(*authentication) + 9..)?;
    }
    if let [0, 0, rest @ ..] = bytes {
        bytes = rest.get(6..)?;
    }
    (bytes.first()? >> 4 == 6).then_some(Ok((Layer::Ip, bytes)))
}

/// RFC 2661 3.1: flags show which fields are present.
fn l2tp(bytes: &[u8]) -> Inner<'_> {
    let flags = u16_at(bytes, 0)?;
    let has = |bit: u16| usize::from(flags & bit != 0);
    if flags & 0x8000 != 0 {
        return Err(UnreadReason::TunnelControl);
    }
    let at = 2 + 2 * has(0x4000) + 4 + 4 * has(0x0800);
    let pad = if flags & 0x0200 != 0 { 2 + usize::from(u16_at(bytes, at)?) } else { 0 };
    Ok((Layer::Ppp, after(bytes, at + pad)?))
}
