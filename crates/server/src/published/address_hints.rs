//! Addresses of members besides those in the cluster's state: announced by the members, or given by the operator with
//! `--peer-address`. They are tried in turn with the address in the state. A restart forgets them.

use crate::limits::PEER_HINTS_MAX;
use crate::tls::names::node_number;
use config::address::PeerAddress;
use replica::io::{Member, NodeId};
use replica::limits::MEMBERS_MAX;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The hints of each node, by node number.
#[derive(Default, Debug)]
pub(crate) struct AddressHints {
    nodes: Mutex<BTreeMap<u64, Known>>,
    /// The configured address of this node, if the configuration has one that others can connect to.
    own: Option<PeerAddress>,
}

#[derive(Default, Debug)]
struct Known {
    /// Addresses to try, newest first.
    hints: Vec<String>,
    /// The address in the state at the last check.
    replicated: Option<String>,
    /// A command that moves the node is in progress.
    is_moving: bool,
    /// The IP address of the last connection at which the member's identity was verified.
    seen_at: Option<IpAddr>,
}

impl AddressHints {
    /// Starts with the configured address of this node, and the hints of the operator: node numbers and addresses.
    pub(crate) fn new(own: Option<PeerAddress>, named: impl IntoIterator<Item = (u64, String)>) -> Self {
        let this = Self { own, ..Self::default() };
        for (node, address) in named {
            this.add(node, address);
        }
        this
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Known>> {
        // The map is consistent between any two statements, so a poisoned lock is safe to use.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configured address of this node.
    pub(crate) const fn own(&self) -> Option<&PeerAddress> {
        self.own.as_ref()
    }

    /// Adds an address of a node. Returns true if it is new.
    pub(crate) fn add(&self, node: u64, address: String) -> bool {
        let mut known = self.known();
        if known.len() >= 2 * MEMBERS_MAX && !known.contains_key(&node) {
            return false;
        }
        let hints = &mut known.entry(node).or_default().hints;
        if hints.first() == Some(&address) {
            return false;
        }
        hints.retain(|hint| *hint != address);
        hints.insert(0, address);
        hints.truncate(PEER_HINTS_MAX);
        true
    }

    /// Updates the addresses from the state. When a member's address there changes, its old hints are dropped, and its
    /// old address becomes a hint: a copy of the node may have announced the new one and be gone.
    pub(crate) fn set_members(&self, members: &[Member]) {
        let mut known = self.known();
        known.retain(|node, _| members.iter().any(|member| node_number(member.id) == *node) || members.is_empty());
        for member in members.iter().take(MEMBERS_MAX) {
            let of = known.entry(node_number(member.id)).or_default();
            let before = of.replicated.replace(member.address.clone());
            if let Some(before) = before.filter(|before| *before != member.address) {
                of.hints = vec![before];
            }
        }
    }

    /// The addresses to dial a member at: the one in the state, then the hints.
    pub(crate) fn candidates(&self, id: NodeId, replicated: &str) -> Vec<String> {
        let mut all = vec![replicated.to_owned()];
        if let Some(of) = self.known().get(&node_number(id)) {
            all.extend(of.hints.iter().filter(|hint| *hint != replicated).cloned());
        }
        all
    }

    /// Marks a move of the node as in progress. False if one already is.
    pub(crate) fn begin_move(&self, node: u64) -> bool {
        self.known().get_mut(&node).is_some_and(|of| !std::mem::replace(&mut of.is_moving, true))
    }

    pub(crate) fn end_move(&self, node: u64) {
        if let Some(of) = self.known().get_mut(&node) {
            of.is_moving = false;
        }
    }

    /// Records the address at which a member was reached.
    pub(crate) fn note_seen(&self, id: NodeId, address: IpAddr) {
        let mut known = self.known();
        if known.len() < 2 * MEMBERS_MAX || known.contains_key(&node_number(id)) {
            known.entry(node_number(id)).or_default().seen_at = Some(address.to_canonical());
        }
    }

    /// Whether a member was last reached at this address.
    pub(crate) fn was_seen(&self, address: IpAddr) -> bool {
        self.known().values().any(|of| of.seen_at == Some(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: NodeId, address: &str) -> Member {
        Member { id, address: address.to_owned() }
    }

    #[test]
    fn hints_are_tried_beside_the_state_until_the_member_moves() {
        let hints = AddressHints::new(None, [(2, "b:1".to_owned())]);
        hints.set_members(&[member(1, "x:1"), member(2, "a:1")]);
        assert_eq!(hints.candidates(2, "a:1"), ["a:1", "b:1"]);
        assert_eq!(hints.candidates(1 << 32 | 2, "a:1"), ["a:1", "b:1"], "found by its number");
        assert!(hints.add(2, "c:1".to_owned()) && !hints.add(2, "c:1".to_owned()));
        assert_eq!(hints.candidates(2, "b:1"), ["b:1", "c:1"]);
        // Above the limit, the oldest hints are dropped.
        assert!((0..9).all(|port| hints.add(2, format!("d:{port}"))));
        assert_eq!(hints.candidates(2, "a:1").len(), 1 + PEER_HINTS_MAX);
        hints.set_members(&[member(2, "a:1")]);
        assert_eq!(hints.candidates(2, "a:1")[1], "d:8");
        hints.set_members(&[member(2, "d:8")]);
        assert_eq!(hints.candidates(2, "d:8"), ["d:8", "a:1"], "the node may still be at its old address");
        hints.set_members(&[member(2, "d:8"), member(3, "e:1")]);
        hints.set_members(&[member(2, "d:8"), member(3, "f:1")]);
        assert_eq!(hints.candidates(3, "f:1"), ["f:1", "e:1"]);
        hints.note_seen(2, "::ffff:192.0.2.2".parse().unwrap());
        assert!(hints.was_seen("192.0.2.2".parse().unwrap()));
        hints.set_members(&[member(1, "x:1")]);
        assert!(!hints.was_seen("192.0.2.2".parse().unwrap()));
    }
}
