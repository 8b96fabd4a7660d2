//! One lane to one peer: dials, greets, sends what the replica gives, dials again.

use super::admission::Admission;
use super::frame::{Hello, KEY_REFUSED, REMOVED, Welcome};
use super::outlet::Outlet;
use super::{PeerCounters, PeerEvents, announce, node_number, resolve, silence};
use crate::limits::{PEER_HANDSHAKE_MS, PEER_HANG_UPS, PEER_RETRY_MS_MAX, PEER_RETRY_MS_MIN};
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::{self, CurrentTls};
use replica::io::Lane;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What a dialler needs.
pub(crate) struct Dialler<E> {
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) admission: Admission,
    /// The peer's address in the cluster's state.
    pub(crate) address: String,
    pub(crate) hello: Hello,
    pub(crate) events: Arc<E>,
    pub(crate) counters: Arc<PeerCounters>,
    /// What is to be sent.
    pub(crate) outlet: Arc<Outlet>,
}

/// A connection that stands.
struct Connected {
    stream: TlsStream<TcpStream>,
    welcome: Welcome,
    /// What the other side showed.
    identity: PeerIdentity,
}

/// What the other side was last seen to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Connected,
    Gone { refused: bool },
}

impl<E: PeerEvents> Dialler<E> {
    /// Runs until the replica has no use for the lane.
    pub(crate) async fn run(self) {
        let mut seen = Seen::Nothing;
        let mut pause_ms = PEER_RETRY_MS_MIN;
        let (mut said, mut hung_up) = (String::new(), 0u64);
        // The index of the next address, and the address of the last successful connection.
        let (mut attempt, mut met_at) = (0, None::<String>);
        loop {
            let candidates = self.admission.hints().candidates(self.hello.to, &self.address);
            // The last good address is tried first: a refusal there shows that the peer's process is gone.
            let last = met_at.as_ref().filter(|met| attempt == 0 && candidates.contains(met));
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
                    (attempt, met_at) = (0, Some(address.clone()));
                    if self.is_evidence() {
                        self.counters.reach.connected(self.hello.to, &address);
                        let (own, to) = (self.hello.from, self.hello.to);
                        let (tls, admission) = (self.tls.clone(), self.admission.clone());
                        tokio::spawn(announce::tell_reached(own, address.clone(), to, tls, admission));
                        self.events.connected(self.hello.to, welcome.boot_id);
                    }
                    if self.send_all(stream, &identity).await.is_ok() {
                        return;
                    }
                    // Dial again at once: whether that is refused tells whether the process is gone.
                    continue;
                }
                Err(error) => {
                    // At an address that may be wrong, a refusal proves nothing about the peer.
                    let is_its_own = candidates.len() == 1 || met_at.as_ref() == Some(&address);
                    let refused = error.kind() == io::ErrorKind::ConnectionRefused && is_its_own;
                    if self.is_evidence() && !self.outlet.is_closed() {
                        self.counters.reach.failed(self.hello.to, &address, &error.to_string());
                    }
                    if seen != (Seen::Gone { refused }) && self.is_evidence() {
                        self.events.gone(self.hello.to, refused);
                    }
                    seen = Seen::Gone { refused };
                    // One that answers and is not who it shall be stays so: that is said once.
                    hung_up = if error.kind() == io::ErrorKind::ConnectionAborted { hung_up + 1 } else { 0 };
                    let is_other = hung_up > PEER_HANG_UPS || error.kind() == io::ErrorKind::InvalidData;
                    if is_other && self.is_evidence() && said != error.to_string() {
                        said = error.to_string();
                        tracing::warn!(to = self.hello.to, address, said, "peer identity mismatch");
                    }
                    tracing::debug!(to = self.hello.to, lane = ?self.hello.lane, %error, "peer cannot be reached");
                }
            }
            tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            pause_ms = (pause_ms * 2).min(PEER_RETRY_MS_MAX);
            if self.outlet.is_closed() {
                return;
            }
        }
    }

    /// Only heartbeat connections say whether a peer lives.
    const fn is_evidence(&self) -> bool {
        matches!(self.hello.lane, Lane::Heartbeat)
    }

    async fn connect(&self, address: &str) -> io::Result<Connected> {
        let stream = resolve::connect(address).await?;
        let peer = stream.peer_addr()?;
        silence::prepare(&stream)?;
        let connector = TlsConnector::from(self.tls.get().client);
        let mut stream = connector.connect(session::server_name(node_number(self.hello.to)), stream).await?;
        let identity = self.admission.check_server(self.hello.to, stream.get_ref().1.peer_certificates())?;
        self.hello.write(&mut stream).await?;
        let welcome = Welcome::read(&mut stream).await.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "it hangs up where it should greet: it is of another cluster, or on its way down",
            ),
            _ => error,
        })?;
        if welcome.id == REMOVED {
            self.events.told_removed(self.hello.to);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "this node was removed from the cluster"));
        }
        if welcome.id == KEY_REFUSED {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the cluster does not accept the key of this node: another key took its place, or the directory is \
                 an older copy. If the node did not renew it itself, remove the node (`catamaran cluster remove`) \
                 and let it join anew",
            ));
        }
        if welcome.id != self.hello.to {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "another incarnation of the peer answers there"));
        }
        self.counters.dialled.one_shared();
        self.admission.hints().note_seen(self.hello.to, peer.ip());
        Ok(Connected { stream, welcome, identity })
    }

    /// Sends until the connection ends (an error) or the lane is closed.
    async fn send_all(&self, stream: TlsStream<TcpStream>, identity: &PeerIdentity) -> io::Result<()> {
        let (mut read, write) = tokio::io::split(stream);
        let mut nothing = [0; 1];
        self.outlet.open(Box::new(write));
        let ended = tokio::select! {
            ended = self.outlet.write_all() => ended,
            // An acceptor sends nothing after its greeting: bytes here are as bad as the end.
            _ = read.read(&mut nothing) => Err(io::ErrorKind::ConnectionReset.into()),
            // The other end shows another key by now, if it still is the member.
            refusal = self.admission.revoked(self.hello.to, identity) => {
                Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal.to_string()))
            }
        };
        self.outlet.shut();
        ended
    }
}
