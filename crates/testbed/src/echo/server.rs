//! One thread of an echo server.

use super::connection::{Connection, Served};
use super::counts::Counts;
use super::datagrams::Datagrams;
use super::handler::RequestHandler;
use super::plan::EchoPlan;
use super::quic::QuicServer;
use measure::Transport;
use mio::net::{TcpListener, UdpSocket};
use mio::{Events, Interest, Poll, Token};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use sockets::limits::{EVENTS_MAX, SOCKET_BUFFER_BYTES, STREAM_READ_BYTES};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of the check whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Length of the accept queue.
const BACKLOG: i32 = 16_384;
/// Connections accepted before others are served.
const ACCEPT_COUNT: usize = 64;
/// Tokens below this are sockets, others are connections.
const FIRST_CONNECTION: usize = 16;
const DATAGRAMS: Token = Token(8);
const QUIC: Token = Token(9);

/// The sockets of one thread.
pub(super) struct Sockets {
    datagrams: Option<std::net::UdpSocket>,
    quic: Option<std::net::UdpSocket>,
    listeners: Vec<(Transport, std::net::TcpListener)>,
}

impl Sockets {
    pub(super) fn open(plan: &EchoPlan) -> io::Result<Self> {
        let mut sockets = Self { datagrams: None, quic: None, listeners: Vec::new() };
        for (&transport, &port) in &plan.ports {
            let address = SocketAddr::new(plan.address, port);
            match transport {
                Transport::Udp => sockets.datagrams = Some(datagrams(address)?),
                Transport::Doq => sockets.quic = Some(datagrams(address)?),
                _ => sockets.listeners.push((transport, listener(address)?)),
            }
        }
        Ok(sockets)
    }

    pub(super) fn addresses(&self) -> io::Result<BTreeMap<Transport, SocketAddr>> {
        let mut addresses = BTreeMap::new();
        for (transport, socket) in [(Transport::Udp, &self.datagrams), (Transport::Doq, &self.quic)] {
            if let Some(socket) = socket {
                addresses.insert(transport, socket.local_addr()?);
            }
        }
        for (transport, listener) in &self.listeners {
            addresses.insert(*transport, listener.local_addr()?);
        }
        Ok(addresses)
    }
}

fn datagrams(address: SocketAddr) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    socket.set_reuse_port(true)?;
    let _granted = socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    let _granted = socket.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    socket.bind(&address.into())?;
    Ok(socket.into())
}

fn listener(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// A delayed answer.
struct DelayedReply {
    to: Recipient,
    message: Vec<u8>,
}

enum Recipient {
    Address(SocketAddr),
    /// Slot, generation, and number of the request.
    Connection(usize, u64, u64),
}

/// One thread of an echo server.
pub(super) struct Server {
    handler: RequestHandler,
    poll: Poll,
    datagrams: Option<Datagrams>,
    quic: Option<QuicServer>,
    listeners: Vec<(Transport, TcpListener, Option<Arc<ServerConfig>>)>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    generation: u64,
    later: Vec<DelayedReply>,
    due: BinaryHeap<Reverse<(Instant, usize)>>,
    scratch: Vec<u8>,
}

impl Server {
    pub(super) fn new(plan: &EchoPlan, sockets: Sockets, counts: Arc<Counts>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listeners = Vec::new();
        for (transport, listener) in sockets.listeners {
            let mut listener = TcpListener::from_std(listener);
            poll.registry().register(&mut listener, Token(transport as usize), Interest::READABLE)?;
            let config = || plan.certificate.server_config(transport, plan.is_tls12);
            let config = transport.is_encrypted().then(config).transpose()?;
            listeners.push((transport, listener, config));
        }
        let mut datagrams = sockets.datagrams.map(UdpSocket::from_std);
        if let Some(socket) = &mut datagrams {
            poll.registry().register(socket, DATAGRAMS, Interest::READABLE)?;
        }
        let quic = match sockets.quic {
            None => None,
            Some(socket) => {
                let mut socket = UdpSocket::from_std(socket);
                poll.registry().register(&mut socket, QUIC, Interest::READABLE)?;
                Some(QuicServer::new(socket, plan.certificate.server_config(Transport::Doq, false)?)?)
            }
        };
        Ok(Self {
            handler: RequestHandler { faults: Arc::clone(&plan.faults), counts, start: Instant::now() },
            poll,
            datagrams: datagrams.map(Datagrams::new),
            quic,
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            generation: 0,
            later: Vec::new(),
            due: BinaryHeap::new(),
            scratch: vec![0; STREAM_READ_BYTES],
        })
    }

    /// Serves until `stop` is set.
    pub(super) fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut ready = Vec::new();
        let mut has_more = false;
        while !stop.load(Ordering::Relaxed) {
            let wait = if has_more { Duration::ZERO } else { self.poll_timeout() };
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            ready.clear();
            ready.extend(events.iter().map(|event| {
                (event.token(), event.is_readable(), event.is_writable(), event.is_read_closed() || event.is_error())
            }));
            for &(token, is_readable, is_writable, is_closing) in &ready {
                match token {
                    DATAGRAMS => self.take_datagrams()?,
                    QUIC => {}
                    Token(token) if token < FIRST_CONNECTION => {}
                    Token(token) => self.serve(token - FIRST_CONNECTION, is_readable, is_writable, is_closing),
                }
            }
            // Listeners and QUIC are edge-triggered, and take turns with the rest.
            has_more = self.accept()?;
            if let Some(quic) = &mut self.quic {
                has_more |= quic.run(&self.handler)?;
            }
            self.send_due()?;
        }
        Ok(())
    }

    fn poll_timeout(&self) -> Duration {
        let now = Instant::now();
        let later = self.due.peek().map(|Reverse((due, _))| due.saturating_duration_since(now));
        let quic = self.quic.as_ref().and_then(QuicServer::next_wake).map(|due| due.saturating_duration_since(now));
        STOP_CHECK_INTERVAL.min(later.unwrap_or(STOP_CHECK_INTERVAL)).min(quic.unwrap_or(STOP_CHECK_INTERVAL))
    }

    fn take_datagrams(&mut self) -> io::Result<()> {
        let Some(datagrams) = &mut self.datagrams else { return Ok(()) };
        let (due, later) = (&mut self.due, &mut self.later);
        datagrams.serve(&self.handler, |delay, client, message| {
            due.push(Reverse((Instant::now() + delay, later.len())));
            later.push(DelayedReply { to: Recipient::Address(client), message });
        })
    }

    /// Accepts some connections. Returns whether there may be more.
    fn accept(&mut self) -> io::Result<bool> {
        let mut has_more = false;
        for index in 0..self.listeners.len() {
            for count in 0..ACCEPT_COUNT {
                let (transport, listener, config) = &self.listeners[index];
                let accepted = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // The client is gone, or the limit of open files is reached. The next attempt may succeed.
                    Err(_) => break,
                };
                has_more |= count + 1 == ACCEPT_COUNT;
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.connections.push(None);
                    self.connections.len() - 1
                });
                self.generation += 1;
                let mut connection = Connection::new(accepted, *transport, config.as_ref(), self.generation)?;
                let token = Token(FIRST_CONNECTION + slot);
                self.poll.registry().register(
                    connection.link.socket(),
                    token,
                    Interest::READABLE | Interest::WRITABLE,
                )?;
                self.handler.connected(*transport);
                self.connections[slot] = Some(Box::new(connection));
            }
        }
        Ok(has_more)
    }

    fn serve(&mut self, slot: usize, is_readable: bool, is_writable: bool, is_closing: bool) {
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else { return };
        let mut delayed = Vec::new();
        let served =
            connection.serve(&self.handler, &mut self.scratch, (is_readable, is_writable, is_closing), &mut delayed);
        for (delay, request, message) in delayed {
            self.due.push(Reverse((Instant::now() + delay, self.later.len())));
            self.later.push(DelayedReply { to: Recipient::Connection(slot, connection.generation, request), message });
        }
        self.keep(slot, connection, served);
    }

    fn keep(&mut self, slot: usize, mut connection: Box<Connection>, served: Served) {
        match served {
            Served::GoesOn => self.connections[slot] = Some(connection),
            Served::Ended => {
                connection.link.close();
                let _gone = self.poll.registry().deregister(connection.link.socket());
                self.handler.disconnected(connection.transport);
                self.free.push(slot);
            }
        }
    }

    fn send_due(&mut self) -> io::Result<()> {
        let now = Instant::now();
        while let Some(&Reverse((due, index))) = self.due.peek()
            && due <= now
        {
            self.due.pop();
            let message = std::mem::take(&mut self.later[index].message);
            match self.later[index].to {
                Recipient::Address(client) => {
                    if let Some(datagrams) = &self.datagrams {
                        datagrams.send(&message, client);
                    }
                }
                Recipient::Connection(slot, generation, request) => {
                    let connection = self.connections.get_mut(slot).and_then(Option::take);
                    if let Some(mut connection) = connection {
                        let served = if connection.generation == generation {
                            connection.send_late(request, &message)
                        } else {
                            Served::GoesOn
                        };
                        self.keep(slot, connection, served);
                    }
                }
            }
        }
        if self.due.is_empty() {
            self.later.clear();
        }
        Ok(())
    }
}
