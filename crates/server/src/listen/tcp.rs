//! TCP (RFC 7766): a runtime for each core, a task for each connection. Requests are pipelined; responses go out as
//! they are ready, those that had to wait for the replica later than others that came after them (6.2.1.1 allows it).

use super::clients::{Clients, Place};
use super::framing::{Inbound, Outbound};
use super::{Action, LATE_MAX, Late, ListenCounters, PinnedResponder, Reply, Responder, Transport};
use crate::limits::{DATAGRAM_OCTETS_MAX, TCP_PIPELINE_MAX, TCP_WRITE_BACKLOG_BYTES_MAX};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::Instant;

/// What all connections of one runtime share.
pub(crate) struct TcpService<R> {
    desk: RefCell<Desk<R>>,
    clients: Arc<Clients>,
    counters: Arc<ListenCounters>,
    idle: Duration,
}

/// Where a response is made: one at a time, so one buffer is enough.
struct Desk<R> {
    responder: R,
    out: Vec<u8>,
}

impl<R: Responder + 'static> TcpService<R> {
    pub(crate) fn new(responder: R, clients: Arc<Clients>, counters: Arc<ListenCounters>, idle: Duration) -> Rc<Self> {
        let desk = RefCell::new(Desk { responder, out: vec![0; DATAGRAM_OCTETS_MAX] });
        Rc::new(Self { desk, clients, counters, idle })
    }

    /// Accepts on one listener, for ever. Runs in a `LocalSet`.
    pub(crate) async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    // RFC 7766 6.2.2: a server may limit them; who is over the limit is told at once.
                    let Some(place) = self.clients.enter(peer.ip()) else {
                        self.counters.tcp_over_limit.one_shared();
                        continue;
                    };
                    self.counters.tcp_accepted.one_shared();
                    tokio::task::spawn_local(self.clone().connection(stream, peer, place));
                }
                Err(error) => {
                    // Out of file handles, most likely: connections that end give some back.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    async fn connection(self: Rc<Self>, stream: TcpStream, peer: SocketAddr, _place: Place) {
        self.counters.tcp_open.enter(usize::MAX);
        let ended = Connection::new(&self, &stream, peer).run().await;
        self.counters.tcp_open.leave();
        match ended {
            End::Idle => self.counters.tcp_idle.one_shared(),
            End::SlowReader => self.counters.tcp_slow_reader.one_shared(),
            End::Panicked => self.counters.panics.one_shared(),
            End::Closed => {}
        }
    }

    /// Answers one message from the newest version.
    fn respond(
        &self,
        octets: &[u8],
        peer: SocketAddr,
        later: impl FnOnce() -> Sender<Late>,
        outbound: &mut Outbound,
    ) -> Result<Action, End> {
        let mut desk = self.desk.borrow_mut();
        let Desk { responder, out } = &mut *desk;
        // A panic is a bug of ours; it costs the connection that met it, never the runtime (invariant 6).
        let action = catch_unwind(AssertUnwindSafe(|| {
            let mut pinned = responder.pin();
            match pinned.respond(octets, peer, Transport::Tcp, out) {
                Action::Defer => pinned.defer(octets, Reply::Tcp { peer, connection: later() }, out),
                action => action,
            }
        }));
        responder.offline();
        let action = action.map_err(|_| End::Panicked)?;
        if let Action::Respond(len) = action {
            outbound.push(&out[..len]);
        }
        Ok(action)
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The client closed it, it broke, or nothing can be said on it any more.
    Closed,
    /// Nothing was asked for too long (RFC 7766 6.2.3).
    Idle,
    /// The client does not read.
    SlowReader,
    /// A bug of ours.
    Panicked,
}

struct Connection<'c, R> {
    service: &'c TcpService<R>,
    stream: &'c TcpStream,
    peer: SocketAddr,
    inbound: Inbound,
    outbound: Outbound,
    /// Made for the first deferred request.
    late: Option<(Sender<Late>, Receiver<Late>)>,
    deferred_count: usize,
    /// The client will send no more.
    is_half_closed: bool,
    /// When the last request was taken or the last response was done.
    active_at: Instant,
    /// When octets last went out, or began to wait.
    wrote_at: Instant,
}

impl<'c, R: Responder + 'static> Connection<'c, R> {
    fn new(service: &'c TcpService<R>, stream: &'c TcpStream, peer: SocketAddr) -> Self {
        let _ = stream.set_nodelay(true);
        let now = Instant::now();
        Self {
            service,
            stream,
            peer,
            inbound: Inbound::new(),
            outbound: Outbound::default(),
            late: None,
            deferred_count: 0,
            is_half_closed: false,
            active_at: now,
            wrote_at: now,
        }
    }

    async fn run(mut self) -> End {
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    /// Does what can be done, then waits for the next thing to happen.
    async fn step(&mut self) -> Result<(), End> {
        self.answer_whole_messages()?;
        self.write()?;
        let backlog = self.outbound.waiting().len();
        if self.is_half_closed && backlog == 0 && self.deferred_count == 0 {
            return Err(End::Closed);
        }
        let has_room = backlog < TCP_WRITE_BACKLOG_BYTES_MAX;
        let may_read = !self.is_half_closed && has_room && self.deferred_count < TCP_PIPELINE_MAX;
        let interest = match (may_read, backlog > 0) {
            (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
            (true, false) => Some(Interest::READABLE),
            (false, true) => Some(Interest::WRITABLE),
            (false, false) => None,
        };
        let (stream, deadline) = (self.stream, self.deadline());
        let ready = async {
            match interest {
                Some(interest) => stream.ready(interest).await,
                None => std::future::pending().await,
            }
        };
        let late = async {
            match &mut self.late {
                Some((_, receiver)) if has_room => receiver.recv().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            ready = ready => {
                let ready = ready.map_err(|_| End::Closed)?;
                if may_read && ready.is_readable() { self.read() } else { Ok(()) }
            }
            late = late => self.take_late(late),
            () = tokio::time::sleep_until(deadline) => Err(self.overdue()),
        }
    }

    fn deadline(&self) -> Instant {
        let since = if self.outbound.waiting().is_empty() { self.active_at } else { self.wrote_at };
        since + self.service.idle
    }

    fn overdue(&mut self) -> End {
        if !self.outbound.waiting().is_empty() {
            return End::SlowReader;
        }
        // A request that waits for the replica is no silence of the client's; its own time limit ends the wait.
        End::Idle
    }

    fn answer_whole_messages(&mut self) -> Result<(), End> {
        while self.deferred_count < TCP_PIPELINE_MAX && self.outbound.waiting().len() < TCP_WRITE_BACKLOG_BYTES_MAX {
            let Some(message) = self.inbound.next() else { break };
            let late = &mut self.late;
            let later = || late.get_or_insert_with(|| mpsc::channel(LATE_MAX)).0.clone();
            if self.outbound.waiting().is_empty() {
                self.wrote_at = Instant::now();
            }
            match self.service.respond(message, self.peer, later, &mut self.outbound)? {
                Action::Defer => self.deferred_count += 1,
                // RFC 7766 says nothing of messages that get no response; who sends such on a stream speaks no DNS.
                Action::Silent => return Err(End::Closed),
                Action::Respond(_) => {}
            }
            self.active_at = Instant::now();
        }
        Ok(())
    }

    fn read(&mut self) -> Result<(), End> {
        match self.stream.try_read_buf(self.inbound.spare()) {
            Ok(0) => {
                // The client may close its half and still wait for responses.
                self.is_half_closed = true;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(_) => Err(End::Closed),
        }
    }

    fn write(&mut self) -> Result<(), End> {
        while !self.outbound.waiting().is_empty() {
            match self.stream.try_write(self.outbound.waiting()) {
                Ok(count) => {
                    self.outbound.sent(count);
                    self.wrote_at = Instant::now();
                    self.active_at = self.wrote_at;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(End::Closed),
            }
        }
        Ok(())
    }

    fn take_late(&mut self, late: Option<Late>) -> Result<(), End> {
        let (message, is_last) = match late {
            Some(Late::Message(message)) => (message, true),
            Some(Late::Part(message, _share)) => (message, false),
            Some(Late::Close) | None => return Err(End::Closed),
        };
        if self.outbound.waiting().is_empty() {
            self.wrote_at = Instant::now();
        }
        self.outbound.push(&message);
        self.active_at = Instant::now();
        self.deferred_count -= usize::from(is_last);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
