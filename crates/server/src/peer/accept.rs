//! Connections from peers: each shows first whom it is from, is checked, and is then read frame by frame.
//!
//! A stranger gets as far as the handshake. It holds one of few places for at most [`PEER_HANDSHAKE_MS`], and takes
//! none of a member's.

use super::admission::{Admission, Refusal};
use super::data_keys::KeyDesk;
use super::frame::{Greeting, Hello, KEY_REFUSED, REMOVED, Welcome, read_len};
use super::join::JoinDesk;
use super::member_connections::{MemberConnections, MemberPlace};
use super::pending::{Pending, PendingPlace};
use super::repair::RepairDesk;
use super::{LaneRuntimes, PeerCounters, PeerEvents, announce, lane_byte, node_number, silence, vouch};
use crate::config::Tcp;
use crate::limits::{
    JOINS_MAX, PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_MS, PEER_HANDSHAKES_BURST, PEER_HANDSHAKES_PER_SECOND,
    PEER_INBOUND_BYTES_MAX, PEER_QUESTIONS_MAX,
};
use crate::listen::connection_table::client_of;
use crate::listen::handshake_rate::{Address, HandshakeRate};
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use crate::warn_limited;
use replica::io::{Lane, Member, NodeId};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Bytes read from TLS at once.
const READ_BYTES: usize = 64 << 10;

/// What the accepting side needs.
pub(crate) struct Acceptor<E> {
    pub(crate) tls: Arc<CurrentTls>,
    /// This node.
    pub(crate) welcome: Welcome,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    admission: Admission,
    /// Lets nodes join, and gives members data keys.
    desks: Option<(JoinDesk, KeyDesk)>,
    /// Sends parts of the log and the checkpoint to members.
    repairs: Option<RepairDesk>,
    runtimes: LaneRuntimes,
    /// Inbound budgets of the three lanes: a checkpoint on its way never holds up a heartbeat.
    budgets: [Arc<Semaphore>; 3],
    rate: HandshakeRate,
    pending: Pending,
    members: MemberConnections,
    /// Nodes that join.
    joins: Semaphore,
    /// Questions of this node whether an id is a member's.
    questions: Semaphore,
}

/// A connection behind its handshake and greeting.
struct Greeted {
    stream: TlsStream<TcpStream>,
    greeting: Greeting,
    /// `None` where it showed no certificate.
    identity: Option<PeerIdentity>,
}

impl<E: PeerEvents> Acceptor<E> {
    pub(crate) fn new(
        tls: Arc<CurrentTls>,
        welcome: Welcome,
        events: Arc<E>,
        counters: Arc<PeerCounters>,
        admission: Admission,
        desks: Option<(JoinDesk, KeyDesk)>,
        runtimes: LaneRuntimes,
    ) -> Self {
        const { assert!(PEER_INBOUND_BYTES_MAX >= PEER_FRAME_BYTES_MAX) };
        let (per_second, burst) = (PEER_HANDSHAKES_PER_SECOND, PEER_HANDSHAKES_BURST);
        let rate = Tcp { handshakes_per_second: per_second, handshakes_burst: burst, ..Tcp::default() };
        let repairs = desks.as_ref().map(|(_, keys)| RepairDesk::new(&keys.data_dir));
        Self {
            tls,
            welcome,
            events,
            counters,
            admission,
            desks,
            repairs,
            runtimes,
            budgets: std::array::from_fn(|_| Arc::new(Semaphore::new(PEER_INBOUND_BYTES_MAX))),
            rate: HandshakeRate::new(&rate, &[]),
            pending: Pending::default(),
            members: MemberConnections::default(),
            joins: Semaphore::new(JOINS_MAX),
            questions: Semaphore::new(PEER_QUESTIONS_MAX),
        }
    }

    /// Accepts for ever.
    pub(crate) async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        loop {
            match listener.accept().await {
                Ok((stream, address)) => this.clone().begin(stream, address.ip().to_canonical()),
                Err(error) => {
                    // Out of file handles, most likely; a pause keeps the processor free to close some.
                    warn_limited!(%error, "cannot accept a peer");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Gives the connection a task of its own, if its address has not begun too many.
    fn begin(self: Arc<Self>, stream: TcpStream, address: IpAddr) {
        let is_of_member = self.admission.is_of_member(address);
        if !is_of_member && !self.rate.take(address, Address::Validated) {
            self.counters.refused.one_shared();
            return;
        }
        // A member has a share of its own, whatever else is in its network.
        let client = if is_of_member { address } else { client_of(address) };
        let (pending, place) = (self.pending.clone(), self.pending.enter(client));
        let ticket = place.ticket();
        let task = tokio::spawn(async move {
            if let Err(error) = self.serve(stream, place).await {
                self.counters.refused.one_shared();
                tracing::debug!(%address, %error, "connection from a peer ended");
            }
        });
        pending.set_task(ticket, task.abort_handle());
    }

    async fn serve(self: &Arc<Self>, stream: TcpStream, place: PendingPlace) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_millis(PEER_HANDSHAKE_MS);
        let Greeted { mut stream, greeting, identity } = timeout_at(deadline, self.greet(stream)).await??;
        let desks = || self.desks.as_ref().ok_or(io::ErrorKind::Unsupported);
        let hello = match greeting {
            Greeting::Lane(hello) => hello,
            Greeting::Join => {
                return desks()?.0.serve(&mut stream, &self.admission, &self.joins, (deadline, place)).await;
            }
            Greeting::Repair => {
                let identity = identity.ok_or_else(|| denied("no certificate".into()))?;
                let desk = self.repairs.as_ref().ok_or(io::ErrorKind::Unsupported)?;
                drop(place);
                let (desk, admission) = (desk.clone(), self.admission.clone());
                let serve = async move { desk.serve(&mut stream, &admission, &identity).await };
                return self.runtimes.bulk.spawn(serve).await.map_err(io::Error::other)?;
            }
            Greeting::DataKey | Greeting::Vouch | Greeting::Announce | Greeting::Supersede => {
                let identity = identity.ok_or_else(|| denied("no certificate".into()))?;
                return timeout_at(deadline, self.answer(&mut stream, greeting, &identity)).await?;
            }
        };
        let identity = identity.ok_or_else(|| denied("no certificate".into()))?;
        timeout_at(deadline, self.admit(&mut stream, hello, &identity)).await??;
        drop(place);
        let place = self.members.enter(hello.from, hello.lane);
        let read = self.clone().read_member(stream, hello, identity, place);
        match hello.lane {
            Lane::Heartbeat | Lane::Normal => read.await,
            Lane::Bulk => self.runtimes.bulk.spawn(read).await.map_err(io::Error::other)?,
        }
    }

    /// Reads frames until the connection ends, the member connects again, or it is no member any more.
    async fn read_member(
        self: Arc<Self>,
        stream: TlsStream<TcpStream>,
        hello: Hello,
        identity: PeerIdentity,
        place: MemberPlace,
    ) -> io::Result<()> {
        tokio::select! {
            done = self.read_all(stream, hello) => done,
            () = place.replaced() => Ok(()),
            // It dials again and is told then.
            refusal = self.admission.revoked(hello.from, &identity) => {
                Err(denied(format!("{}: {refusal}", hello.from)))
            }
        }
    }

    async fn read_all(&self, stream: TlsStream<TcpStream>, hello: Hello) -> io::Result<()> {
        let mut stream = BufReader::with_capacity(READ_BYTES, stream);
        let budget = &self.budgets[usize::from(lane_byte(hello.lane))];
        while let Some(len) = read_len(&mut stream).await? {
            let permit = budget.clone().acquire_many_owned(len as u32).await.map_err(io::Error::other)?;
            let mut frame = vec![0; len];
            stream.read_exact(&mut frame).await?;
            self.counters.received.one_shared();
            self.events.frame(hello.from, frame, permit);
        }
        Ok(())
    }

    /// TLS and the greeting.
    async fn greet(&self, stream: TcpStream) -> io::Result<Greeted> {
        silence::prepare(&stream)?;
        let mut stream = TlsAcceptor::from(self.tls.get().server).accept(stream).await?;
        let identity = PeerIdentity::of(stream.get_ref().1.peer_certificates());
        let greeting = Hello::read(&mut stream).await?;
        Ok(Greeted { stream, greeting, identity })
    }

    /// Welcomes a member; tells another why not, where its operator can do something about it.
    async fn admit(&self, stream: &mut TlsStream<TcpStream>, hello: Hello, identity: &PeerIdentity) -> io::Result<()> {
        if hello.to != self.welcome.id || !is_other_node(hello.from, self.welcome.id) {
            return Err(denied(format!("{} dialled {} here", hello.from, hello.to)));
        }
        let refusal = match self.admission.check(hello.from, identity) {
            Ok(()) => return self.welcome.write(stream).await,
            Err(Refusal::Unknown) if self.is_vouched(hello.from, identity).await => {
                return self.welcome.write(stream).await;
            }
            Err(refusal) => refusal,
        };
        let told = match refusal {
            Refusal::Removed => Some(REMOVED),
            Refusal::OtherKey => Some(KEY_REFUSED),
            Refusal::OtherName | Refusal::Unknown => None,
        };
        if let Some(id) = told {
            Welcome { id, ..self.welcome }.write(stream).await?;
            // Flushed as a whole before the end: without it the dialler may see a reset and not the words.
            stream.shutdown().await?;
        }
        Err(denied(format!("{}: {refusal}", hello.from)))
    }

    /// Answers what a member asks beside its lanes. It keeps its place among the strangers meanwhile.
    async fn answer(
        &self,
        stream: &mut TlsStream<TcpStream>,
        greeting: Greeting,
        identity: &PeerIdentity,
    ) -> io::Result<()> {
        match (greeting, &self.desks) {
            (Greeting::DataKey, Some((_, desk))) => desk.serve(stream, &self.admission, identity).await,
            (Greeting::Vouch, _) => vouch::serve(stream, &self.admission, self.welcome.id, identity).await,
            (Greeting::Supersede, Some((desk, _))) => desk.node.serve(stream, &self.admission, identity).await,
            (Greeting::Announce, _) => {
                let handle = self.desks.as_ref().map(|(desk, _)| &desk.handle);
                announce::serve(stream, &self.tls, &self.admission, handle, identity, &self.questions).await
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether a member that is known here says that this is one too.
    async fn is_vouched(&self, id: NodeId, identity: &PeerIdentity) -> bool {
        let Ok(_place) = self.questions.acquire().await else { return false };
        let address = vouch::ask_all(&self.tls, self.welcome.id, &self.admission, id, identity).await;
        let is_member = address.is_some();
        if let Some(address) = address {
            self.admission.note_vouched(id, identity);
            self.events.vouched(Member { id, address });
        }
        is_member
    }
}

fn denied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

const fn is_other_node(from: NodeId, own: NodeId) -> bool {
    from != 0 && node_number(from) != node_number(own)
}
