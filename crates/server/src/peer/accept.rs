//! Connections from peers: each is checked, then read frame by frame.

use super::frame::{Hello, Welcome, read_len};
use super::{PeerCounters, PeerEvents, lane_octet, node_number};
use crate::limits::{PEER_CONNECTIONS_MAX, PEER_FRAME_BYTES_MAX, PEER_HANDSHAKE_MS, PEER_INBOUND_BYTES_MAX};
use crate::tls::session;
use replica::io::NodeId;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

/// Octets read from TLS at once.
const READ_BYTES: usize = 64 << 10;

/// What the accepting side needs.
pub(crate) struct Acceptor<E> {
    pub(crate) acceptor: TlsAcceptor,
    /// This node.
    pub(crate) welcome: Welcome,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    /// Inbound budgets of the three lanes: a checkpoint on its way never holds up a heartbeat.
    budgets: [Arc<Semaphore>; 3],
}

impl<E: PeerEvents> Acceptor<E> {
    pub(crate) fn new(acceptor: TlsAcceptor, welcome: Welcome, events: Arc<E>, counters: Arc<PeerCounters>) -> Self {
        const { assert!(PEER_INBOUND_BYTES_MAX >= PEER_FRAME_BYTES_MAX) };
        let budgets = std::array::from_fn(|_| Arc::new(Semaphore::new(PEER_INBOUND_BYTES_MAX)));
        Self { acceptor, welcome, events, counters, budgets }
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

    async fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let limit = Duration::from_millis(PEER_HANDSHAKE_MS);
        let (stream, hello) = tokio::time::timeout(limit, self.greet(stream)).await.map_err(io::Error::from)??;
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

    async fn greet(&self, stream: TcpStream) -> io::Result<(tokio_rustls::server::TlsStream<TcpStream>, Hello)> {
        stream.set_nodelay(true)?;
        let mut stream = self.acceptor.accept(stream).await?;
        let hello = Hello::read(&mut stream).await?;
        let wrong = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        if hello.to != self.welcome.id {
            return wrong(format!("{} was dialled here", hello.to));
        }
        if !is_other_node(hello.from, self.welcome.id)
            || !session::is_node(stream.get_ref().1.peer_certificates(), node_number(hello.from))
        {
            return wrong(format!("the certificate is not that of {}", hello.from));
        }
        self.welcome.write(&mut stream).await?;
        Ok((stream, hello))
    }
}

const fn is_other_node(from: NodeId, own: NodeId) -> bool {
    from != 0 && node_number(from) != node_number(own)
}
