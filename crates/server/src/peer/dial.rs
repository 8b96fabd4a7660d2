//! One channel to one peer: dials, sends frames, and dials again when the connection ends.

use super::admission::Admission;
use super::frame::{Hello, KEY_REFUSED, REMOVED, Welcome};
use super::send_buffer::SendBuffer;
use super::{PeerCounters, PeerEvents, announce, keepalive, resolve};
use crate::limits::{PEER_HANDSHAKE_MS, PEER_RETRY_MS_MAX, PEER_RETRY_MS_MIN};
use crate::tls::names::node_number;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::{self, CurrentTls};
use replica::io::Channel;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Consecutive connections that a peer closes at the greeting before it is logged. Fewer happen when a peer stops.
const PEER_HANG_UPS: u64 = 30;

/// Maintains one channel to a peer.
pub(crate) struct Dialler<E> {
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) admission: Admission,
    /// The peer's address in the cluster's state.
    pub(crate) address: String,
    pub(crate) hello: Hello,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    /// The frames to send.
    pub(crate) send_buffer: Arc<SendBuffer>,
}

/// An established connection.
struct Connected {
    stream: TlsStream<TcpStream>,
    welcome: Welcome,
    /// The identity of the peer.
    identity: PeerIdentity,
}

/// The last known state of the peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Connected,
    Gone { refused: bool },
}

impl<E: PeerEvents> Dialler<E> {
    /// Runs until the replica closes the channel.
    pub(crate) async fn run(self) {
        let mut seen = Seen::Nothing;
        let mut pause_ms = PEER_RETRY_MS_MIN;
        let (mut logged, mut hang_ups) = (String::new(), 0u64);
        // The index of the next address, and the address of the last successful connection.
        let (mut attempt, mut connected_at) = (0, None::<String>);
        loop {
            let candidates = self.admission.hints().candidates(self.hello.to, &self.address);
            // The last good address is tried first: a refusal there shows that the peer's process is gone.
            let last = connected_at.as_ref().filter(|last| attempt == 0 && candidates.contains(last));
            let address = last.unwrap_or(&candidates[attempt % candidates.len()]).clone();
            attempt += 1;
            let limit = Duration::from_millis(PEER_HANDSHAKE_MS);
            match tokio::time::timeout(limit, self.connect(&address))
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            {
                Ok(Connected { stream, welcome, identity }) => {
                    seen = Seen::Connected;
                    pause_ms = PEER_RETRY_MS_MIN;
                    (attempt, connected_at) = (0, Some(address.clone()));
                    if self.is_evidence() || replica::planted!(EveryChannelIsEvidence) {
                        self.counters.reachability.connected(self.hello.to, &address);
                        let (own, to) = (self.hello.from, self.hello.to);
                        let (tls, admission) = (self.tls.clone(), self.admission.clone());
                        tokio::spawn(announce::announce_after_connect(own, address.clone(), to, tls, admission));
                        self.events.connected(self.hello.to, welcome.boot_id);
                    }
                    if self.send_all(stream, &identity).await.is_ok() {
                        return;
                    }
                    // Dial again at once: a refusal shows that the process is gone.
                    continue;
                }
                Err(error) => {
                    // At an address that may be wrong, a refusal proves nothing about the peer.
                    let is_its_own = candidates.len() == 1 || connected_at.as_ref() == Some(&address);
                    let is_refusal = error.kind() == io::ErrorKind::ConnectionRefused;
                    let refused = is_refusal && is_its_own && !replica::planted!(RefusalIgnored);
                    if self.is_evidence() && !self.send_buffer.is_closed() {
                        self.counters.reachability.failed(self.hello.to, &address, &error.to_string());
                    }
                    let is_news = seen != (Seen::Gone { refused }) || replica::planted!(RefusalIgnored);
                    if is_news && self.is_evidence() {
                        self.events.gone(self.hello.to, refused);
                    }
                    seen = Seen::Gone { refused };
                    // A wrong node at the address is logged once.
                    hang_ups = if error.kind() == io::ErrorKind::ConnectionAborted { hang_ups + 1 } else { 0 };
                    let is_mismatch = hang_ups > PEER_HANG_UPS || error.kind() == io::ErrorKind::InvalidData;
                    if is_mismatch && self.is_evidence() && logged != error.to_string() {
                        logged = error.to_string();
                        tracing::warn!(to = self.hello.to, address, why = logged, "peer identity mismatch");
                    }
                    tracing::debug!(to = self.hello.to, channel = ?self.hello.channel, %error, "cannot reach a peer");
                }
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(PEER_RETRY_MS_MAX);
            if self.send_buffer.is_closed() {
                return;
            }
        }
    }

    /// Whether this connection shows if the peer is alive: only heartbeat connections do.
    const fn is_evidence(&self) -> bool {
        matches!(self.hello.channel, Channel::Heartbeat)
    }

    async fn connect(&self, address: &str) -> io::Result<Connected> {
        let stream = resolve::connect(address).await?;
        let peer = stream.peer_addr()?;
        keepalive::configure(&stream)?;
        let connector = TlsConnector::from(self.tls.get().client);
        let mut stream = connector.connect(session::server_name(node_number(self.hello.to)), stream).await?;
        let identity = self.admission.check_server(self.hello.to, stream.get_ref().1.peer_certificates())?;
        self.hello.write(&mut stream).await?;
        let welcome = Welcome::read(&mut stream).await.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "it closes the connection instead of greeting: it belongs to another cluster, or is stopping",
            ),
            _ => error,
        })?;
        if welcome.id == REMOVED {
            self.events.reported_removed(self.hello.to);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this node was removed from the cluster"));
        }
        if welcome.id == KEY_REFUSED {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the cluster does not accept the key of this node: the key was replaced, or the directory is an older \
                 copy. If the node did not renew the key itself, remove the node (`catamaran cluster remove`) and \
                 join it again",
            ));
        }
        if welcome.id != self.hello.to {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "another incarnation of the peer answers at this address",
            ));
        }
        self.counters.dialled.one_shared();
        self.admission.hints().note_seen(self.hello.to, peer.ip());
        Ok(Connected { stream, welcome, identity })
    }

    /// Sends frames until the connection fails or the channel is closed.
    async fn send_all(&self, stream: TlsStream<TcpStream>, identity: &PeerIdentity) -> io::Result<()> {
        let (mut read, write) = tokio::io::split(stream);
        let mut nothing = [0; 1];
        self.send_buffer.connect(Box::new(write));
        let ended = tokio::select! {
            ended = self.send_buffer.run_writer() => ended,
            // An acceptor sends nothing after its greeting, so received bytes are an error.
            _ = read.read(&mut nothing) => Err(io::ErrorKind::ConnectionReset.into()),
            // The peer uses another key now, or is no longer a member.
            refusal = self.admission.revoked(self.hello.to, identity) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal.to_string()))
            }
        };
        self.send_buffer.disconnect();
        ended
    }
}
