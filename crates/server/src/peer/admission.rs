//! Which connections between nodes are accepted: those of members, by the certificate that the cluster's state pins.
//!
//! A certificate of the cluster's CA is not enough: a node that was removed still has one, and every member can
//! issue more.

use crate::published::address_hints::AddressHints;
use crate::tls::peer_identity::PeerIdentity;
use replica::Trust;
use replica::io::{Member, Membership, NodeId};
use replica::limits::CONFIRMED_PEERS_MAX;
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The current members, as known to this node.
#[derive(Clone)]
pub(crate) struct Admission {
    membership: watch::Receiver<Arc<Membership>>,
    trust: watch::Receiver<Arc<Trust>>,
    /// The members in the configuration, used by a joined node until it has a state.
    first_members: Arc<Vec<Member>>,
    /// The pins of members that only another member confirmed.
    confirmed: Arc<Mutex<BTreeMap<NodeId, [u8; 32]>>>,
    /// Addresses of members besides those in the state.
    hints: Arc<AddressHints>,
}

/// Why a connection is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// It was a member before. Ids are never used again.
    Removed,
    /// The certificate names another member.
    OtherName,
    /// The certificate names this member, but its key was replaced, or was never the member's own.
    OtherKey,
    /// The member is not in this node's state. A node that was away may not know it yet.
    Unknown,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Removed => "the node was removed from the cluster",
            Self::OtherName => "its certificate names another member",
            Self::OtherKey => "the key of its certificate is not, or no longer, the key of the member",
            Self::Unknown => "this node does not know such a member",
        })
    }
}

impl Admission {
    pub(crate) fn new(
        membership: watch::Receiver<Arc<Membership>>,
        trust: watch::Receiver<Arc<Trust>>,
        first_members: Vec<Member>,
        hints: Arc<AddressHints>,
    ) -> Self {
        Self { membership, trust, first_members: Arc::new(first_members), confirmed: Arc::default(), hints }
    }

    /// Checks that a peer with this identity is the member `id`.
    pub(crate) fn check(&self, id: NodeId, identity: &PeerIdentity) -> Result<(), Refusal> {
        let (membership, trust) = (self.membership.borrow().clone(), self.trust.borrow().clone());
        if membership.is_out(id) {
            return Err(Refusal::Removed);
        }
        if !identity.is_about(id) {
            return Err(Refusal::OtherName);
        }
        match trust.pins.get(&id) {
            Some(pins) if !pins.contains(&identity.pin) => return Err(Refusal::OtherKey),
            // A member of an older build registers its key at feature level 3. Until then its certificate
            // names no incarnation; if its number was given again, it must.
            None if id >> 32 != 0 && trust.feature_level >= 3 && !identity.names(id) => return Err(Refusal::OtherName),
            _ => {}
        }
        let is_first = || membership.is_empty() && self.first_members.iter().any(|member| member.id == id);
        if membership.is_member(id) || is_first() { Ok(()) } else { Err(Refusal::Unknown) }
    }

    /// Whether the key of this identity is pinned for the member. A certificate of the cluster's CA is not enough.
    pub(super) fn is_pinned(&self, id: NodeId, identity: &PeerIdentity) -> bool {
        self.trust.borrow().pins.get(&id).is_some_and(|pins| pins.contains(&identity.pin))
    }

    /// Checks that the server of a dialled connection is the member `id`.
    ///
    /// # Errors
    /// `PermissionDenied` with the reason.
    pub(crate) fn check_server(&self, id: NodeId, certs: Option<&[CertificateDer<'_>]>) -> io::Result<PeerIdentity> {
        let refused = |why: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::PermissionDenied, why.to_string());
        let identity = PeerIdentity::of(certs).ok_or_else(|| refused(&"no certificate"))?;
        match self.check(id, &identity) {
            Ok(()) => Ok(identity),
            Err(Refusal::Unknown) if self.confirmed().get(&id) == Some(&identity.pin) => Ok(identity),
            Err(refusal) => Err(refused(&refusal)),
        }
    }

    /// Waits until an admitted connection must be closed: the member was removed, or its key was replaced. `Unknown`
    /// closes nothing, because another member confirmed it.
    pub(crate) async fn revoked(&self, id: NodeId, identity: &PeerIdentity) -> Refusal {
        let (mut membership, mut trust) = (self.membership.clone(), self.trust.clone());
        loop {
            membership.mark_unchanged();
            trust.mark_unchanged();
            match self.check(id, identity) {
                Ok(()) | Err(Refusal::Unknown) => {}
                Err(refusal) => return refusal,
            }
            let changed = async {
                tokio::select! {
                    changed = membership.changed() => changed,
                    changed = trust.changed() => changed,
                }
            };
            if changed.await.is_err() {
                // The node is ending; so are its connections.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Records that a known member confirmed another one with this key.
    pub(super) fn note_confirmed(&self, id: NodeId, identity: &PeerIdentity) {
        let mut confirmed = self.confirmed();
        let membership = self.membership.borrow();
        confirmed.retain(|&other, _| !membership.is_member(other) && !membership.is_out(other));
        if confirmed.len() < CONFIRMED_PEERS_MAX {
            confirmed.insert(id, identity.pin);
        }
    }

    fn confirmed(&self) -> MutexGuard<'_, BTreeMap<NodeId, [u8; 32]>> {
        // The map is consistent between any two statements, so a poisoned lock is safe to use.
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this node has a state of the cluster. A node that has just joined confirms no member and gives out no
    /// data key, because it knows no pins yet.
    pub(crate) fn has_state(&self) -> bool {
        !self.membership.borrow().is_empty()
    }

    /// Whether this is the address of a member. Members have their own quota.
    pub(super) fn is_of_member(&self, address: IpAddr) -> bool {
        let at = |member: Member| member.address.parse::<SocketAddr>().ok().map(|of| of.ip().to_canonical());
        // A member with a host name is recognised by the IP address at which it was last reached.
        self.hints.was_seen(address) || self.members().into_iter().any(|member| at(member) == Some(address))
    }

    /// Whether a join token with this digest is open.
    pub(crate) fn knows_token(&self, digest: &[u8; 32]) -> bool {
        self.trust.borrow().join_tokens.iter().any(|token| token.digest == *digest)
    }

    pub(super) fn hints(&self) -> &AddressHints {
        &self.hints
    }

    /// The address of a member.
    pub(super) fn address_of(&self, id: NodeId) -> Option<String> {
        self.members().into_iter().find(|member| member.id == id).map(|member| member.address)
    }

    /// The known members.
    pub(super) fn members(&self) -> Vec<Member> {
        let members = self.trust.borrow().members.clone();
        if members.is_empty() { self.first_members.to_vec() } else { members }
    }
}
