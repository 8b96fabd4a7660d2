//! IP packets of both versions.

use crate::limits::EXTENSIONS_MAX;
use crate::tally::UnreadReason;
use std::net::IpAddr;

/// Protocol numbers (RFC 5237).
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// The relevant fields of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'p> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// Protocol of the payload, or of the whole packet if this is a fragment.
    pub(super) protocol: u8,
    pub(super) payload: &'p [u8],
    /// Whether the capture has less than the whole payload.
    pub(super) is_cut: bool,
    /// Set if the payload is a fragment.
    pub(super) fragment: Option<Fragment>,
}

/// Identifies a fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment {
    pub(super) id: u32,
    /// Offset of its first byte.
    pub(super) offset: usize,
    pub(super) is_last: bool,
}

pub(super) fn read(packet: &[u8]) -> Result<Packet<'_>, UnreadReason> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => read_v4(packet),
        Some(6) => read_v6(packet),
        Some(_) => Err(UnreadReason::NotIp),
        None => Err(UnreadReason::HeaderMalformed),
    }
}

/// RFC 791 3.1.
fn read_v4(packet: &[u8]) -> Result<Packet<'_>, UnreadReason> {
    let header = packet.first_chunk::<20>().ok_or(UnreadReason::HeaderMalformed)?;
    let u16_at = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let header_bytes = usize::from(header[0] & 0x0F) * 4;
    // Zero: the network card fills it in later (segmentation offload).
    let bytes = match usize::from(u16_at(2)) {
        0 => packet.len(),
        bytes => bytes,
    };
    if header_bytes < 20 || bytes < header_bytes {
        return Err(UnreadReason::HeaderMalformed);
    }
    let address = |at: usize| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let offset = usize::from(u16_at(6) & 0x1FFF) * 8;
    let is_last = u16_at(6) & 0x2000 == 0;
    Ok(Packet {
        source: address(12),
        destination: address(16),
        protocol: header[9],
        payload: packet.get(header_bytes..bytes.min(packet.len())).ok_or(UnreadReason::CutShort)?,
        is_cut: bytes > packet.len(),
        fragment: (offset > 0 || !is_last).then_some(Fragment { id: u32::from(u16_at(4)), offset, is_last }),
    })
}

/// RFC 8200 3 and 4.
fn read_v6(packet: &[u8]) -> Result<Packet<'_>, UnreadReason> {
    let (header, rest) = packet.split_first_chunk::<40>().ok_or(UnreadReason::HeaderMalformed)?;
    let bytes = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => rest.len(),
        bytes => bytes,
    };
    let mut payload = &rest[..bytes.min(rest.len())];
    let is_cut = bytes > rest.len();
    let short = if is_cut { UnreadReason::CutShort } else { UnreadReason::HeaderMalformed };
    let mut protocol = header[6];
    let mut fragment = None;
    for _ in 0..EXTENSIONS_MAX {
        let &[next, length, c, d] = match protocol {
            HOP_BY_HOP | ROUTING | DESTINATION | AUTHENTICATION | FRAGMENT => {
                payload.first_chunk::<4>().ok_or(short)?
            }
            _ => break,
        };
        let skipped = match protocol {
            FRAGMENT => {
                let &[e, f, g, h] = payload.get(4..).and_then(<[u8]>::first_chunk).ok_or(short)?;
                let fragment_field = u16::from_be_bytes([c, d]);
                let (offset, is_last) = (usize::from(fragment_field & 0xFFF8), fragment_field & 1 == 0);
                // RFC 6946: a fragment that is the whole packet.
                if offset > 0 || !is_last {
                    fragment = Some(Fragment { id: u32::from_be_bytes([e, f, g, h]), offset, is_last });
                }
                8
            }
            // RFC 4302 2.2: in words of four bytes, minus two.
            AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => (usize::from(length) + 1) * 8,
        };
        payload = payload.get(skipped..).ok_or(short)?;
        protocol = next;
        if fragment.is_some_and(|fragment| fragment.offset > 0) {
            break;
        }
    }
    let address = |at: usize| {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&header[at..at + 16]);
        IpAddr::from(bytes)
    };
    Ok(Packet { source: address(8), destination: address(24), protocol, payload, is_cut, fragment })
}
