//! One direction of a link, without clock, socket or thread. Packets go in with their arrival time and come out when
//! they are due.

mod shape;
#[cfg(test)]
mod tests;

pub use shape::{Loss, Rate, Rtt, Shape};

use crate::limits::{QUEUED_BYTES_MAX, QUEUED_PACKETS_MAX, SPARE_BUFFERS_MAX};
use crate::random::Random;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The direction of a packet. It tells which address is the client's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the clients to the hub: the source is the client.
    Up,
    /// From the hub to the clients: the destination is the client.
    Down,
}

/// Counts of packets.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Counts {
    /// Packets that came in.
    pub packets: u64,
    /// Their bytes, from the IP header on.
    pub bytes: u64,
    /// Packets that went out.
    pub delivered: u64,
    /// Packets lost by the configured loss.
    pub lost: u64,
    /// Packets dropped because the queue of the limited rate was full.
    pub dropped_by_rate: u64,
    /// Packets dropped because the link itself was full.
    pub dropped_by_room: u64,
    /// Packets in the link now. At the end: packets that were still on their way.
    pub held: u64,
    /// The largest value of `held`.
    pub held_max: u64,
}

/// A packet that is due.
#[derive(Debug)]
pub struct DuePacket {
    /// The planned time, in ns.
    pub at_ns: u64,
    /// The packet. Give it back to [`Line::recycle`].
    pub bytes: Vec<u8>,
}

/// One direction of a link.
///
/// ```text
///   handle_packet -> loss -> rate, with its queue -> delay of the client, jitter, order -> poll_due
/// ```
#[derive(Debug)]
pub struct Line {
    shape: Shape,
    direction: Direction,
    seed: u64,
    random: Random,
    /// The state of Gilbert's model: true in the state that loses packets.
    loses: bool,
    /// When the limited rate has sent all accepted packets.
    free_at_ns: u64,
    /// Due time, order of arrival, and index of the bytes.
    due: BinaryHeap<Reverse<(u64, u64, usize)>>,
    packets: Vec<QueuedPacket>,
    free_slots: Vec<usize>,
    spare: Vec<Vec<u8>>,
    bytes_held: usize,
    arrivals: u64,
    /// For each client with packets in the link: their number, and the due time of the last one.
    clients: HashMap<IpAddr, (u32, u64)>,
    counts: Counts,
}

#[derive(Debug)]
struct QueuedPacket {
    client: IpAddr,
    bytes: Vec<u8>,
}

impl Line {
    /// An empty line. Both directions must use the same seed: it decides the round trips. Losses also depend on the
    /// direction.
    #[must_use]
    pub fn new(shape: Shape, direction: Direction, seed: u64) -> Self {
        // No client address has this number.
        let random = Random::new(seed, direction as u128);
        Self {
            shape,
            direction,
            seed,
            random,
            loses: false,
            free_at_ns: 0,
            due: BinaryHeap::new(),
            packets: Vec::new(),
            free_slots: Vec::new(),
            spare: Vec::new(),
            bytes_held: 0,
            arrivals: 0,
            clients: HashMap::new(),
            counts: Counts::default(),
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { held: self.due.len() as u64, ..self.counts }
    }

    /// Takes a packet that arrived, and decides whether and when it leaves.
    pub fn handle_packet(&mut self, bytes: &[u8], now_ns: u64) {
        self.counts.packets += 1;
        self.counts.bytes += bytes.len() as u64;
        if self.is_lost() {
            self.counts.lost += 1;
            return;
        }
        let full = self.due.len() >= QUEUED_PACKETS_MAX || self.bytes_held + bytes.len() > QUEUED_BYTES_MAX;
        if full {
            self.counts.dropped_by_room += 1;
            return;
        }
        let Some(sent_ns) = self.pass_rate(bytes.len() as u64, now_ns) else {
            self.counts.dropped_by_rate += 1;
            return;
        };
        // A packet that is not IP has no client. It counts as from the address 0.0.0.0.
        let client = client_of(bytes, self.direction).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let one_way = self.shape.rtt.of(client, self.seed).as_nanos() as u64 / 2;
        let jitter = (self.shape.jitter.as_nanos() as u64 / 2) as f64;
        let added = if jitter > 0.0 { (self.random.share() * jitter) as u64 } else { 0 };
        self.enqueue(client, bytes, sent_ns + one_way + added);
    }

    /// Returns the next packet that is due.
    pub fn poll_due(&mut self, now_ns: u64) -> Option<DuePacket> {
        let &Reverse((at_ns, _, slot)) = self.due.peek()?;
        if at_ns > now_ns {
            return None;
        }
        self.due.pop();
        let packet = &mut self.packets[slot];
        let (client, bytes) = (packet.client, std::mem::take(&mut packet.bytes));
        self.free_slots.push(slot);
        self.bytes_held -= bytes.len();
        if let Some((count, _)) = self.clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&client);
            }
        }
        self.counts.delivered += 1;
        Some(DuePacket { at_ns, bytes })
    }

    /// When the next packet is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Takes back the buffer of a packet that has gone out.
    pub fn recycle(&mut self, due: DuePacket) {
        if self.spare.len() < SPARE_BUFFERS_MAX {
            self.spare.push(due.bytes);
        }
    }

    /// Whether to lose the next packet.
    fn is_lost(&mut self) -> bool {
        let Loss { share, burst } = self.shape.loss;
        if share <= 0.0 {
            return false;
        }
        if burst <= 1.0 || share >= 1.0 {
            return self.random.share() < share;
        }
        // Gilbert, 1960: a burst ends with probability 1 / burst, and begins as often as the share requires.
        let ends = 1.0 / burst;
        let begins = (ends * share / (1.0 - share)).min(1.0);
        let draw = self.random.share();
        self.loses = if self.loses { draw >= ends } else { draw < begins };
        self.loses
    }

    /// When the limited rate has sent the last bit of a packet. `None` if the queue is full.
    fn pass_rate(&mut self, bytes: u64, now_ns: u64) -> Option<u64> {
        let Some(Rate { bits, queue_bytes }) = self.shape.rate else { return Some(now_ns) };
        let transmit_ns = |bytes: u64| (u128::from(bytes) * 8 * 1_000_000_000 / u128::from(bits)) as u64;
        let begins = self.free_at_ns.max(now_ns);
        // One packet always fits: the packet being sent is not in the queue.
        if begins > now_ns && begins - now_ns > transmit_ns(queue_bytes) {
            return None;
        }
        self.free_at_ns = begins + transmit_ns(bytes);
        Some(self.free_at_ns)
    }

    fn enqueue(&mut self, client: IpAddr, bytes: &[u8], mut at_ns: u64) {
        let (count, last_ns) = self.clients.entry(client).or_insert((0, 0));
        if !self.shape.reorder {
            at_ns = at_ns.max(*last_ns);
        }
        *count += 1;
        *last_ns = at_ns;
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(bytes);
        let packet = QueuedPacket { client, bytes: buffer };
        let slot = self.free_slots.pop();
        let slot = match slot {
            Some(slot) => {
                self.packets[slot] = packet;
                slot
            }
            None => {
                self.packets.push(packet);
                self.packets.len() - 1
            }
        };
        self.due.push(Reverse((at_ns, self.arrivals, slot)));
        self.arrivals += 1;
        self.bytes_held += bytes.len();
        self.counts.held_max = self.counts.held_max.max(self.due.len() as u64);
    }
}

/// The client of a packet (RFC 791 3.1, RFC 8200 3).
fn client_of(packet: &[u8], direction: Direction) -> Option<IpAddr> {
    let is_up = direction == Direction::Up;
    match packet.first()? >> 4 {
        4 => {
            let bytes = packet.get(if is_up { 12..16 } else { 16..20 })?;
            Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
        }
        6 => {
            let bytes = packet.get(if is_up { 8..24 } else { 24..40 })?;
            Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into())
        }
        _ => None,
    }
}
