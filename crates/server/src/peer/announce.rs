//! Nodes announce their addresses to each other. A node that starts at a new address announces it to all members that
//! it can reach. They dial the new address from then on, and the cluster's state is updated.
//! A node also announces its configured address after each new connection: the peer may have missed the move, or the
//! cluster's state may have the address of a copy of the node that is gone.
//!
//! ```text
//!   mover:   "catamaran-peer\0\x01"  0xFC  length(4)  Announcement (JSON)
//!   member:  length(4)  Result<(), reason> (JSON)
//! ```
//! The member accepts the address after it has connected to it and verified the pinned key of the mover. Older software
//! closes the connection at the byte 0xFC.

use super::admission::Admission;
use super::frame::{ANNOUNCE_KIND, read_message, request, write_message};
use super::resolve::connect_to_member;
use crate::limits::{ANNOUNCE_MS, PEER_ADDRESS_BYTES_MAX, PEER_DIAL_BACK_MS, TRUST_COMMAND_MS};
use crate::published::address_hints::AddressHints;
use crate::replica_host::handle::ReplicaHandle;
use crate::tls::names::node_number;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::CurrentTls;
use config::Config;
use config::address::PeerAddress;
use config::files::{Readers, read_bounded, write_atomic};
use process::warn_limited;
use replica::io::{AdminCommand, AdminError, Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::server::TlsStream;

/// Pause between announcements until the cluster's state has the address.
const ANNOUNCE_PAUSE: Duration = Duration::from_secs(1);
/// Pause between announcements while the feature level is too low for them, and between warnings.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(30);
/// The feature level that allows an update of the cluster's state.
const MOVE_LEVEL: u32 = 4;

#[derive(Debug, Serialize, Deserialize)]
struct Announcement {
    /// The raft id of the node that moved.
    from: NodeId,
    /// The address that peers are to connect to.
    address: PeerAddress,
    /// The address in the node's configuration has changed, so the cluster's state must be updated.
    has_moved: bool,
}

/// Answers an announcement. The caller limits the time; `checks` limits how many addresses are verified at the same
/// time.
pub(super) async fn serve(
    stream: &mut TlsStream<TcpStream>,
    tls: &CurrentTls,
    admission: &Admission,
    handle: Option<&ReplicaHandle>,
    identity: &PeerIdentity,
    checks: &Semaphore,
) -> io::Result<()> {
    let announcement: Announcement = read_message(stream).await?;
    let result = match admission.check(announcement.from, identity) {
        Ok(()) => {
            // Membership is checked first, so that a removed member uses up no permit.
            let _permit = checks.acquire().await.map_err(io::Error::other)?;
            dial_back(&announcement, tls, admission).await
        }
        Err(refusal) => Err(refusal.to_string()),
    };
    if let (Ok(()), Some(handle)) = (&result, handle) {
        pass_on(announcement, admission, handle);
    }
    write_message(stream, &result).await
}

async fn dial_back(announcement: &Announcement, tls: &CurrentTls, admission: &Admission) -> Result<(), String> {
    let &Announcement { from, ref address, .. } = announcement;
    let known = admission.address_of(from).map(|known| admission.hints().candidates(from, &known));
    if known.is_some_and(|known| known.contains(&address.to_string())) {
        return Ok(());
    }
    if !address.is_reachable() {
        return Err(format!("other nodes cannot connect to {address}"));
    }
    verify(from, address, tls, admission).await.map_err(|error| format!("cannot connect to {address}: {error}"))?;
    if admission.hints().add(node_number(from), address.to_string()) {
        tracing::info!(node = node_number(from), %address, "verified the address that a node announced");
    }
    Ok(())
}

/// Connects to an address, and verifies that the member with its pinned key answers.
async fn verify(id: NodeId, address: &PeerAddress, tls: &CurrentTls, admission: &Admission) -> io::Result<()> {
    let at = address.to_string();
    let connected = connect_to_member(&at, id, tls.get().client, admission);
    let limit = Duration::from_millis(PEER_DIAL_BACK_MS);
    tokio::time::timeout(limit, connected).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?.map(|_| ())
}

/// Updates the member's address in the cluster's state on its behalf. The member and the leader may be unable to reach
/// each other.
fn pass_on(announcement: Announcement, admission: &Admission, handle: &ReplicaHandle) {
    let Announcement { from, address, has_moved } = announcement;
    let is_known = admission.address_of(from).is_some_and(|known| known == address.to_string());
    let is_possible = handle.shared().trust.borrow().feature_level >= MOVE_LEVEL;
    // The member repeats the announcement until the state has the address. Only one command runs at a time.
    if !has_moved || is_known || !is_possible || !admission.hints().begin_move(node_number(from)) {
        return;
    }
    let (admission, handle) = (admission.clone(), handle.clone());
    tokio::spawn(async move {
        move_in_state(&handle, from, &address).await;
        admission.hints().end_move(node_number(from));
    });
}

/// Writes an address into the cluster's state. Returns whether that succeeded.
async fn move_in_state(handle: &ReplicaHandle, id: NodeId, address: &PeerAddress) -> bool {
    let reply = handle.admin(AdminCommand::MoveNode { id, address: address.to_string() });
    match tokio::time::timeout(Duration::from_millis(TRUST_COMMAND_MS), reply).await {
        Ok(Ok(_)) => true,
        // There is no leader now. The caller tries again later.
        Ok(Err(AdminError::NotProposed | AdminError::Unknown | AdminError::Busy)) | Err(_) => false,
        Ok(Err(error)) => {
            warn_limited!(?error, node = node_number(id), %address, "the leader refuses the new address of a node");
            false
        }
    }
}

/// Checks whether a member answers at an address.
pub(crate) struct PeerCheck {
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) admission: Admission,
}

impl PeerCheck {
    /// Connects to an address, and verifies that the member with its pinned key answers.
    ///
    /// # Errors
    /// If there is no answer in time, or another node answers.
    pub(crate) async fn verify(&self, id: NodeId, address: &PeerAddress) -> io::Result<()> {
        verify(id, address, &self.tls, &self.admission).await
    }
}

/// Announces the address of this node.
pub(crate) struct Announcer {
    pub(crate) own: NodeId,
    /// The address that peers are to connect to.
    pub(crate) address: PeerAddress,
    pub(crate) tls: Arc<CurrentTls>,
    pub(crate) admission: Admission,
    pub(crate) handle: ReplicaHandle,
    /// File with the address that the cluster last accepted.
    pub(crate) announced_file: PathBuf,
}

impl Announcer {
    /// Announces the address until the cluster's state has it. This runs if the configured address has changed, or was
    /// never announced. An address set since by `cluster move` stays.
    pub(crate) async fn run(self) {
        if self.last_announced().as_deref() == Some(&*self.address.to_string()) {
            return;
        }
        let mut trust = self.handle.shared().trust.subscribe();
        let mut warned_at: Option<Instant> = None;
        loop {
            let known = trust.borrow_and_update().clone();
            let own = known.members.iter().find(|member| member.id == self.own);
            let address = self.address.to_string();
            if own.is_some_and(|member| member.address == address) {
                return self.save_announced(&address);
            }
            let Some(old) = own else {
                if trust.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let old = old.address.clone();
            let outcome = self.announce(known.members.clone()).await;
            let is_replicated = known.feature_level >= MOVE_LEVEL;
            let pause = match outcome {
                Ok(()) if is_replicated && move_in_state(&self.handle, self.own, &self.address).await => {
                    tracing::info!(old, new = address, "this node has moved: the cluster knows its address");
                    ANNOUNCE_PAUSE
                }
                // No leader yet, or the feature level is too low. The others keep the address while they run.
                Ok(()) if is_replicated => ANNOUNCE_PAUSE,
                Ok(()) => ANNOUNCE_EVERY,
                Err(why) => {
                    if warned_at.is_none_or(|at| at.elapsed() >= ANNOUNCE_EVERY) {
                        warned_at = Some(Instant::now());
                        tracing::warn!(
                            old,
                            new = address,
                            why,
                            "no peer can connect to this node at its new address: check peer.listen, peer.advertise \
                             and firewalls; if all nodes have moved, see --peer-address in `catamaran serve --help`"
                        );
                    }
                    ANNOUNCE_PAUSE
                }
            };
            let _ = tokio::time::timeout(pause, trust.changed()).await;
        }
    }

    fn last_announced(&self) -> Option<String> {
        let bytes = read_bounded(&self.announced_file, PEER_ADDRESS_BYTES_MAX).ok();
        bytes.and_then(|bytes| String::from_utf8(bytes).ok())
    }

    fn save_announced(&self, address: &str) {
        if let Err(error) = write_atomic(&self.announced_file, address.as_bytes(), Readers::Owner) {
            tracing::warn!(%error, "cannot save the address that the cluster has; this node will announce it again");
        }
    }

    /// Announces to all other members in parallel. `Ok` if at least one verified the address, or if there are none.
    async fn announce(&self, members: Vec<Member>) -> Result<(), String> {
        let mut sent = tokio::task::JoinSet::new();
        for member in members.into_iter().filter(|member| member.id != self.own) {
            for address in self.admission.hints().candidates(member.id, &member.address) {
                let announcement = Announcement { from: self.own, address: self.address.clone(), has_moved: true };
                let (tls, admission) = (self.tls.clone(), self.admission.clone());
                sent.spawn(async move {
                    let reply = announce_to(&address, member.id, &announcement, &tls, &admission);
                    let limit = Duration::from_millis(ANNOUNCE_MS);
                    let reply = tokio::time::timeout(limit, reply).await.map_err(|_| "no answer in time".to_owned());
                    reply.and_then(|reply| reply).map_err(|why| format!("node {}: {why}", node_number(member.id)))
                });
            }
        }
        let (mut is_verified, mut why) = (sent.is_empty(), "cannot reach any peer".to_owned());
        while let Some(reply) = sent.join_next().await {
            match reply {
                Ok(Ok(())) => is_verified = true,
                Ok(Err(reason)) => why = reason,
                Err(_) => {}
            }
        }
        if is_verified { Ok(()) } else { Err(why) }
    }
}

/// Announces this node's addresses to a member that it has just connected to. These are only hints: the state stays.
/// The configured address may be wrong behind NAT, and the address in the state may be that of a copy of this node.
pub(super) async fn announce_after_connect(
    own: NodeId,
    at: String,
    id: NodeId,
    tls: Arc<CurrentTls>,
    admission: Admission,
) {
    let configured = admission.hints().own().cloned();
    let in_state = admission.address_of(own).and_then(|address| address.parse().ok());
    let in_state = in_state.filter(|address| configured.as_ref() != Some(address));
    for address in configured.into_iter().chain(in_state) {
        let announcement = Announcement { from: own, address, has_moved: false };
        let reply = announce_to(&at, id, &announcement, &tls, &admission);
        match tokio::time::timeout(Duration::from_millis(ANNOUNCE_MS), reply).await {
            Ok(Ok(())) => {}
            // The peer logs it if it cannot connect to this node.
            Ok(Err(why)) => tracing::debug!(node = node_number(id), why, "a peer rejected the address of this node"),
            Err(_) => tracing::debug!(node = node_number(id), "a peer did not answer an announcement"),
        }
    }
}

async fn announce_to(
    at: &str,
    id: NodeId,
    announcement: &Announcement,
    tls: &CurrentTls,
    admission: &Admission,
) -> Result<(), String> {
    let exchange = async {
        let mut stream = connect_to_member(at, id, tls.get().client, admission).await?;
        request::<Result<(), String>>(&mut stream, ANNOUNCE_KIND, announcement).await
    };
    exchange.await.map_err(|error: io::Error| format!("{at}: {error}"))?
}

/// The addresses in the configuration: of this node, and of others from `--peer-address`.
pub(crate) fn hints_of(config: &Config) -> AddressHints {
    let named = config.peer.extra_addresses.iter().map(|(node, address)| (*node, address.to_string()));
    AddressHints::new(config.advertised(), named)
}
