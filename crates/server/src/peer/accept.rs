//! Connections from peers: each authenticates, is checked, and is then read frame by frame.
//!
//! A stranger only gets to the handshake. It uses one of a limited number of slots, for at most [`PEER_HANDSHAKE_MS`],
//! and none of a member. Handshakes with addresses that belong to no member have their own thread, with a low priority.
//! A member with such an address moves to the thread of its channel when it is admitted.

use super::admission::{Admission, Refusal};
use super::data_keys::DataKeyHandler;
use super::frame::{Greeting, Hello, KEY_REFUSED, REMOVED, Welcome, read_len};
use super::join::JoinHandler;
use super::member_connections::{MemberConnection, MemberConnections};
use super::pending::{Pending, PendingSlot};
use super::repair::RepairHandler;
use super::{ChannelRuntimes, PeerCounters, PeerEvents, announce, channel_byte, keepalive, member_check};
use crate::limits::{
    JOINS_MAX, MEMBER_CHECKS_MAX, PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_MS, PEER_HANDSHAKES_BURST,
    PEER_HANDSHAKES_PER_SECOND, PEER_INBOUND_BYTES_MAX,
};
use crate::listen::connection_table::client_of;
use crate::listen::handshake_rate::{Address, HandshakeRate};
use crate::tls::names::node_number;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use config::Tcp;
use process::warn_limited;
use replica::io::{Member, NodeId};
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

/// Accepts connections from peers.
pub(crate) struct Acceptor<E> {
    pub(crate) tls: Arc<CurrentTls>,
    /// This node.
    pub(crate) welcome: Welcome,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    admission: Admission,
    /// Lets nodes join, and gives members data keys.
    handlers: Option<(JoinHandler, DataKeyHandler)>,
    /// Sends parts of the log and the checkpoint to members.
    repairs: Option<RepairHandler>,
    runtimes: ChannelRuntimes,
    /// Inbound budgets of the three channels: a checkpoint never delays a heartbeat.
    budgets: [Arc<Semaphore>; 3],
    rate: HandshakeRate,
    pending: Pending,
    members: MemberConnections,
    /// Limits the number of joining nodes.
    joins: Semaphore,
    /// Limits the number of member checks.
    member_checks: Semaphore,
}

/// A connection after its handshake and greeting.
struct Greeted {
    stream: TlsStream<TcpStream>,
    greeting: Greeting,
    /// `None` without a certificate.
    identity: Option<PeerIdentity>,
}

impl<E: PeerEvents> Acceptor<E> {
    pub(crate) fn new(
        tls: Arc<CurrentTls>,
        welcome: Welcome,
        events: Arc<E>,
        counters: Arc<PeerCounters>,
        admission: Admission,
        handlers: Option<(JoinHandler, DataKeyHandler)>,
        runtimes: ChannelRuntimes,
    ) -> Self {
        const { assert!(PEER_INBOUND_BYTES_MAX >= PEER_FRAME_BYTES_MAX) };
        let (per_second, burst) = (PEER_HANDSHAKES_PER_SECOND, PEER_HANDSHAKES_BURST);
        let rate = Tcp { handshakes_per_second: per_second, handshakes_burst: burst, ..Tcp::default() };
        let repairs = handlers.as_ref().map(|(_, keys)| RepairHandler::new(&keys.data_dir));
        Self {
            tls,
            welcome,
            events,
            counters,
            admission,
            handlers,
            repairs,
            runtimes,
            budgets: std::array::from_fn(|_| Arc::new(Semaphore::new(PEER_INBOUND_BYTES_MAX))),
            rate: HandshakeRate::new(&rate, &[]),
            pending: Pending::default(),
            members: MemberConnections::default(),
            joins: Semaphore::new(JOINS_MAX),
            member_checks: Semaphore::new(MEMBER_CHECKS_MAX),
        }
    }

    /// Accepts connections forever.
    pub(crate) async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        loop {
            match listener.accept().await {
                Ok((stream, address)) => this.clone().begin(stream, address.ip().to_canonical()),
                Err(error) => {
                    // Most likely the limit of open files is reached. The pause leaves CPU time to close some.
                    warn_limited!(%error, "cannot accept a peer");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Starts a task for the connection, unless its address started too many.
    fn begin(self: Arc<Self>, stream: TcpStream, address: IpAddr) {
        let is_of_member = self.admission.is_of_member(address);
        if !is_of_member && !self.rate.take(address, Address::Validated) {
            self.counters.refused.one_shared();
            return;
        }
        // A member has its own share, independent of other hosts in its network.
        let client = if is_of_member { address } else { client_of(address) };
        let (pending, slot) = (self.pending.clone(), self.pending.enter(client));
        let ticket = slot.ticket();
        let runtime = if is_of_member { self.runtimes.quick.clone() } else { self.runtimes.strangers.clone() };
        let task = runtime.spawn(async move {
            if let Err(error) = self.serve(stream, slot).await {
                self.counters.refused.one_shared();
                tracing::debug!(%address, %error, "connection from a peer ended");
            }
        });
        pending.set_task(ticket, task.abort_handle());
    }

    async fn serve(self: &Arc<Self>, stream: TcpStream, slot: PendingSlot) -> io::Result<()> {
        let deadline = Instant::now() + Duration::from_millis(PEER_HANDSHAKE_MS);
        let Greeted { mut stream, greeting, identity } = timeout_at(deadline, self.greet(stream)).await??;
        let handlers = || self.handlers.as_ref().ok_or(io::ErrorKind::Unsupported);
        let hello = match greeting {
            Greeting::Channel(hello) => hello,
            Greeting::Join => {
                return handlers()?.0.serve(&mut stream, &self.admission, &self.joins, (deadline, slot)).await;
            }
            Greeting::Repair => {
                let identity = identity.ok_or_else(|| denied("no certificate".into()))?;
                let handler = self.repairs.as_ref().ok_or(io::ErrorKind::Unsupported)?;
                drop(slot);
                let (handler, admission) = (handler.clone(), self.admission.clone());
                let serve = async move { handler.serve(&mut stream, &admission, &identity).await };
                return self.runtimes.bulk.spawn(serve).await.map_err(io::Error::other)?;
            }
            Greeting::DataKey | Greeting::MemberCheck | Greeting::Announce | Greeting::Supersede => {
                let identity = identity.ok_or_else(|| denied("no certificate".into()))?;
                return timeout_at(deadline, self.answer(&mut stream, greeting, &identity)).await?;
            }
        };
        let identity = identity.ok_or_else(|| denied("no certificate".into()))?;
        timeout_at(deadline, self.admit(&mut stream, hello, &identity)).await??;
        drop(slot);
        let slot = self.members.enter(hello.from, hello.channel);
        let read = self.clone().read_member(stream, hello, identity, slot);
        self.runtimes.of(hello.channel).spawn(read).await.map_err(io::Error::other)?
    }

    /// Reads frames until the connection ends, the member connects again, or it is no longer a member.
    async fn read_member(
        self: Arc<Self>,
        stream: TlsStream<TcpStream>,
        hello: Hello,
        identity: PeerIdentity,
        slot: MemberConnection,
    ) -> io::Result<()> {
        tokio::select! {
            done = self.read_all(stream, hello) => done,
            () = slot.replaced() => Ok(()),
            // It dials again, and then gets the reason.
            refusal = self.admission.revoked(hello.from, &identity) => {
                Err(denied(format!("{}: {refusal}", hello.from)))
            }
        }
    }

    async fn read_all(&self, stream: TlsStream<TcpStream>, hello: Hello) -> io::Result<()> {
        let mut stream = BufReader::with_capacity(READ_BYTES, stream);
        let budget = &self.budgets[usize::from(channel_byte(hello.channel))];
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
        keepalive::configure(&stream)?;
        let mut stream = TlsAcceptor::from(self.tls.get().server).accept(stream).await?;
        let identity = PeerIdentity::of(stream.get_ref().1.peer_certificates());
        let greeting = Hello::read(&mut stream).await?;
        Ok(Greeted { stream, greeting, identity })
    }

    /// Accepts a member. A refused node gets the reason if its operator can do something about it.
    async fn admit(&self, stream: &mut TlsStream<TcpStream>, hello: Hello, identity: &PeerIdentity) -> io::Result<()> {
        if hello.to != self.welcome.id || !is_other_node(hello.from, self.welcome.id) {
            return Err(denied(format!("{} dialled {} here", hello.from, hello.to)));
        }
        let refusal = match self.admission.check(hello.from, identity) {
            Ok(()) => return self.welcome.write(stream).await,
            Err(Refusal::Unknown) if self.is_confirmed(hello.from, identity).await => {
                return self.welcome.write(stream).await;
            }
            Err(refusal) => refusal,
        };
        let code = match refusal {
            Refusal::Removed => Some(REMOVED),
            Refusal::OtherKey => Some(KEY_REFUSED),
            Refusal::OtherName | Refusal::Unknown => None,
        };
        if let Some(id) = code {
            Welcome { id, ..self.welcome }.write(stream).await?;
            // Without the shutdown, the dialler may see a reset instead of the reason.
            stream.shutdown().await?;
        }
        Err(denied(format!("{}: {refusal}", hello.from)))
    }

    /// Answers a request of a member. The connection keeps its pending slot meanwhile.
    async fn answer(
        &self,
        stream: &mut TlsStream<TcpStream>,
        greeting: Greeting,
        identity: &PeerIdentity,
    ) -> io::Result<()> {
        match (greeting, &self.handlers) {
            (Greeting::DataKey, Some((_, handler))) => handler.serve(stream, &self.admission, identity).await,
            (Greeting::MemberCheck, _) => member_check::serve(stream, &self.admission, self.welcome.id, identity).await,
            (Greeting::Supersede, Some((handler, _))) => handler.node.serve(stream, &self.admission, identity).await,
            (Greeting::Announce, _) => {
                let handle = self.handlers.as_ref().map(|(handler, _)| &handler.handle);
                announce::serve(stream, &self.tls, &self.admission, handle, identity, &self.member_checks).await
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether a known member confirms that this node is a member.
    async fn is_confirmed(&self, id: NodeId, identity: &PeerIdentity) -> bool {
        let Ok(_permit) = self.member_checks.acquire().await else { return false };
        let address = member_check::ask_all(&self.tls, self.welcome.id, &self.admission, id, identity).await;
        let is_member = address.is_some();
        if let Some(address) = address {
            self.admission.note_confirmed(id, identity);
            self.events.confirmed(Member { id, address });
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
