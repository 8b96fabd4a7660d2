//! Parses kernel messages about links and addresses (rtnetlink(7)), in native byte order.

use crate::address::{Family, InterfaceAddress, from_rdata};
use crate::limits::INTERFACE_ADDRESSES_MAX;
use std::collections::BTreeMap;

/// Bytes of `struct nlmsghdr`, `struct ifinfomsg`, `struct ifaddrmsg` and `struct rtattr`.
const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ADDRESS_BYTES: usize = 8;
const ATTRIBUTE_BYTES: usize = 4;

/// Types of messages (linux/netlink.h, linux/rtnetlink.h).
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWLINK: u16 = 16;
pub(super) const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
pub(super) const RTM_GETADDR: u16 = 22;
/// Flags of messages.
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_DUMP: u16 = 0x300;
/// Attributes (linux/if_link.h, linux/if_addr.h).
const IFLA_IFNAME: u16 = 3;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
/// Flags of links and addresses (linux/if.h, linux/if_addr.h).
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;
const IFA_F_TEMPORARY: u32 = 0x01;
const IFA_F_OPTIMISTIC: u32 = 0x04;
const IFA_F_DADFAILED: u32 = 0x08;
const IFA_F_DEPRECATED: u32 = 0x20;
const IFA_F_TENTATIVE: u32 = 0x40;
/// Addresses of this scope or higher are not reachable from other machines (rtnetlink(7): link, host, nowhere).
const RT_SCOPE_LINK: u8 = 253;
/// Address families (linux/socket.h).
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

/// A request for all links or all addresses.
pub(super) fn dump_request(kind: u16, sequence: u32) -> [u8; HEADER_BYTES + LINK_BYTES] {
    let mut bytes = [0; HEADER_BYTES + LINK_BYTES];
    bytes[..4].copy_from_slice(&((HEADER_BYTES + LINK_BYTES) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes
}

/// The progress of a dump.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// More messages follow.
    More,
    /// The dump is complete.
    Done,
    /// The kernel refused, or its message is invalid.
    Failed,
}

/// The entries of the dumps of links and addresses so far.
#[derive(Default, Debug)]
pub(super) struct Table {
    /// By index: the name, and whether it is up and has a carrier.
    links: BTreeMap<u32, (String, bool)>,
    addresses: Vec<(u32, InterfaceAddress)>,
    /// Something changed during the dump, so it may be inconsistent.
    pub(super) is_interrupted: bool,
}

impl Table {
    /// Reads one datagram of the dump with this sequence number.
    pub(super) fn read(&mut self, mut bytes: &[u8], sequence: u32) -> Progress {
        while bytes.len() >= HEADER_BYTES {
            let (Some(len), Some(kind), Some(flags), Some(message_sequence)) =
                (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6), u32_at(bytes, 8))
            else {
                return Progress::Failed;
            };
            let len = len as usize;
            let Some(body) = bytes.get(HEADER_BYTES..len) else { return Progress::Failed };
            if message_sequence == sequence {
                self.is_interrupted |= flags & NLM_F_DUMP_INTR != 0;
                match kind {
                    NLMSG_DONE => return Progress::Done,
                    NLMSG_ERROR => return Progress::Failed,
                    RTM_NEWLINK => self.read_link(body),
                    RTM_NEWADDR => self.read_address(body),
                    _ => {}
                }
            }
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Progress::More
    }

    fn read_link(&mut self, body: &[u8]) {
        let (Some(index), Some(flags), Some(attributes)) = (u32_at(body, 4), u32_at(body, 8), body.get(LINK_BYTES..))
        else {
            return;
        };
        let Some((_, name)) = attributes_of(attributes).find(|(kind, _)| *kind == IFLA_IFNAME) else { return };
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let is_up = flags & (IFF_UP | IFF_RUNNING) == IFF_UP | IFF_RUNNING;
        if self.links.len() < INTERFACE_ADDRESSES_MAX {
            self.links.insert(index, (String::from_utf8_lossy(name).into_owned(), is_up));
        }
    }

    fn read_address(&mut self, body: &[u8]) {
        let (Some(&[family, _, flags, scope]), Some(index), Some(attributes)) =
            (body.first_chunk::<4>(), u32_at(body, 4), body.get(ADDRESS_BYTES..))
        else {
            return;
        };
        let family = match family {
            AF_INET => Family::V4,
            AF_INET6 => Family::V6,
            _ => return,
        };
        let find =
            |kind_wanted| attributes_of(attributes).find(|(kind, _)| *kind == kind_wanted).map(|(_, value)| value);
        // The message has only eight bits of the flags. The attribute has all.
        let flags = find(IFA_FLAGS).and_then(|value| u32_at(value, 0)).unwrap_or(u32::from(flags));
        let is_tentative = flags & IFA_F_TENTATIVE != 0 && flags & IFA_F_OPTIMISTIC == 0;
        if scope >= RT_SCOPE_LINK || is_tentative || flags & IFA_F_DADFAILED != 0 {
            return;
        }
        // On a point-to-point link, IFA_ADDRESS is the address of the other end.
        let Some(address) = find(IFA_LOCAL).or_else(|| find(IFA_ADDRESS)).and_then(|value| from_rdata(family, value))
        else {
            return;
        };
        let found = InterfaceAddress {
            interface: String::new(),
            address,
            // For an IPv4 address, this bit means "secondary".
            is_temporary: family == Family::V6 && flags & IFA_F_TEMPORARY != 0,
            is_deprecated: flags & IFA_F_DEPRECATED != 0,
        };
        if self.addresses.len() < INTERFACE_ADDRESSES_MAX {
            self.addresses.push((index, found));
        }
    }

    /// The addresses of links that are up.
    pub(super) fn finish(self) -> Vec<InterfaceAddress> {
        let with_names = self.addresses.into_iter().filter_map(|(index, found)| {
            let (interface, is_up) = self.links.get(&index)?;
            is_up.then(|| InterfaceAddress { interface: interface.clone(), ..found })
        });
        with_names.collect()
    }
}

/// Kind and value of each attribute.
fn attributes_of(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (len, kind) = (usize::from(u16_at(bytes, 0)?), u16_at(bytes, 2)?);
        let value = bytes.get(ATTRIBUTE_BYTES..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&chunk| u16::from_ne_bytes(chunk))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&chunk| u32::from_ne_bytes(chunk))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((ATTRIBUTE_BYTES + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn link(index: u32, flags: u32, name: &str) -> Vec<u8> {
        let mut body = vec![0; 4];
        body.extend(index.to_ne_bytes());
        body.extend(flags.to_ne_bytes());
        body.extend([0; 4]);
        body.extend(attribute(IFLA_IFNAME, format!("{name}\0").as_bytes()));
        message(RTM_NEWLINK, 0, 7, &body)
    }

    fn address(index: u32, flags: u32, scope: u8, address: &str, local: Option<&str>) -> Vec<u8> {
        let parse = |text: &str| crate::address::rdata(&text.parse().unwrap());
        let family = if address.contains(':') { AF_INET6 } else { AF_INET };
        let mut body = vec![family, 24, 0, scope];
        body.extend(index.to_ne_bytes());
        body.extend(attribute(IFA_ADDRESS, &parse(address)));
        body.extend(local.map(|local| attribute(IFA_LOCAL, &parse(local))).unwrap_or_default());
        body.extend(attribute(IFA_FLAGS, &flags.to_ne_bytes()));
        message(RTM_NEWADDR, 0, 7, &body)
    }

    #[test]
    fn addresses_of_links_that_are_up_are_found() {
        let mut table = Table::default();
        let links = [link(1, IFF_UP | IFF_RUNNING, "eth0"), link(2, IFF_UP, "eth1")].concat();
        assert_eq!(table.read(&links, 7), Progress::More);
        assert_eq!(table.read(&message(NLMSG_DONE, 0, 7, &[0; 4]), 7), Progress::Done);
        let addresses = [
            address(1, 0x80, 0, "192.0.2.1", None),
            address(1, IFA_F_TEMPORARY, 0, "192.0.2.3", None),
            address(1, 0x80, 0, "192.0.2.254", Some("192.0.2.4")),
            address(1, IFA_F_TEMPORARY | IFA_F_DEPRECATED, 0, "2001:db8::1", None),
            address(1, IFA_F_TENTATIVE, 0, "2001:db8::2", None),
            address(1, IFA_F_TENTATIVE | IFA_F_OPTIMISTIC, 0, "2001:db8::3", None),
            address(1, IFA_F_DADFAILED, 0, "2001:db8::4", None),
            address(1, 0x80, RT_SCOPE_LINK, "fe80::1", None),
            address(2, 0x80, 0, "192.0.2.2", None),
            address(3, 0x80, 0, "192.0.2.9", None),
            message(NLMSG_DONE, 0, 7, &[0; 4]),
        ];
        assert_eq!(table.read(&addresses.concat(), 7), Progress::Done);
        assert!(!table.is_interrupted);
        let found: Vec<(String, bool, bool)> = table
            .finish()
            .into_iter()
            .map(|found| (format!("{} {}", found.interface, found.address), found.is_temporary, found.is_deprecated))
            .collect();
        let expected = [
            ("eth0 192.0.2.1", false, false),
            ("eth0 192.0.2.3", false, false),
            ("eth0 192.0.2.4", false, false),
            ("eth0 2001:db8::1", true, true),
            ("eth0 2001:db8::3", false, false),
        ];
        assert_eq!(found, expected.map(|(text, temporary, deprecated)| (text.to_owned(), temporary, deprecated)));
    }

    #[test]
    fn messages_of_other_dumps_are_ignored_and_interruptions_are_noticed() {
        let mut table = Table::default();
        table.read(&link(1, IFF_UP | IFF_RUNNING, "eth0"), 8);
        assert_eq!(table.read(&message(NLMSG_DONE, 0, 7, &[0; 4]), 8), Progress::More);
        assert_eq!(table.read(&message(NLMSG_DONE, NLM_F_DUMP_INTR, 8, &[0; 4]), 8), Progress::Done);
        assert!(table.is_interrupted && table.links.is_empty());
        assert_eq!(table.read(&message(NLMSG_ERROR, 0, 8, &[0; 4]), 8), Progress::Failed);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 14u16..24) {
            if bytes.len() >= 12 {
                bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
                bytes[8..12].copy_from_slice(&7u32.to_ne_bytes());
            }
            let mut table = Table::default();
            table.read(&bytes, 7);
            table.finish();
        }

        #[test]
        fn altered_messages_never_panic(at in 0usize..200, byte in any::<u8>()) {
            let mut bytes = [link(1, 0x41, "eth0"), address(1, 0x80, 0, "2001:db8::1", Some("2001:db8::2"))].concat();
            let len = bytes.len();
            bytes[at % len] = byte;
            let mut table = Table::default();
            table.read(&bytes, 7);
            table.finish();
        }
    }
}
