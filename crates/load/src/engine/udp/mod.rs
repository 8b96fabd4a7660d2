//! Datagrams: a few connected sockets in rotation. A replay has one socket per server that sets the source address of
//! each message, or one socket per source.

pub(super) mod channel;
// Datagrams from other addresses than the server's.
mod stray;
// Replay: the source address per message, or a socket per source.
mod per_source;
mod pktinfo;

pub(super) use per_source::PerSourceSockets;
pub(super) use pktinfo::PktinfoSockets;

use super::clock::{Clock, StampClock};
use super::matching::Arrival;
use super::plan::Plan;
use super::transport_driver::{RECEIVE_NS, TransportDriver};
use super::worker_stats::WorkerStats;
use crate::limits::{RESPONSE_BYTES_CHECKED, STRAY_CHECK_TICKS};
use crate::per_query::Parties;
use crate::workload::learned_cookie;
use channel::Channel;
use measure::Sent;
use measure::Transport::Udp;
use sockets::batch::{self, Incoming, Outgoing};
use sockets::limits::{BATCH_COUNT, RESPONSE_BYTES_KEPT};
use std::io;
use std::net::SocketAddr;
use stray::StraySocket;

/// The sockets of a worker.
pub(super) struct Datagrams {
    channels: Vec<Channel>,
    /// The channel that sends next, and the one to read next.
    next_send: usize,
    next_receive: usize,
    /// The channel whose stray socket is read next.
    next_stray: usize,
    outgoing: Outgoing,
    /// Send lag of each message of `outgoing`.
    lags: [u64; BATCH_COUNT],
    incoming: Incoming,
    stamps: StampClock,
    learns_cookies: bool,
}

impl TransportDriver for Datagrams {
    fn waiting(&self) -> usize {
        self.channels.iter().map(|channel| channel.in_flight.waiting()).sum()
    }

    fn flush(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        if self.outgoing.count() == 0 {
            return Ok(());
        }
        let channel = &mut self.channels[self.next_send];
        let (accepted, refusals) = channel.send(&mut self.outgoing)?;
        stats.totals.refusals += refusals;
        let unsent = self.outgoing.count() - accepted;
        for sent in std::iter::repeat_with(|| channel.in_flight.take_back()).take(unsent).flatten() {
            stats.unsent(sent);
        }
        let second = stats.queries(Udp, now);
        second.send_errors += unsent as u64;
        for (index, &lag) in self.lags.iter().enumerate().take(accepted) {
            second.sent(lag, self.outgoing.bytes_of(index));
        }
        self.outgoing.clear();
        self.next_send = (self.next_send + 1) % self.channels.len();
        Ok(())
    }

    fn receive(&mut self, stats: &mut WorkerStats, until: u64) -> io::Result<bool> {
        let mut has_received = false;
        for _ in 0..self.channels.len() {
            let index = self.next_receive;
            self.next_receive = (index + 1) % self.channels.len();
            has_received |= self.receive_from(index, stats)? > 0;
            // In a closed loop, an answer allows the next query. In an open loop, read on if there is time, because
            // pending answers stay in the CPU cache only briefly.
            if has_received && (until == u64::MAX || stats.clock.now_ns() + RECEIVE_NS > until) {
                break;
            }
        }
        Ok(has_received)
    }

    fn tick(&mut self, stats: &mut WorkerStats, now: u64) -> io::Result<()> {
        let before = now.saturating_sub(stats.timeout_ns());
        for index in 0..self.channels.len() {
            if self.channels[index].in_flight.oldest_sent_ns().is_some_and(|sent| sent < before) {
                while self.receive_from(index, stats)? == BATCH_COUNT {}
                while let Some(sent) = self.channels[index].in_flight.expire(before) {
                    stats.timed_out(Udp, sent);
                }
            }
        }
        for _ in 0..self.channels.len().div_ceil(STRAY_CHECK_TICKS) {
            self.receive_strays(self.next_stray, stats)?;
            self.next_stray = (self.next_stray + 1) % self.channels.len();
        }
        Ok(())
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.extend(self.channels.iter().map(|channel| batch::watch(&channel.socket)));
    }

    fn warm_up(&mut self) -> io::Result<()> {
        for channel in &self.channels {
            self.outgoing.send(&channel.socket, 0, false)?;
            channel.receive(&mut self.incoming, &mut 0)?;
        }
        Ok(())
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
    }

    fn finish(&mut self, stats: &mut WorkerStats, is_broken_off: bool) -> io::Result<()> {
        for index in 0..self.channels.len() {
            while self.receive_from(index, stats)? == BATCH_COUNT {}
            while let Some(sent) = self.channels[index].in_flight.expire(u64::MAX) {
                stats.unanswered_at_end(Udp, sent, is_broken_off);
            }
            stats.totals.dropped += u64::from(batch::dropped(&self.channels[index].socket));
            while self.receive_strays(index, stats)? == BATCH_COUNT {}
            let channel = &self.channels[index];
            let unread = channel.stray.as_ref().map_or(0, StraySocket::dropped);
            let now = stats.clock.now_ns();
            stats.queries(Udp, now).other_address += unread;
            stats.count_port(Udp, channel.server);
        }
        Ok(())
    }
}

impl Datagrams {
    /// Opens the sockets of a worker to these servers.
    pub(super) fn open(plan: &Plan, servers: &[SocketAddr], stamps: StampClock) -> io::Result<Self> {
        let bytes_kept = if plan.checking.is_some() { RESPONSE_BYTES_CHECKED } else { RESPONSE_BYTES_KEPT };
        let mut channels = Vec::new();
        for socket in 0..plan.socket_count {
            for &server in servers {
                let source = plan.sources.get(socket % plan.sources.len().max(1)).copied();
                channels.push(Channel::open(server, source)?);
            }
        }
        Ok(Self {
            channels,
            next_send: 0,
            next_receive: 0,
            next_stray: 0,
            outgoing: Outgoing::new(),
            lags: [0; BATCH_COUNT],
            incoming: Incoming::with_buffer_bytes(bytes_kept),
            stamps,
            learns_cookies: plan.workload.learns_cookies(),
        })
    }

    /// Whether another message can be queued, to a certain server or to any: in the current batch, or on the next
    /// channel with room.
    pub(super) fn has_room(&mut self, server: Option<SocketAddr>) -> bool {
        let fits = |channel: &Channel| {
            channel.in_flight.free_ids() > 0 && server.is_none_or(|server| channel.server == server)
        };
        if self.outgoing.count() > 0 {
            return self.outgoing.count() < BATCH_COUNT && fits(&self.channels[self.next_send]);
        }
        let count = self.channels.len();
        let found = (0..count).map(|step| (self.next_send + step) % count).find(|&index| fits(&self.channels[index]));
        self.next_send = found.unwrap_or(self.next_send);
        found.is_some()
    }

    /// Queues a message for a client with an address, if given. `fill` writes it with the server's cookie.
    pub(super) fn push(
        &mut self,
        stats: &mut WorkerStats,
        mut sent: Sent,
        client: Option<u32>,
        fill: impl FnOnce(&mut [u8], &[u8]) -> usize,
    ) {
        self.lags[self.outgoing.count()] = sent.sent_ns - sent.planned_ns;
        let channel = &mut self.channels[self.next_send];
        let message = self.outgoing.push(|slot| fill(slot, &channel.cookie));
        sent.row = stats.begin(sent, Parties { transport: Udp, server: channel.server, client }, message);
        channel.in_flight.insert(message, sent);
    }

    /// Reads datagrams from other addresses on a channel's port. Returns how many there were.
    fn receive_strays(&mut self, index: usize, stats: &mut WorkerStats) -> io::Result<usize> {
        let Some(stray) = &self.channels[index].stray else { return Ok(0) };
        let queried = self.channels[index].server;
        if stats.totals.other_address.is_none() {
            stats.totals.other_address = stray.sender().map(|sender| (queried, sender));
        }
        let count = self.incoming.receive(&stray.socket)?;
        let now = stats.clock.now_ns();
        for index in 0..count {
            let at = self.incoming.stamp(index).map_or(now, |stamp| self.stamps.at(stamp, now));
            stats.queries(Udp, at).other_address += 1;
        }
        Ok(count)
    }

    fn receive_from(&mut self, index: usize, stats: &mut WorkerStats) -> io::Result<usize> {
        let channel = &mut self.channels[index];
        let count = channel.receive(&mut self.incoming, &mut stats.totals.refusals)?;
        if count == 0 {
            return Ok(0);
        }
        let now = stats.clock.now_ns();
        for index in 0..count {
            let message = self.incoming.message(index);
            let at = self.stamps.arrival_ns(self.incoming.stamp(index), now, &mut stats.totals.unstamped);
            let arrival = channel.in_flight.arrive(message);
            let written_ns = match arrival {
                Arrival::Answer { sent, .. } => {
                    if let (true, Some(cookie)) = (self.learns_cookies, learned_cookie(message)) {
                        channel.cookie.clear();
                        channel.cookie.extend_from_slice(cookie);
                    }
                    sent.sent_ns
                }
                Arrival::Late { sent } => sent.sent_ns,
                _ => 0,
            };
            stats.arrived(Udp, at, message, arrival, written_ns);
            stats.count_cut_bytes(Udp, at, self.incoming.cut_bytes(index));
        }
        Ok(count)
    }
}
