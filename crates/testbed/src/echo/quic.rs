//! A minimal server for DNS over QUIC (RFC 9250).

use super::fault::Reply;
use super::handler::RequestHandler;
use bytes::{Bytes, BytesMut};
use measure::Transport::Doq;
use mio::net::UdpSocket;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection as QuicConnection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, EndpointEvent, Event,
    ReadError, ServerConfig, StreamEvent, StreamId, Transmit, TransportConfig, VarInt,
};
use sockets::{Framing, frame};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Instant;

/// Buffer size for a datagram.
const DATAGRAM_BYTES: usize = 2_048;
/// Datagrams received before answers are sent.
const RECEIVE_COUNT: usize = 64;
/// Streams per connection. QUIC allocates state for each, in every connection.
const STREAMS_MAX: u32 = 100;

/// Delayed answers: their time, connection, stream and bytes.
type DelayedReplies = BinaryHeap<Reverse<(Instant, usize, StreamId, Vec<u8>)>>;

pub(super) struct QuicServer {
    socket: UdpSocket,
    endpoint: Endpoint,
    connections: BTreeMap<usize, Peer>,
    wakes: BinaryHeap<Reverse<(Instant, usize)>>,
    delayed: DelayedReplies,
    touched: Vec<usize>,
    buffer: Vec<u8>,
}

struct Peer {
    quic: QuicConnection,
    wake: Option<Instant>,
    streams: BTreeMap<StreamId, Framing>,
    query_count: u64,
    is_connected: bool,
}

impl QuicServer {
    pub(super) fn new(socket: UdpSocket, tls: Arc<rustls::ServerConfig>) -> io::Result<Self> {
        let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        // DNS messages are small, so probing for larger datagrams has no benefit.
        transport.mtu_discovery_config(None);
        transport.max_concurrent_bidi_streams(STREAMS_MAX.into()).max_concurrent_uni_streams(0u32.into());
        config.transport_config(Arc::new(transport));
        let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::new(config)), true, None);
        Ok(Self {
            socket,
            endpoint,
            connections: BTreeMap::new(),
            wakes: BinaryHeap::new(),
            delayed: BinaryHeap::new(),
            touched: Vec::new(),
            buffer: Vec::new(),
        })
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let wake = self.wakes.peek().map(|Reverse((due, _))| *due);
        let delayed = self.delayed.peek().map(|Reverse((due, ..))| *due);
        wake.into_iter().chain(delayed).min()
    }

    /// Handles pending work without blocking. Returns whether there may be more.
    pub(super) fn run(&mut self, handler: &RequestHandler) -> io::Result<bool> {
        let now = Instant::now();
        let has_more = self.receive(now)?;
        while let Some(&Reverse((due, handle))) = self.wakes.peek()
            && due <= now
        {
            self.wakes.pop();
            self.touched.push(handle);
        }
        while let Some(Reverse((due, handle, stream, framed))) = self.delayed.pop() {
            if due > now {
                self.delayed.push(Reverse((due, handle, stream, framed)));
                break;
            }
            if let Some(peer) = self.connections.get_mut(&handle) {
                write(&mut peer.quic, stream, &framed);
                self.touched.push(handle);
            }
        }
        while let Some(handle) = self.touched.pop() {
            self.drive(handle, handler, now);
        }
        Ok(has_more)
    }

    fn receive(&mut self, now: Instant) -> io::Result<bool> {
        let mut bytes = [0u8; DATAGRAM_BYTES];
        for _ in 0..RECEIVE_COUNT {
            let (length, client) = match self.socket.recv_from(&mut bytes) {
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            self.buffer.clear();
            let datagram = BytesMut::from(&bytes[..length]);
            match self.endpoint.handle(now, client, None, None, datagram, &mut self.buffer) {
                Some(DatagramEvent::ConnectionEvent(ConnectionHandle(handle), event)) => {
                    if let Some(peer) = self.connections.get_mut(&handle) {
                        peer.quic.handle_event(event);
                        self.touched.push(handle);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    self.buffer.clear();
                    match self.endpoint.accept(incoming, now, &mut self.buffer, None) {
                        Ok((ConnectionHandle(handle), quic)) => {
                            let streams = BTreeMap::new();
                            let peer = Peer { quic, wake: None, streams, query_count: 0, is_connected: false };
                            self.connections.insert(handle, peer);
                            self.touched.push(handle);
                        }
                        Err(error) => {
                            if let Some(transmit) = error.response {
                                send(&self.socket, &transmit, &self.buffer);
                            }
                        }
                    }
                }
                Some(DatagramEvent::Response(transmit)) => send(&self.socket, &transmit, &self.buffer),
                None => {}
            }
        }
        Ok(true)
    }

    fn drive(&mut self, handle: usize, handler: &RequestHandler, now: Instant) {
        let Some(peer) = self.connections.get_mut(&handle) else { return };
        if peer.quic.poll_timeout().is_some_and(|due| due <= now) {
            peer.quic.handle_timeout(now);
        }
        let mut is_lost = false;
        while let Some(event) = peer.quic.poll() {
            match event {
                Event::Connected => {
                    peer.is_connected = true;
                    handler.connected(Doq);
                }
                Event::ConnectionLost { .. } => is_lost = true,
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                    while let Some(id) = peer.quic.streams().accept(Dir::Bi) {
                        peer.streams.insert(id, Framing::default());
                        is_lost |= peer.read(id, handle, handler, now, &mut self.delayed);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    is_lost |= peer.read(id, handle, handler, now, &mut self.delayed);
                }
                _ => {}
            }
        }
        if is_lost && !peer.quic.is_closed() {
            peer.quic.close(now, VarInt::from_u32(0), Bytes::new());
        }
        loop {
            self.buffer.clear();
            let Some(transmit) = peer.quic.poll_transmit(now, 1, &mut self.buffer) else { break };
            send(&self.socket, &transmit, &self.buffer);
        }
        while let Some(event) = peer.quic.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(ConnectionHandle(handle), event) {
                peer.quic.handle_event(answer);
            }
        }
        if is_lost {
            if peer.is_connected {
                handler.disconnected(Doq);
            }
            self.connections.remove(&handle);
            self.endpoint.handle_event(ConnectionHandle(handle), EndpointEvent::drained());
            return;
        }
        let wake = peer.quic.poll_timeout();
        if wake != peer.wake {
            peer.wake = wake;
            self.wakes.extend(wake.map(|due| Reverse((due, handle))));
        }
    }
}

impl Peer {
    /// Reads a stream. Returns whether the connection must close.
    fn read(
        &mut self,
        id: StreamId,
        handle: usize,
        handler: &RequestHandler,
        now: Instant,
        delayed: &mut DelayedReplies,
    ) -> bool {
        let Some(framing) = self.streams.get_mut(&id) else { return false };
        let mut replies = Vec::new();
        let client = self.quic.remote_address();
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return false };
        let is_over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => framing.take(&chunk.bytes, |query| {
                    replies.push(handler.reply(query, Doq, client, self.query_count));
                    self.query_count += 1;
                }),
                Ok(None) | Err(ReadError::Reset(_)) => break true,
                Err(ReadError::Blocked) => break false,
            }
        };
        let _transmits = chunks.finalize();
        if is_over {
            self.streams.remove(&id);
        }
        let mut closes = false;
        for Reply { messages, partial, closes: ends, delay } in replies {
            let mut framed = Vec::new();
            messages.iter().for_each(|message| frame(&mut framed, message));
            framed.extend(partial.into_iter().flatten());
            match delay {
                Some(delay) => delayed.push(Reverse((now + delay, handle, id, framed))),
                None if framed.is_empty() => {}
                None => write(&mut self.quic, id, &framed),
            }
            closes |= ends;
        }
        closes
    }
}

fn write(quic: &mut QuicConnection, id: StreamId, framed: &[u8]) {
    let mut stream = quic.send_stream(id);
    // Ignored if the client has reset the stream. An answer is smaller than any window.
    let _written = stream.write(framed);
    let _finished = stream.finish();
}

fn send(socket: &UdpSocket, transmit: &Transmit, bytes: &[u8]) {
    // A full buffer drops the datagram, as a network may, and QUIC sends it again.
    let _sent = socket.send_to(&bytes[..transmit.size], transmit.destination);
}
