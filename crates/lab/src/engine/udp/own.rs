//! Datagrams of sources that have a socket each, as long as the run lasts.

use super::batch::{self, Incoming};
use super::channel::{SEND_TRIES_MAX, is_passing};
use crate::engine::book::Book;
use crate::engine::clock::{Clock, StampClock};
use crate::engine::endpoint::Endpoint;
use crate::engine::matching::{Arrival, Window};
use crate::engine::system::{self, enable_stamps};
use crate::engine::{Lane, Plan, Transport};
use crate::limits::{
    BATCH_COUNT, EVENTS_MAX, QUERY_BYTES_MAX, RESPONSE_BYTES_CHECKED, RESPONSE_BYTES_KEPT, SOURCE_BUFFER_BYTES,
};
use crate::measure::Sent;
use crate::per_query::Parties;
use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// See the module.
pub(in crate::engine) struct Own {
    poll: Poll,
    events: Events,
    /// Clients to whom something has come; taken from the end.
    ready: Vec<usize>,
    /// By client; those that ask over other transports have none.
    members: Vec<Option<Member>>,
    /// Queries in the order of sending, for their time-outs.
    sent: VecDeque<Waiting>,
    waiting: usize,
    scratch: Vec<u8>,
    incoming: Incoming,
    stamps: StampClock,
}

/// A client and its socket.
struct Member {
    socket: UdpSocket,
    server: SocketAddr,
    window: Window,
}

/// A query that may time out.
struct Waiting {
    sent_ns: u64,
    client: u32,
    number: u64,
}

impl Own {
    /// Opens a socket for each of the clients.
    pub(in crate::engine) fn open(plan: &Plan, clients: &[Endpoint], stamps: StampClock) -> io::Result<Self> {
        let poll = Poll::new()?;
        let member = |(index, client): (usize, &Endpoint)| -> io::Result<Option<Member>> {
            if client.transport != Transport::Udp {
                return Ok(None);
            }
            let mut socket = UdpSocket::from_std(open(*client)?);
            poll.registry().register(&mut socket, Token(index), Interest::READABLE)?;
            Ok(Some(Member { socket, server: client.server, window: Window::default() }))
        };
        let members = clients.iter().enumerate().map(member).collect::<io::Result<_>>()?;
        let bytes_kept = if plan.checking.is_some() { RESPONSE_BYTES_CHECKED } else { RESPONSE_BYTES_KEPT };
        Ok(Self {
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            ready: Vec::new(),
            members,
            sent: VecDeque::new(),
            waiting: 0,
            scratch: system::memory(QUERY_BYTES_MAX),
            incoming: Incoming::keeping(bytes_kept),
            stamps,
        })
    }

    /// Sends a message that `fill` writes; `false` when there is no room for it.
    pub(in crate::engine) fn send(
        &mut self,
        book: &mut Book,
        mut sent: Sent,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> io::Result<bool> {
        let Some(member) = self.members.get_mut(sent.client as usize).and_then(Option::as_mut) else {
            return Ok(false);
        };
        if !member.window.has_room() {
            return Ok(false);
        }
        let length = fill(&mut self.scratch);
        let message = &mut self.scratch[..length];
        let parties = Parties { transport: Transport::Udp, server: member.server, client: Some(sent.client) };
        sent.row = book.begin(sent, parties, message);
        let number = member.window.enter(message, sent);
        if hand_over(&member.socket, message, &mut book.tail.refusals)? {
            book.queries(Transport::Udp, sent.sent_ns).sent(sent.sent_ns - sent.planned_ns, length);
            self.sent.push_back(Waiting { sent_ns: sent.sent_ns, client: sent.client, number });
            self.waiting += 1;
        } else {
            member.window.lose(number);
            book.unsent(sent);
            book.queries(Transport::Udp, sent.sent_ns).send_errors += 1;
        }
        Ok(true)
    }

    /// Takes in up to a batch; gives how many there were.
    fn receive_from(&mut self, client: usize, book: &mut Book) -> io::Result<usize> {
        let Some(member) = self.members.get_mut(client).and_then(Option::as_mut) else { return Ok(0) };
        let count = match self.incoming.receive(&member.socket) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                book.tail.refusals += 1;
                // There may be answers behind it.
                return Ok(BATCH_COUNT);
            }
            other => other?,
        };
        let now = book.clock.now_ns();
        for index in 0..count {
            let at = self.stamps.came(self.incoming.stamp(index), now, &mut book.tail.unstamped);
            let message = self.incoming.message(index);
            let waiting = member.window.waiting();
            let (mut arrival, written_ns) = member.window.arrive(message);
            self.waiting -= waiting - member.window.waiting();
            if let Arrival::Answer { is_first, .. } = &mut arrival {
                // Datagrams have no connection that one of them could be the first of.
                *is_first = false;
            }
            book.arrived(Transport::Udp, at, message, arrival, written_ns);
        }
        Ok(count)
    }

    fn look(&mut self) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(Duration::ZERO)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        self.ready.extend(self.events.iter().map(|event| event.token().0));
        Ok(())
    }

    /// Reads all that has come.
    fn drain(&mut self, book: &mut Book) -> io::Result<()> {
        loop {
            self.look()?;
            if self.ready.is_empty() {
                return Ok(());
            }
            while let Some(client) = self.ready.pop() {
                while self.receive_from(client, book)? == BATCH_COUNT {}
            }
        }
    }
}

impl Lane for Own {
    fn waiting(&self) -> usize {
        self.waiting
    }

    fn flush(&mut self, _: &mut Book, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, book: &mut Book, until: u64) -> io::Result<bool> {
        if self.ready.is_empty() {
            self.look()?;
        }
        let has_worked = !self.ready.is_empty();
        while let Some(client) = self.ready.pop() {
            while self.receive_from(client, book)? == BATCH_COUNT {}
            if book.clock.now_ns() >= until {
                break;
            }
        }
        Ok(has_worked)
    }

    fn tick(&mut self, book: &mut Book, now: u64) -> io::Result<()> {
        let before = now.saturating_sub(book.timeout_ns());
        if self.sent.front().is_none_or(|front| front.sent_ns >= before) {
            return Ok(());
        }
        // Answers that have come are not given up.
        if self.waiting > 0 {
            self.drain(book)?;
        }
        while let Some(Waiting { client, number, .. }) = self.sent.pop_front_if(|front| front.sent_ns < before) {
            let member = self.members[client as usize].as_mut();
            if let Some(query) = member.and_then(|member| member.window.time_out(number)) {
                self.waiting -= 1;
                book.timed_out(Transport::Udp, query.sent);
            }
        }
        Ok(())
    }

    fn watch(&self, watched: &mut Vec<libc::pollfd>) {
        watched.push(libc::pollfd { fd: self.poll.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    fn restart(&mut self, clock: Clock) {
        self.stamps = StampClock::new(clock);
    }

    fn finish(&mut self, book: &mut Book, is_broken_off: bool) -> io::Result<()> {
        self.drain(book)?;
        for member in self.members.iter_mut().flatten() {
            member.window.drain().for_each(|query| book.left(Transport::Udp, query.sent, is_broken_off));
            book.tail.dropped += u64::from(batch::dropped(&member.socket));
            book.hold_port(Transport::Udp, member.server);
        }
        self.waiting = 0;
        Ok(())
    }
}

/// A socket that is connected to the server of a client.
fn open(client: Endpoint) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(client.server), Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
    // As much as the system grants: too little shows as drops, which are counted.
    let _granted = socket.set_recv_buffer_size(SOURCE_BUFFER_BYTES);
    if let Some(source) = client.source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect(&client.server.into())?;
    // Without stamps the time of reading counts, and the report says so.
    let _stamped = enable_stamps(&socket);
    Ok(socket.into())
}

/// Hands the kernel a message; `false` when it did not take it.
fn hand_over(socket: &UdpSocket, message: &[u8], refusals: &mut u64) -> io::Result<bool> {
    for _ in 0..SEND_TRIES_MAX {
        match socket.send(message) {
            Ok(_) => return Ok(true),
            // What an earlier datagram met is told to the next call; that one has not been tried then.
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => *refusals += 1,
            Err(error) if is_passing(&error) => std::thread::yield_now(),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}
