//! Collects the messages of a chunk, column by column ([`super::columns`]).

use super::columns::{SIZES_BYTES, push_varint, zigzag};
use crate::limits::CHUNK_BYTES_MAX;
use crate::message::Message;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A chunk that is not written yet.
#[derive(Default)]
pub(super) struct ChunkBuilder {
    count: usize,
    first_ns: u64,
    last_ns: u64,
    earliest_ns: u64,
    latest_ns: u64,
    /// Addresses and their indexes.
    address_indexes: BTreeMap<IpAddr, u64>,
    v4: Vec<u8>,
    v6: Vec<u8>,
    /// Times of all messages except the first. Its difference to the earliest time is known only at the end.
    times: Vec<u8>,
    transports: Vec<u8>,
    sources: Vec<u8>,
    destinations: Vec<u8>,
    source_ports: Vec<u8>,
    destination_ports: Vec<u8>,
    ids: Vec<u8>,
    lengths: Vec<u8>,
    bodies: Vec<u8>,
}

impl ChunkBuilder {
    /// Number of messages.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The earliest and the latest time in it.
    pub(super) const fn span_ns(&self) -> (u64, u64) {
        (self.earliest_ns, self.latest_ns)
    }

    /// Whether a message of this size fits.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        self.bodies.len() + bytes <= CHUNK_BYTES_MAX
    }

    /// Adds a message. It must have a header.
    pub(super) fn push(&mut self, message: &Message<'_>) {
        let at_ns = message.at_ns;
        if self.count == 0 {
            (self.first_ns, self.earliest_ns, self.latest_ns) = (at_ns, at_ns, at_ns);
        } else {
            push_varint(&mut self.times, zigzag(at_ns.wrapping_sub(self.last_ns)));
        }
        self.count += 1;
        self.last_ns = at_ns;
        self.earliest_ns = self.earliest_ns.min(at_ns);
        self.latest_ns = self.latest_ns.max(at_ns);
        self.transports.push(message.transport as u8);
        let (source, destination) =
            (self.address_index(message.source.ip()), self.address_index(message.destination.ip()));
        push_varint(&mut self.sources, source);
        push_varint(&mut self.destinations, destination);
        self.source_ports.extend_from_slice(&message.source.port().to_le_bytes());
        self.destination_ports.extend_from_slice(&message.destination.port().to_le_bytes());
        let (id, body) = message.bytes.split_at(2);
        self.ids.extend_from_slice(id);
        self.bodies.extend_from_slice(body);
        push_varint(&mut self.lengths, message.bytes.len() as u64);
    }

    fn address_index(&mut self, address: IpAddr) -> u64 {
        if let Some(address_index) = self.address_indexes.get(&address) {
            return *address_index;
        }
        let address_index = match address {
            IpAddr::V4(v4) => {
                self.v4.extend_from_slice(&v4.octets());
                2 * (self.v4.len() as u64 / 4 - 1)
            }
            IpAddr::V6(v6) => {
                self.v6.extend_from_slice(&v6.octets());
                2 * (self.v6.len() as u64 / 16 - 1) + 1
            }
        };
        self.address_indexes.insert(address, address_index);
        address_index
    }

    /// Writes all columns and clears them.
    pub(super) fn compose(&mut self, out: &mut Vec<u8>) {
        let mut first = Vec::new();
        push_varint(&mut first, zigzag(self.first_ns.wrapping_sub(self.earliest_ns)));
        let times = first.len() + self.times.len();
        let sizes = [
            self.v4.len() / 4,
            self.v6.len() / 16,
            times,
            self.sources.len(),
            self.destinations.len(),
            self.lengths.len(),
        ];
        out.clear();
        sizes.iter().for_each(|&size| out.extend_from_slice(&(size as u32).to_le_bytes()));
        debug_assert_eq!(out.len(), SIZES_BYTES);
        self.address_indexes.clear();
        out.extend_from_slice(&self.v4);
        out.extend_from_slice(&self.v6);
        out.extend_from_slice(&first);
        for column in [
            &mut self.times,
            &mut self.transports,
            &mut self.sources,
            &mut self.destinations,
            &mut self.source_ports,
            &mut self.destination_ports,
            &mut self.ids,
            &mut self.lengths,
            &mut self.bodies,
        ] {
            out.append(column);
        }
        self.v4.clear();
        self.v6.clear();
        self.count = 0;
    }
}
