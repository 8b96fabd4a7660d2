//! Link-layer frames: finds the IP packet behind tags, labels and other headers.

use super::header_bytes::{after, u16_at, u32_le_at};
use super::wireless;
use crate::limits::LAYERS_MAX;
use crate::tally::UnreadReason;
use pcap_parser::Linktype;

/// EtherTypes (IEEE 802).
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
/// Tags of 802.1Q and 802.1ad. Older equipment uses 0x9100 for the latter.
const VLAN: u16 = 0x8100;
const VLAN_SERVICE: u16 = 0x88A8;
const VLAN_OLD: u16 = 0x9100;
/// 802.1ah: a tag, then a whole frame.
const BACKBONE: u16 = 0x88E7;
const PPPOE_SESSION: u16 = 0x8864;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
/// Frames and PPP inside GRE and Geneve (RFC 7676 4, RFC 2637 4.1).
const BRIDGED: u16 = 0x6558;
const PPP: u16 = 0x880B;
/// Smaller numbers are the length of an 802.3 frame.
const ETHERTYPE_MIN: u16 = 0x0600;

/// Link types that the library does not name (<https://www.tcpdump.org/linktypes.html>).
mod number {
    pub(super) const PPP: i32 = 9;
    /// Raw IP packets on two BSD systems, which use their own numbers.
    pub(super) const RAW_OF_BSD: i32 = 12;
    pub(super) const RAW_OF_OPENBSD: i32 = 14;
    pub(super) const PPP_HDLC: i32 = 50;
    pub(super) const PPP_ETHER: i32 = 51;
    pub(super) const C_HDLC: i32 = 104;
    pub(super) const WIFI: i32 = 105;
    pub(super) const ENC: i32 = 109;
    pub(super) const PFLOG: i32 = 117;
    pub(super) const PRISM: i32 = 119;
    pub(super) const RADIOTAP: i32 = 127;
    /// PKTAP on older macOS.
    pub(super) const USER2: i32 = 149;
    pub(super) const AVS: i32 = 163;
    pub(super) const PPP_PPPD: i32 = 166;
    pub(super) const PPI: i32 = 192;
    pub(super) const MPLS: i32 = 219;
    pub(super) const PKTAP: i32 = 258;
}

/// The header at the start of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layer {
    /// A frame of this kind of link.
    Link(Linktype),
    /// The data after this EtherType.
    Type(u16),
    Ethernet,
    /// The header of logical link control (IEEE 802.2).
    Llc,
    /// The protocol field of PPP, or the bytes before it.
    Ppp,
    Mpls,
    Ip,
}

/// The IP packet in a frame, and the number of headers read so far, those of this frame included.
pub(super) fn packet(mut layer: Layer, mut bytes: &[u8], mut depth: usize) -> Result<(&[u8], usize), UnreadReason> {
    while depth <= LAYERS_MAX {
        (layer, bytes) = match layer {
            Layer::Link(link) => link_header(link.0, bytes)?,
            Layer::Type(kind) => after_type(kind, bytes)?,
            Layer::Ethernet => (layer_of_type(u16_at(bytes, 12)?), after(bytes, 14)?),
            Layer::Llc => llc(bytes)?,
            Layer::Ppp => ppp(bytes)?,
            Layer::Mpls => mpls(bytes)?,
            Layer::Ip => return Ok((bytes, depth)),
        };
        depth += 1;
    }
    Err(UnreadReason::EncapsulatedDeep)
}

fn layer_of_type(kind: u16) -> Layer {
    if kind < ETHERTYPE_MIN { Layer::Llc } else { Layer::Type(kind) }
}

fn link_header(link: i32, frame: &[u8]) -> Result<(Layer, &[u8]), UnreadReason> {
    let first = || frame.first().copied().map(usize::from).ok_or(UnreadReason::HeaderMalformed);
    Ok(match Linktype(link) {
        Linktype::ETHERNET => (Layer::Ethernet, frame),
        Linktype::FDDI => (Layer::Llc, after(frame, 13)?),
        Linktype::LINUX_SLL => (layer_of_type(u16_at(frame, 14)?), after(frame, 16)?),
        Linktype::LINUX_SLL2 => (layer_of_type(u16_at(frame, 0)?), after(frame, 20)?),
        // The family is a number of the operating system. The version field of the packet is reliable.
        Linktype::NULL | Linktype::LOOP => (Layer::Ip, after(frame, 4)?),
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => (Layer::Ip, frame),
        Linktype::NFLOG => (Layer::Ip, nflog(frame)?),
        Linktype(number::RAW_OF_BSD | number::RAW_OF_OPENBSD) => (Layer::Ip, frame),
        Linktype(number::PPP | number::PPP_HDLC) => (Layer::Ppp, frame),
        // The direction takes the place of the PPP address.
        Linktype(number::PPP_PPPD) => (Layer::Ppp, after(frame, 2)?),
        Linktype(number::PPP_ETHER) => (Layer::Type(PPPOE_SESSION), frame),
        Linktype(number::C_HDLC) => (layer_of_type(u16_at(frame, 2)?), after(frame, 4)?),
        Linktype(number::ENC) => (Layer::Ip, after(frame, 12)?),
        Linktype(number::PFLOG) => (Layer::Ip, after(frame, first()?.next_multiple_of(4))?),
        Linktype(number::MPLS) => (Layer::Mpls, frame),
        Linktype(number::WIFI) => (Layer::Llc, wireless::data(frame, false)?),
        Linktype(number::RADIOTAP) => (Layer::Llc, wireless::radiotap(frame)?),
        Linktype(number::PRISM) => (Layer::Llc, wireless::data(after(frame, 144)?, false)?),
        Linktype(number::AVS) => {
            let length = (usize::from(u16_at(frame, 4)?) << 16) | usize::from(u16_at(frame, 6)?);
            (Layer::Llc, wireless::data(after(frame, length)?, false)?)
        }
        Linktype(number::PPI) => {
            let inner = Linktype(u32_le_at(frame, 4)? as i32);
            (Layer::Link(inner), after(frame, usize::from(u16_at(frame, 2)?.swap_bytes()))?)
        }
        Linktype(number::PKTAP | number::USER2) => {
            let inner = Linktype(u32_le_at(frame, 8)? as i32);
            (Layer::Link(inner), after(frame, u32_le_at(frame, 0)?)?)
        }
        _ => return Err(UnreadReason::LinkUnknown),
    })
}

fn after_type(kind: u16, bytes: &[u8]) -> Result<(Layer, &[u8]), UnreadReason> {
    Ok(match kind {
        IPV4 | IPV6 => (Layer::Ip, bytes),
        VLAN | VLAN_SERVICE | VLAN_OLD => (layer_of_type(u16_at(bytes, 2)?), after(bytes, 4)?),
        BACKBONE => (Layer::Ethernet, after(bytes, 4)?),
        // RFC 2516 4: version and type, code, session, length.
        PPPOE_SESSION => (Layer::Ppp, after(bytes, 6)?),
        MPLS | MPLS_MULTICAST => (Layer::Mpls, bytes),
        BRIDGED => (Layer::Ethernet, bytes),
        PPP => (Layer::Ppp, bytes),
        _ => return Err(UnreadReason::NotIp),
    })
}

fn llc(bytes: &[u8]) -> Result<(Layer, &[u8]), UnreadReason> {
    match bytes {
        // RFC 1042: a SNAP header. Its OUI is zero if an EtherType follows.
        [0xAA, 0xAA, 3, 0, 0, 0, a, b, rest @ ..] => Ok((Layer::Type(u16::from_be_bytes([*a, *b])), rest)),
        _ => Err(UnreadReason::NotIp),
    }
}

/// RFC 1661 2 and RFC 1662 3.1: address and control may be omitted, and the first byte of the protocol if it is zero.
fn ppp(bytes: &[u8]) -> Result<(Layer, &[u8]), UnreadReason> {
    let bytes = bytes.strip_prefix(&[0xFF, 0x03]).unwrap_or(bytes);
    let (protocol, rest) = match bytes {
        [short, rest @ ..] if short & 1 == 1 => (u16::from(*short), rest),
        [a, b, rest @ ..] => (u16::from_be_bytes([*a, *b]), rest),
        _ => return Err(UnreadReason::HeaderMalformed),
    };
    match protocol {
        0x0021 | 0x0057 => Ok((Layer::Ip, rest)),
        0x0281 | 0x0283 => Ok((Layer::Mpls, rest)),
        // Multilink, encrypted and compressed packets (RFC 1990, RFC 1968, RFC 1962).
        0x003D | 0x0053 | 0x0055 | 0x00FB | 0x00FD => Err(UnreadReason::EncapsulatedPpp),
        _ => Err(UnreadReason::NotIp),
    }
}

/// RFC 3032 2.1: labels; the last one is marked. No field names the protocol after it, so its first byte decides.
fn mpls(bytes: &[u8]) -> Result<(Layer, &[u8]), UnreadReason> {
    let labels = bytes.chunks_exact(4).take(LAYERS_MAX).position(|label| label[2] & 1 == 1);
    let rest = after(bytes, 4 * (labels.ok_or(UnreadReason::HeaderMalformed)? + 1))?;
    Ok(match rest.first().map(|first| first >> 4) {
        Some(4 | 6) => (Layer::Ip, rest),
        // RFC 4385 3: a control word before a frame.
        Some(0) => (Layer::Ethernet, after(rest, 4)?),
        _ => (Layer::Ethernet, rest),
    })
}

/// The packet among the attributes of the netfilter log. Their lengths have the byte order of the capturing machine.
fn nflog(frame: &[u8]) -> Result<&[u8], UnreadReason> {
    const PAYLOAD: u16 = 9;
    let find = |number: fn([u8; 2]) -> u16| {
        let mut rest = frame.get(4..)?;
        while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
            let (length, kind) = (usize::from(number([a, b])), number([c, d]));
            let value = rest.get(4..length)?;
            if kind == PAYLOAD {
                return Some(value);
            }
            rest = rest.get(length.next_multiple_of(4)..)?;
        }
        None
    };
    find(u16::from_le_bytes).or_else(|| find(u16::from_be_bytes)).ok_or(UnreadReason::HeaderMalformed)
}
