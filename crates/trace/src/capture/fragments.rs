//! Reassembles fragmented packets.

use super::ip::{Fragment, Packet};
use crate::limits::{
    FRAGMENT_BYTES_WAITING_MAX, FRAGMENT_COPY_NS, FRAGMENT_COUNT_MAX, FRAGMENT_LIFE_NS, FRAGMENTED_COUNT_MAX,
    FRAGMENTS_READ_MAX, MESSAGE_BYTES_MAX, WAITING_BYTES_BESIDES,
};
use crate::tally::{Tally, UnreadReason};
use crc32c::crc32c;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The fragments of a packet share source, destination, protocol and number (RFC 791 3.2). In IPv6 only the first
/// fragment has the protocol, so it is not part of the key (RFC 8200 4.5).
type Key = (IpAddr, IpAddr, u8, u32);

/// Incomplete packets.
#[derive(Default)]
pub(super) struct Fragments {
    packets: BTreeMap<Key, Parts>,
    /// Memory of all fragments, in bytes.
    bytes: usize,
    read: SeenFragments,
}

/// Identifies a fragment: packet, offset, and checksum of its bytes.
type FragmentId = (Key, usize, u32);

/// Fragments of complete packets, because a capture at two places has each twice.
#[derive(Default)]
struct SeenFragments {
    /// When each was last seen.
    at_ns: BTreeMap<FragmentId, u64>,
    /// In the order in which they will be forgotten.
    order: VecDeque<FragmentId>,
}

#[derive(Default)]
struct Parts {
    began_ns: u64,
    /// By offset.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Size of the whole packet, once the last fragment is known.
    bytes: Option<usize>,
    /// Fragments counted as waiting.
    waiting: u64,
    /// From the first fragment: only there is the protocol of IPv6 reliable.
    protocol: u8,
}

impl Fragments {
    /// Adds a fragment. Returns the payload if the packet is now complete, otherwise the reason why there is none.
    pub(super) fn take(
        &mut self,
        at_ns: u64,
        packet: &Packet<'_>,
        fragment: Fragment,
        tally: &mut Tally,
    ) -> Result<Vec<u8>, UnreadReason> {
        let protocol = if packet.source.is_ipv4() { packet.protocol } else { 0 };
        let key = (packet.source, packet.destination, protocol, fragment.id);
        let is_old = |parts: &Parts| at_ns.abs_diff(parts.began_ns) > FRAGMENT_LIFE_NS;
        if self.packets.get(&key).is_some_and(is_old) {
            self.give_up(key, tally);
        }
        if !self.packets.contains_key(&key) && self.read.contains(at_ns, (key, fragment.offset, crc32c(packet.payload)))
        {
            return Err(UnreadReason::FragmentRepeated);
        }
        if !self.packets.contains_key(&key) && self.packets.len() >= FRAGMENTED_COUNT_MAX {
            self.give_up_oldest(tally);
        }
        let needed_bytes = packet.payload.len() + WAITING_BYTES_BESIDES;
        while self.bytes + needed_bytes > FRAGMENT_BYTES_WAITING_MAX && !self.packets.is_empty() {
            self.give_up_oldest(tally);
        }
        let parts = self.packets.entry(key).or_insert_with(|| Parts { began_ns: at_ns, ..Parts::default() });
        parts.waiting += 1;
        let end = fragment.offset + packet.payload.len();
        if packet.is_cut || end > MESSAGE_BYTES_MAX || parts.parts.len() >= FRAGMENT_COUNT_MAX {
            return Err(UnreadReason::Fragment);
        }
        if fragment.is_last {
            parts.bytes = Some(end);
        }
        if fragment.offset == 0 {
            parts.protocol = packet.protocol;
        }
        // The first one is kept. Overlapping fragments are forged or repeated.
        if let Entry::Vacant(vacant) = parts.parts.entry(fragment.offset) {
            vacant.insert(packet.payload.to_vec());
            self.bytes += needed_bytes;
        }
        let reassembled = parts.reassembled().ok_or(UnreadReason::Fragment)?;
        for (offset, part) in self.remove(key).into_iter().flat_map(|parts| parts.parts) {
            self.read.insert_seen(at_ns, (key, offset, crc32c(&part)));
        }
        Ok(reassembled)
    }

    /// Ends the capture.
    pub(super) fn end(&mut self, tally: &mut Tally) {
        while let Some((&key, _)) = self.packets.first_key_value() {
            self.give_up(key, tally);
        }
    }

    fn give_up_oldest(&mut self, tally: &mut Tally) {
        let oldest = self.packets.iter().min_by_key(|(_, parts)| parts.began_ns).map(|(&key, _)| key);
        if let Some(oldest) = oldest {
            self.give_up(oldest, tally);
        }
    }

    fn give_up(&mut self, key: Key, tally: &mut Tally) {
        if let Some(parts) = self.remove(key) {
            tally.recount(UnreadReason::Fragment, UnreadReason::FragmentAlone, parts.waiting);
        }
    }

    fn remove(&mut self, key: Key) -> Option<Parts> {
        let parts = self.packets.remove(&key)?;
        self.bytes -= parts.parts.values().map(|part| part.len() + WAITING_BYTES_BESIDES).sum::<usize>();
        Some(parts)
    }
}

impl SeenFragments {
    fn contains(&self, at_ns: u64, id: FragmentId) -> bool {
        self.at_ns.get(&id).is_some_and(|read_ns| at_ns.abs_diff(*read_ns) <= FRAGMENT_COPY_NS)
    }

    fn insert_seen(&mut self, at_ns: u64, id: FragmentId) {
        if self.at_ns.insert(id, at_ns).is_some() {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > FRAGMENTS_READ_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.at_ns.remove(&oldest);
        }
    }
}

impl Parts {
    fn reassembled(&self) -> Option<Vec<u8>> {
        let bytes = self.bytes?;
        let mut reassembled = Vec::with_capacity(bytes);
        for (&offset, part) in &self.parts {
            let seen = reassembled.len().checked_sub(offset)?;
            reassembled.extend_from_slice(part.get(seen..).unwrap_or_default());
        }
        (reassembled.len() >= bytes).then(|| {
            reassembled.truncate(bytes);
            reassembled
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds both halves of a packet with this number. Returns the number of completed packets.
    fn halves(fragments: &mut Fragments, at_ns: u64, id: u32, tally: &mut Tally) -> usize {
        let [source, destination] = [[192, 0, 2, 1], [192, 0, 2, 53]].map(IpAddr::from);
        let packet = Packet { source, destination, protocol: 17, payload: &[7; 8], is_cut: false, fragment: None };
        let take = |offset| fragments.take(at_ns, &packet, Fragment { id, offset, is_last: offset > 0 }, tally);
        [0, 8].map(take).into_iter().flatten().filter(|reassembled| reassembled.len() == 16).count()
    }

    #[test]
    fn memory_of_repeated_fragments_is_bounded() {
        let (mut fragments, mut tally) = (Fragments::default(), Tally::default());
        let mut halves = |at_ns, id| halves(&mut fragments, at_ns, id, &mut tally);
        assert_eq!((halves(0, 0), halves(FRAGMENT_COPY_NS, 0), halves(FRAGMENT_COPY_NS + 1, 0)), (1, 0, 1));
        let packets = FRAGMENTS_READ_MAX as u32 / 2;
        let reassembled: usize = (1..=packets).map(|id| halves(FRAGMENT_LIFE_NS, id)).sum();
        assert_eq!(reassembled, packets as usize);
        // The first one was forgotten to make room for the last.
        assert_eq!((halves(FRAGMENT_LIFE_NS, packets), halves(FRAGMENT_LIFE_NS, 0)), (0, 1));
        let read = &fragments.read;
        assert_eq!((read.order.len(), read.at_ns.len()), (FRAGMENTS_READ_MAX, FRAGMENTS_READ_MAX));
    }
}
