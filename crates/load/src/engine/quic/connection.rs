//! One QUIC connection of a client.

use super::port::Port;
use crate::engine::connection_pool::{ConnectionState, PooledConnection};
use crate::engine::matching::Arrival;
use crate::engine::worker_stats::WorkerStats;
use measure::Sent;
use measure::Transport::{self, Doq};
use quinn_proto::{
    Connection as QuicConnection, ConnectionError, ConnectionEvent, ConnectionHandle, Dir, Event, ReadError,
    StreamEvent, StreamId, TransportErrorCode, VarInt,
};
use sockets::limits::{STREAM_MESSAGE_BYTES_MAX, STREAM_UNSENT_BYTES_MAX};
use sockets::{Framing, frame};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

/// DOQ_NO_ERROR (RFC 9250 8.4).
const NO_ERROR: VarInt = VarInt::from_u32(0);

pub(super) struct Connection {
    quic: QuicConnection,
    handle: ConnectionHandle,
    pub(super) port: usize,
    /// The source address of its client, if it has its own.
    source: Option<IpAddr>,
    pub(super) state: ConnectionState,
    /// Queries waiting for a stream, framed.
    pending: VecDeque<(u64, Vec<u8>)>,
    pending_bytes: usize,
    /// Queries sent as early data.
    early: Vec<(u64, Vec<u8>)>,
    /// Queries below this number were accepted as early data.
    early_end: u64,
    streams: BTreeMap<StreamId, Exchange>,
    wake: Option<Instant>,
    /// When the last datagram arrived.
    arrived_ns: u64,
    /// Whether the server's certificate was verified.
    pub(super) is_verified: bool,
    /// Why the certificate was rejected.
    pub(super) refusal: Option<rustls::Error>,
}

struct Exchange {
    number: u64,
    framing: Framing,
    bytes: usize,
}

/// Whether the connection continues.
pub(super) enum ConnectionStatus {
    Open,
    Lost(String),
}

impl PooledConnection for Connection {
    fn state(&self) -> &ConnectionState {
        &self.state
    }

    fn state_mut(&mut self) -> &mut ConnectionState {
        &mut self.state
    }

    fn transport(&self) -> Transport {
        Doq
    }

    fn has_room(&mut self) -> bool {
        self.state.has_room() && self.pending_bytes < STREAM_UNSENT_BYTES_MAX
    }
}

impl Connection {
    pub(super) fn new(
        quic: QuicConnection,
        handle: ConnectionHandle,
        (port, source): (usize, Option<IpAddr>),
        state: ConnectionState,
    ) -> Self {
        Self {
            quic,
            handle,
            port,
            source,
            state,
            pending: VecDeque::new(),
            pending_bytes: 0,
            early: Vec::new(),
            early_end: 0,
            streams: BTreeMap::new(),
            wake: None,
            arrived_ns: 0,
            is_verified: false,
            refusal: None,
        }
    }

    /// Queues a query and returns its number. Its ID is zero (RFC 9250 4.2.1).
    pub(super) fn queue(&mut self, sent: Sent, message: &mut [u8]) -> u64 {
        let number = self.state.window.insert_stream(message, sent);
        let mut framed = Vec::with_capacity(message.len() + 2);
        frame(&mut framed, message);
        self.pending_bytes += framed.len();
        self.pending.push_back((number, framed));
        number
    }

    /// Handles a datagram that arrived at `at_ns`.
    pub(super) fn handle_datagram(&mut self, event: ConnectionEvent, at_ns: u64) {
        self.arrived_ns = at_ns;
        self.quic.handle_event(event);
    }

    pub(super) fn took_early_data(&self) -> bool {
        self.quic.accepted_0rtt()
    }

    /// The time at which QUIC must be called next, if it has changed.
    pub(super) fn next_wake(&mut self) -> Option<Instant> {
        let wake = self.quic.poll_timeout();
        let is_new = wake != self.wake;
        self.wake = wake;
        wake.filter(|_| is_new)
    }

    /// Whether this is the time at which QUIC must be called.
    pub(super) fn wakes_at(&mut self, due: Instant) -> bool {
        let is_due = self.wake == Some(due);
        if is_due {
            self.wake = None;
        }
        is_due
    }

    /// Handles all pending timers, events, queries and datagrams.
    pub(super) fn advance(&mut self, port: &mut Port, stats: &mut WorkerStats, now: Instant) -> ConnectionStatus {
        if self.quic.poll_timeout().is_some_and(|due| due <= now) {
            self.quic.handle_timeout(now);
        }
        port.exchange_events(self.handle, &mut self.quic);
        let mut status = ConnectionStatus::Open;
        while let Some(event) = self.quic.poll() {
            match event {
                Event::Connected => self.connected(stats),
                Event::ConnectionLost { reason } => status = ConnectionStatus::Lost(explain(reason)),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, stats),
                Event::Stream(StreamEvent::Stopped { id, .. }) => self.end_stream(id, stats),
                _ => {}
            }
        }
        if matches!(status, ConnectionStatus::Open) {
            self.open_streams(stats);
        }
        port.transmit(&mut self.quic, self.source, now, &mut stats.totals.refusals);
        port.exchange_events(self.handle, &mut self.quic);
        status
    }

    fn connected(&mut self, stats: &mut WorkerStats) {
        let now = stats.clock.now_ns();
        self.state.opened(now);
        stats.connections(Doq, now).opened(now.saturating_sub(self.state.began_ns));
        let early = std::mem::take(&mut self.early);
        if self.quic.accepted_0rtt() {
            self.early_end = early.last().map_or(0, |(number, _)| number + 1);
        } else {
            // Streams of rejected early data are gone. Their queries are sent again (RFC 9001 4.6.2).
            self.streams.clear();
            for (number, framed) in early.into_iter().rev() {
                self.pending_bytes += framed.len();
                self.pending.push_front((number, framed));
            }
        }
    }

    fn open_streams(&mut self, stats: &mut WorkerStats) {
        if self.pending.is_empty() || (!self.state.is_open && !self.quic.has_0rtt()) {
            return;
        }
        while !self.pending.is_empty()
            && let Some(id) = self.quic.streams().open(Dir::Bi)
            && let Some((number, framed)) = self.pending.pop_front()
        {
            self.pending_bytes -= framed.len();
            let mut stream = self.quic.send_stream(id);
            // The query, and the end of this side of the stream (RFC 9250 4.2). A query is smaller than any window.
            let is_written = stream.write(&framed) == Ok(framed.len()) && stream.finish().is_ok();
            if !is_written {
                if let Some(sent) = self.state.window.mark_lost(number) {
                    stats.lost(Doq, sent, stats.clock.now_ns());
                }
                continue;
            }
            self.streams.insert(id, Exchange { number, framing: Framing::default(), bytes: 0 });
            if !self.state.is_open {
                self.early.push((number, framed));
                let now = stats.clock.now_ns();
                stats.connections(Doq, now).early_queries += 1;
            }
        }
        self.state.window.written(stats.clock.now_ns());
    }

    fn read(&mut self, id: StreamId, stats: &mut WorkerStats) {
        let Some(exchange) = self.streams.get_mut(&id) else { return };
        // Messages that waited for this worker count from the arrival of the datagram.
        let now = self.arrived_ns;
        self.state.active_ns = now;
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let (mut is_over, mut is_reset) = (false, false);
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    exchange.bytes += chunk.bytes.len();
                    let (window, number, early_end) = (&mut self.state.window, exchange.number, self.early_end);
                    exchange.framing.take(&chunk.bytes, |message| {
                        let (arrival, written_ns) = window.arrive_on(number, message);
                        if matches!(arrival, Arrival::Answer { .. }) && number < early_end {
                            stats.connections(Doq, now).early_answers += 1;
                        }
                        stats.arrived(Doq, now, message, arrival, written_ns);
                    });
                    is_reset |= exchange.bytes > STREAM_MESSAGE_BYTES_MAX + 2;
                }
                Ok(None) => {
                    is_over = true;
                    break;
                }
                Err(ReadError::Blocked) => break,
                Err(ReadError::Reset(_)) => {
                    is_reset = true;
                    break;
                }
            }
        }
        // Resulting datagrams are sent after all events.
        let _transmits = chunks.finalize();
        if is_over && exchange.framing.partial_bytes() > 0 {
            stats.queries(Doq, now).stray += 1;
        }
        if is_over || is_reset {
            self.end_stream(id, stats);
        }
    }

    /// The stream has ended. A query without an answer is lost.
    fn end_stream(&mut self, id: StreamId, stats: &mut WorkerStats) {
        if let Some(exchange) = self.streams.remove(&id)
            && let Some(sent) = self.state.window.mark_lost(exchange.number)
        {
            stats.lost(Doq, sent, stats.clock.now_ns());
        }
    }

    /// Closes the connection.
    pub(super) fn close(&mut self, port: &mut Port, now: Instant) {
        if !self.quic.is_closed() {
            self.quic.close(now, NO_ERROR, bytes::Bytes::new());
        }
        let mut refusals = 0;
        port.transmit(&mut self.quic, self.source, now, &mut refusals);
        port.forget(self.handle);
    }
}

fn explain(reason: ConnectionError) -> String {
    match reason {
        ConnectionError::ConnectionClosed(close) if is_no_application_protocol(close.error_code) => {
            "it speaks QUIC, but not this protocol (no common ALPN)".into()
        }
        other => format!("the QUIC handshake failed: {other}"),
    }
}

/// The TLS alert no_application_protocol, 120, as a QUIC error (RFC 9001 4.8).
fn is_no_application_protocol(code: TransportErrorCode) -> bool {
    u64::from(code) == 0x0100 + 120
}
