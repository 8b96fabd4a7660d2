//! Frames of a link: where the IP packet begins.

use crate::limits::VLAN_TAGS_MAX;
use crate::tally::Unread;
use pcap_parser::Linktype;

/// EtherTypes (IEEE 802).
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xDD];
/// Tags of 802.1Q and 802.1ad, and what stood for the latter before there was one.
const VLAN: [[u8; 2]; 3] = [[0x81, 0x00], [0x88, 0xA8], [0x91, 0x00]];

/// LINKTYPE_LINUX_SLL2.
const LINUX_SLL2: Linktype = Linktype(276);
/// Raw IP packets, as two systems call them by numbers of their own.
const RAW_OF_BSD: Linktype = Linktype(12);
const RAW_OF_OPENBSD: Linktype = Linktype(14);
/// LINKTYPE_LOOP: the family in network order.
const LOOP: Linktype = Linktype(108);

/// The packet in a frame.
pub(super) fn payload(link: Linktype, frame: &[u8]) -> Result<&[u8], Unread> {
    match link {
        Linktype::ETHERNET => tagged(frame, 12),
        Linktype::LINUX_SLL => tagged(frame, 14),
        LINUX_SLL2 => {
            let &[first, second] = frame.first_chunk().ok_or(Unread::HeaderMalformed)?;
            ip_behind([first, second], frame.get(20..))
        }
        // The family is the system's own number: the packet itself tells better.
        Linktype::NULL | LOOP => frame.get(4..).ok_or(Unread::HeaderMalformed),
        Linktype::RAW | RAW_OF_BSD | RAW_OF_OPENBSD | Linktype::IPV4 | Linktype::IPV6 => Ok(frame),
        _ => Err(Unread::LinkUnknown),
    }
}

/// Behind the EtherType at `at`, and behind any tags.
fn tagged(frame: &[u8], mut at: usize) -> Result<&[u8], Unread> {
    for _ in 0..=VLAN_TAGS_MAX {
        let &kind = frame.get(at..).and_then(<[u8]>::first_chunk::<2>).ok_or(Unread::HeaderMalformed)?;
        at += 2;
        if !VLAN.contains(&kind) {
            return ip_behind(kind, frame.get(at..));
        }
        at += 2;
    }
    Err(Unread::HeaderMalformed)
}

fn ip_behind(kind: [u8; 2], rest: Option<&[u8]>) -> Result<&[u8], Unread> {
    if kind != IPV4 && kind != IPV6 {
        return Err(Unread::NotIp);
    }
    rest.ok_or(Unread::HeaderMalformed)
}
