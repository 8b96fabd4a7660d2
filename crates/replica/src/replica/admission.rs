//! Which ids are heard at all: members alone.
//!
//! A member that was away may not know those that came since, nor does a new one know anybody. Its shell asks a member
//! that it knows, and says so: what is confirmed is heard until what this replica applies says more of it.

use super::Replica;
use super::removal::was_given;
use crate::io::{MemberState, NodeId};
use crate::limits::{CONFIRMED_PEERS_MAX, LEADERLESS_MS};

impl Replica {
    /// Whether frames of this id are looked at: it is a member as far as is known here, or confirmed and unknown.
    #[must_use]
    pub fn admits(&self, id: NodeId) -> bool {
        let settings = &self.machine.settings;
        let is_member = settings.is_member(id) || self.driver.counts(id);
        let is_confirmed = || self.driver.senders.confirmed.contains(&id) && !was_given(settings.incarnations(), id);
        id != self.driver.id() && (is_member || is_confirmed())
    }

    /// A member says that this id is one too.
    pub(super) fn handle_peer_confirmed(&mut self, id: NodeId) {
        if self.admits(id) || id == self.driver.id() || self.membership().standing(id) != MemberState::Unknown {
            return;
        }
        let confirmed = &mut self.driver.senders.confirmed;
        if confirmed.len() >= CONFIRMED_PEERS_MAX {
            confirmed.remove(0);
        }
        confirmed.push(id);
    }

    /// Who the members are is known better now: of those that were confirmed the unknown remain.
    pub(crate) fn forget_confirmed(&mut self) {
        if !self.driver.senders.confirmed.is_empty() {
            let membership = self.membership();
            self.driver.senders.confirmed.retain(|&id| membership.standing(id) == MemberState::Unknown);
        }
    }

    /// A message of the leader came.
    pub(super) fn note_led(&mut self, from: NodeId) {
        if self.driver.leader() == Some(from) {
            self.led_ms = self.running_ms;
        }
    }

    /// Notes how long nobody has led, as far as this member heard. One that does not campaign may remember a leader
    /// that is long gone.
    pub(super) fn note_leaderless(&mut self) {
        if self.driver.is_leader() {
            self.led_ms = self.running_ms;
        }
        self.driver.senders.is_leaderless = self.running_ms - self.led_ms >= LEADERLESS_MS;
    }
}
