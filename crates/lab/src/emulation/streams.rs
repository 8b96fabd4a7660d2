//! TCP connections to any address (RFC 7766).

use crate::limits::EMULATED_PORT;
use crate::limits::{EMULATED_CONNECTIONS_MAX, EMULATED_IDLE_MAX};
use hierarchy::serve::{Emulator, ServerMessage, Transport};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};
use sockets::limits::{STREAM_READ_BYTES, STREAM_UNSENT_BYTES_MAX};
use sockets::{Framing, Link, ReadStatus, frame};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Instant;
use wire::limits::MESSAGE_BYTES_MAX;

/// Length of the accept queue.
const BACKLOG: i32 = 1_024;

/// The connections of one thread, with consecutive tokens.
pub(super) struct Streams {
    listeners: Vec<TcpListener>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    first_token: usize,
    scratch: Vec<u8>,
    plain: Vec<u8>,
    answer: Vec<u8>,
}

struct Connection {
    link: Link,
    framing: Framing,
    /// The address that the client connected to.
    server: IpAddr,
    heard: Instant,
}

impl Streams {
    /// Opens listeners, with tokens from `first_listener` on.
    pub(super) fn open(registry: &Registry, has_ipv6: bool, first_listener: usize) -> io::Result<Self> {
        let mut listeners = Vec::new();
        for is_ipv6 in [false, true].into_iter().take(1 + usize::from(has_ipv6)) {
            let mut listener = TcpListener::from_std(listener(is_ipv6)?);
            registry.register(&mut listener, Token(first_listener + listeners.len()), Interest::READABLE)?;
            listeners.push(listener);
        }
        Ok(Self {
            first_token: first_listener + listeners.len(),
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            scratch: vec![0; STREAM_READ_BYTES],
            plain: Vec::new(),
            answer: vec![0; MESSAGE_BYTES_MAX],
        })
    }

    /// Accepts connections while there is room.
    pub(super) fn accept(&mut self, registry: &Registry) -> io::Result<()> {
        for listener in &self.listeners {
            loop {
                if self.free.is_empty() && self.connections.len() == EMULATED_CONNECTIONS_MAX {
                    return Ok(());
                }
                // Nothing is pending, the client is gone, or the limit of open files is reached. The next attempt may
                // succeed.
                let Ok((socket, _)) = listener.accept() else { break };
                let Ok(connection) = Connection::new(socket) else { continue };
                let slot = self.free.pop().unwrap_or_else(|| {
                    self.connections.push(None);
                    self.connections.len() - 1
                });
                let mut connection = Box::new(connection);
                let token = Token(self.first_token + slot);
                registry.register(connection.link.socket(), token, Interest::READABLE | Interest::WRITABLE)?;
                self.connections[slot] = Some(connection);
            }
        }
        Ok(())
    }

    /// Answers the queries on a connection.
    pub(super) fn serve(&mut self, event: &Event, registry: &Registry, emulator: &mut Emulator, at_ns: u64) {
        let Some(slot) = event.token().0.checked_sub(self.first_token) else { return };
        let Some(mut connection) = self.connections.get_mut(slot).and_then(Option::take) else { return };
        if self.serve_one(&mut connection, event, emulator, at_ns).is_ok_and(|end| end == ReadStatus::Open) {
            self.connections[slot] = Some(connection);
        } else {
            self.free(slot, *connection, registry);
        }
    }

    fn serve_one(
        &mut self,
        connection: &mut Connection,
        event: &Event,
        emulator: &mut Emulator,
        at_ns: u64,
    ) -> io::Result<ReadStatus> {
        let Connection { link, framing, server, heard } = connection;
        if event.is_writable() {
            link.writable()?;
        }
        let is_closing = event.is_read_closed() || event.is_error();
        let mut end = ReadStatus::Open;
        if event.is_readable() || is_closing {
            self.plain.clear();
            end = link.read(&mut self.scratch, &mut self.plain, is_closing)?;
            *heard = Instant::now();
            let answer = &mut self.answer;
            framing.take(&self.plain, |bytes| {
                let message = ServerMessage { at_ns, server: *server, transport: Transport::Tcp, bytes };
                let length = emulator.answer(&message, answer);
                if length > 0 {
                    frame(link.outgoing(), &answer[..length]);
                }
            });
        }
        link.flush()?;
        // Closes a connection whose client does not read its answers.
        Ok(if link.unsent_bytes() > STREAM_UNSENT_BYTES_MAX { ReadStatus::Closed } else { end })
    }

    /// Closes idle connections.
    pub(super) fn close_idle(&mut self, registry: &Registry) {
        for slot in 0..self.connections.len() {
            let entry = &mut self.connections[slot];
            if let Some(connection) = entry.take_if(|connection| connection.heard.elapsed() > EMULATED_IDLE_MAX) {
                self.free(slot, *connection, registry);
            }
        }
    }

    fn free(&mut self, slot: usize, mut connection: Connection, registry: &Registry) {
        // The socket closes on drop, which also removes it from epoll.
        let _gone = registry.deregister(connection.link.socket());
        self.free.push(slot);
    }
}

impl Connection {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        let server = socket.local_addr()?.ip();
        Ok(Self { link: Link::new(socket, None, true), framing: Framing::default(), server, heard: Instant::now() })
    }
}

fn listener(is_ipv6: bool) -> io::Result<std::net::TcpListener> {
    let any: IpAddr = if is_ipv6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    let address = SocketAddr::new(any, EMULATED_PORT);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    if is_ipv6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
