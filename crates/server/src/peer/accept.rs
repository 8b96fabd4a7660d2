//! Connections from peers: each is checked, then read frame by frame.

use super::data_keys::KeyDesk;
use super::frame::{Greeting, Hello, REMOVED, Welcome, read_len};
use super::join::JoinDesk;
use super::{LaneRuntimes, PeerCounters, PeerEvents, lane_octet, node_number, silence};
use crate::limits::{
    ADMIN_WAIT_MS, PEER_CONNECTIONS_MAX, PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_MS, PEER_INBOUND_BYTES_MAX,
};
use crate::tls::session::{self, CurrentTls};
use replica::io::{Lane, NodeId};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Octets read from TLS at once.
const READ_BYTES: usize = 64 << 10;

/// What the accepting side needs.
pub(crate) struct Acceptor<E> {
    pub(crate) tls: Arc<CurrentTls>,
    /// This node.
    pub(crate) welcome: Welcome,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    /// Lets nodes join, and gives members data keys.
    desks: Option<(JoinDesk, KeyDesk)>,
    runtimes: LaneRuntimes,
    /// Inbound budgets of the three lanes: a checkpoint on its way never holds up a heartbeat.
    budgets: [Arc<Semaphore>; 3],
}

impl<E: PeerEvents> Acceptor<E> {
    pub(crate) fn new(
        tls: Arc<CurrentTls>,
        welcome: Welcome,
        events: Arc<E>,
        counters: Arc<PeerCounters>,
        desks: Option<(JoinDesk, KeyDesk)>,
        runtimes: LaneRuntimes,
    ) -> Self {
        const { assert!(PEER_INBOUND_BYTES_MAX >= PEER_FRAME_BYTES_MAX) };
        let budgets = std::array::from_fn(|_| Arc::new(Semaphore::new(PEER_INBOUND_BYTES_MAX)));
        Self { tls, welcome, events, counters, desks, runtimes, budgets }
    }

    /// Accepts for ever.
    pub(crate) async fn run(self, listener: TcpListener) {
        let this = Arc::new(self);
        let places = Arc::new(Semaphore::new(PEER_CONNECTIONS_MAX));
        loop {
            let place = places.clone().acquire_owned().await.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok((stream, address)) => {
                    let this = this.clone();
                    tokio::spawn(async move {
                        if let Err(error) = this.serve(stream).await {
                            this.counters.refused.one_shared();
                            tracing::debug!(%address, %error, "connection from a peer ended");
                        }
                        drop(place);
                    });
                }
                Err(error) => {
                    // Out of file handles, most likely; a pause keeps the processor free to close some.
                    tracing::warn!(%error, "cannot accept a peer");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve(self: &Arc<Self>, stream: TcpStream) -> io::Result<()> {
        let limit = Duration::from_millis(PEER_HANDSHAKE_MS);
        let (mut stream, greeting) =
            tokio::time::timeout(limit, self.greet(stream)).await.map_err(io::Error::from)??;
        let desks = || self.desks.as_ref().ok_or(io::ErrorKind::Unsupported);
        let hello = match greeting {
            Greeting::Lane(hello) => hello,
            Greeting::Join => {
                // A change of membership takes as long as an administrator's command may.
                let limit = Duration::from_millis(ADMIN_WAIT_MS + PEER_HANDSHAKE_MS);
                return tokio::time::timeout(limit, desks()?.0.serve(&mut stream)).await.map_err(io::Error::from)?;
            }
            Greeting::DataKey => {
                return tokio::time::timeout(limit, desks()?.1.serve(&mut stream)).await.map_err(io::Error::from)?;
            }
        };
        let this = self.clone();
        let read = async move {
            let mut membership = this.events.membership();
            tokio::select! {
                done = this.read_all(stream, hello) => done,
                // It dials again and is told then.
                _ = membership.wait_for(|membership| membership.is_out(hello.from)) => {
                    Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("{} was removed", hello.from)))
                }
            }
        };
        match hello.lane {
            Lane::Heartbeat | Lane::Normal => read.await,
            Lane::Bulk => self.runtimes.bulk.spawn(read).await.map_err(io::Error::other)?,
        }
    }

    /// Reads frames until the connection ends.
    async fn read_all(&self, stream: TlsStream<TcpStream>, hello: Hello) -> io::Result<()> {
        let mut stream = BufReader::with_capacity(READ_BYTES, stream);
        let budget = &self.budgets[usize::from(lane_octet(hello.lane))];
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
    async fn greet(&self, stream: TcpStream) -> io::Result<(TlsStream<TcpStream>, Greeting)> {
        silence::prepare(&stream)?;
        let mut stream = TlsAcceptor::from(self.tls.get().server).accept(stream).await?;
        let hello = match Hello::read(&mut stream).await? {
            Greeting::Lane(hello) => hello,
            other => return Ok((stream, other)),
        };
        let wrong = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if hello.to != self.welcome.id {
            return wrong(format!("{} was dialled here", hello.to));
        }
        if !is_other_node(hello.from, self.welcome.id)
            || !session::is_node(stream.get_ref().1.peer_certificates(), node_number(hello.from))
        {
            return wrong(format!("the certificate is not that of {}", hello.from));
        }
        if self.events.membership().borrow().is_out(hello.from) {
            Welcome { id: REMOVED, ..self.welcome }.write(&mut stream).await?;
            // Flushed as a whole before the end: without it the dialler may see a reset and not the words.
            stream.shutdown().await?;
            return wrong(format!("{} was removed", hello.from));
        }
        self.welcome.write(&mut stream).await?;
        Ok((stream, Greeting::Lane(hello)))
    }
}

const fn is_other_node(from: NodeId, own: NodeId) -> bool {
    from != 0 && node_number(from) != node_number(own)
}
