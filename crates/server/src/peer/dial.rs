//! One lane to one peer: dials, greets, sends what the replica gives, dials again.

use super::frame::{Hello, REMOVED, Welcome, append};
use super::{PeerCounters, PeerEvents, node_number, silence};
use crate::limits::{PEER_CONNECT_MS, PEER_HANDSHAKE_MS, PEER_RETRY_MS_MAX, PEER_RETRY_MS_MIN};
use crate::metrics::Gauge;
use crate::tls::session::{self, CurrentTls};
use replica::io::Lane;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::Receiver;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Octets that are gathered before they are given to TLS.
const GATHER_BYTES: usize = 256 << 10;

/// What a dialler needs.
pub(crate) struct Dialler<E> {
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) address: String,
    pub(crate) hello: Hello,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    /// Octets that wait in the lane.
    pub(crate) waiting: Arc<Gauge>,
}

/// What the other side was last seen to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Connected,
    Gone { refused: bool },
}

impl<E: PeerEvents> Dialler<E> {
    /// Runs until the replica drops the sending half of the lane.
    pub(crate) async fn run(self, mut frames: Receiver<Vec<u8>>) {
        let mut seen = Seen::Nothing;
        let mut pause_ms = PEER_RETRY_MS_MIN;
        loop {
            let limit = Duration::from_millis(PEER_HANDSHAKE_MS);
            match tokio::time::timeout(limit, self.connect())
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            {
                Ok((stream, welcome)) => {
                    seen = Seen::Connected;
                    pause_ms = PEER_RETRY_MS_MIN;
                    if self.is_evidence() {
                        self.events.connected(self.hello.to, welcome.boot_id);
                    }
                    // What waited for a dead connection is old; raft has sent it again or will.
                    self.discard(&mut frames);
                    if self.send_all(stream, &mut frames).await.is_ok() {
                        return;
                    }
                    // Dial again at once: whether that is refused tells whether the process is gone.
                    continue;
                }
                Err(error) => {
                    let refused = error.kind() == io::ErrorKind::ConnectionRefused;
                    if seen != (Seen::Gone { refused }) && self.is_evidence() {
                        self.events.gone(self.hello.to, refused);
                    }
                    seen = Seen::Gone { refused };
                    tracing::debug!(to = self.hello.to, lane = ?self.hello.lane, %error, "peer cannot be reached");
                }
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(PEER_RETRY_MS_MAX);
            self.discard(&mut frames);
            if frames.is_closed() {
                return;
            }
        }
    }

    /// Only heartbeat connections say whether a peer lives.
    const fn is_evidence(&self) -> bool {
        matches!(self.hello.lane, Lane::Heartbeat)
    }

    async fn connect(&self) -> io::Result<(TlsStream<TcpStream>, Welcome)> {
        // What the network loses meanwhile is sent again after a second and after three (RFC 6298 2): dialled anew, it
        // is there sooner once the network is.
        let limit = Duration::from_millis(PEER_CONNECT_MS);
        let stream = tokio::time::timeout(limit, TcpStream::connect(&self.address)).await??;
        silence::prepare(&stream)?;
        let connector = TlsConnector::from(self.tls.get().client);
        let mut stream = connector.connect(session::server_name(node_number(self.hello.to)), stream).await?;
        self.hello.write(&mut stream).await?;
        let welcome = Welcome::read(&mut stream).await?;
        if welcome.id == REMOVED {
            self.events.told_removed(self.hello.to);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this node was removed from the cluster"));
        }
        if welcome.id != self.hello.to {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "another incarnation of the peer answers there"));
        }
        self.counters.dialled.one_shared();
        Ok((stream, welcome))
    }

    /// Sends until the connection ends (an error) or the lane is closed.
    async fn send_all(&self, stream: TlsStream<TcpStream>, frames: &mut Receiver<Vec<u8>>) -> io::Result<()> {
        let (mut read, mut write) = tokio::io::split(stream);
        let mut octets = Vec::new();
        let mut nothing = [0; 1];
        loop {
            let frame = tokio::select! {
                frame = frames.recv() => frame,
                // An acceptor sends nothing after its greeting: octets here are as bad as the end.
                _ = read.read(&mut nothing) => return Err(io::ErrorKind::ConnectionReset.into()),
            };
            let Some(frame) = frame else { return Ok(()) };
            octets.clear();
            self.take(&frame, &mut octets);
            while octets.len() < GATHER_BYTES {
                let Ok(frame) = frames.try_recv() else { break };
                self.take(&frame, &mut octets);
            }
            write.write_all(&octets).await?;
            write.flush().await?;
        }
    }

    fn take(&self, frame: &[u8], octets: &mut Vec<u8>) {
        append(frame, octets);
        self.waiting.take(frame.len());
        self.counters.sent.one_shared();
    }

    fn discard(&self, frames: &mut Receiver<Vec<u8>>) {
        while let Ok(frame) = frames.try_recv() {
            self.waiting.take(frame.len());
            self.counters.dropped.one_shared();
        }
    }
}
