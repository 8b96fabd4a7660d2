//! Admission of frames: only members are heard.
//!
//! A member that was away may not know newer members, and a new member knows none. Its shell then asks a member that
//! it knows, and reports the answer. A confirmed id is heard until the applied state says more.

use super::Replica;
use crate::io::{MemberState, NodeId, was_given};
use crate::limits::{CONFIRMED_PEERS_MAX, LEADERLESS_MS};

impl Replica {
    /// Whether frames of this id are accepted: it is a known member, or confirmed and unknown.
    #[must_use]
    pub fn admits(&self, id: NodeId) -> bool {
        let settings = &self.machine.settings;
        let is_member = settings.is_member(id) || self.driver.counts(id);
        let is_confirmed = || self.driver.senders.confirmed.contains(&id) && !was_given(settings.incarnations(), id);
        id != self.driver.id() && (is_member || is_confirmed() || planted!(StrangerAdmitted))
    }

    /// A member confirmed that this id is a member.
    pub(super) fn handle_peer_confirmed(&mut self, id: NodeId) {
        if self.admits(id) || id == self.driver.id() || self.membership().state_of(id) != MemberState::Unknown {
            return;
        }
        let confirmed = &mut self.driver.senders.confirmed;
        if confirmed.len() >= CONFIRMED_PEERS_MAX {
            confirmed.remove(0);
        }
        confirmed.push(id);
    }

    /// The list of members changed. Only ids that are still unknown stay confirmed.
    pub(crate) fn forget_confirmed(&mut self) {
        if !self.driver.senders.confirmed.is_empty() {
            let membership = self.membership();
            self.driver.senders.confirmed.retain(|&id| membership.state_of(id) == MemberState::Unknown);
        }
    }

    /// A message of the leader arrived.
    pub(super) fn note_led(&mut self, from: NodeId) {
        if self.driver.leader() == Some(from) {
            self.local.led_ms = self.local.running_ms;
        }
    }

    /// Updates how long this member has heard no leader. A member that does not campaign may remember a leader that
    /// is long gone.
    pub(super) fn note_leaderless(&mut self) {
        if self.driver.is_leader() {
            self.local.led_ms = self.local.running_ms;
        }
        self.driver.senders.is_leaderless = self.local.running_ms - self.local.led_ms >= LEADERLESS_MS;
    }
}
