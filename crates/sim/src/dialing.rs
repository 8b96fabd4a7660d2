//! The members dial each other, as the daemon does.

use crate::event::Event;
use crate::links::{DialResult, Link};
use crate::machine::Machine;
use crate::simulation::Simulation;
use replica::Replica;
use replica::io::{Input, MemberState, NodeId};

/// Pause between two attempts to dial.
const DIAL_PAUSE_US: (u64, u64) = (10_000, 400_000);
/// Delay until a dead process is noticed. Its memory is torn down first.
const RESET_US: (u64, u64) = (100, 150_000);
/// Silence after which a connection counts as broken.
const SILENCE_US: (u64, u64) = (1_000_000, 6_000_000);

impl Simulation {
    /// Whether a frame finds a connection to the present process of the other member.
    pub(crate) fn is_linked(&self, from: NodeId, to: NodeId) -> bool {
        let Some(machine) = self.machines.get(&to) else { return false };
        self.links.0.get(&(from, to)) == Some(&Link::Up { boot: machine.boot })
    }

    /// A new process dials all others. Others notice after a while that the old process is gone.
    pub(crate) fn links_begin(&mut self, id: NodeId) {
        let ids = self.ids();
        self.network.reset_all(id, &ids);
        let boot = self.machines[&id].boot;
        for other in ids.into_iter().filter(|&other| other != id) {
            self.links.0.insert((id, other), Link::Down { result: None });
            let in_us = self.rng.between(200, 3_000);
            self.events.after(in_us, Event::Dial { from: id, to: other, boot });
            self.end_later(other, id, (500, 5_000));
        }
    }

    /// Running members dial a new machine.
    pub(crate) fn links_to_new(&mut self, id: NodeId) {
        for other in self.alive().into_iter().filter(|&other| other != id) {
            self.links.0.insert((other, id), Link::Down { result: None });
            let (in_us, boot) = (self.rng.between(200, 3_000), self.machines[&other].boot);
            self.events.after(in_us, Event::Dial { from: other, to: id, boot });
        }
    }

    /// A member closes the connections of removed members. They dial again and learn of their removal.
    pub(crate) fn links_of_removed(&mut self, id: NodeId) {
        let Some(replica) = &self.machines[&id].replica else { return };
        let membership = replica.membership();
        let out = self.ids().into_iter().filter(|&other| other != id && membership.is_out(other));
        out.collect::<Vec<_>>().into_iter().for_each(|other| self.end_later(other, id, (10, 2_000)));
    }

    /// A process is gone. If its machine is alive, its connections are closed. Otherwise they stay silent.
    pub(crate) fn links_of_dead(&mut self, id: NodeId, has_power: bool) {
        let ids = self.ids();
        self.network.reset_all(id, &ids);
        for other in ids.into_iter().filter(|&other| other != id) {
            self.links.0.remove(&(id, other));
            self.end_later(other, id, if has_power { RESET_US } else { SILENCE_US });
        }
    }

    /// Connections between two members break, both ways.
    pub(crate) fn links_break(&mut self, a: NodeId, b: NodeId) {
        self.network.reset(a, b);
        self.end_later(a, b, (10, 2_000));
        self.end_later(b, a, (10, 2_000));
    }

    /// Connections across a cut count as broken after a while.
    pub(crate) fn links_time_out(&mut self) {
        let ids = self.ids();
        for &from in &ids {
            for &to in ids.iter().filter(|&&to| to != from) {
                if self.network.is_cut(from, to) || self.network.is_cut(to, from) {
                    self.end_later(from, to, SILENCE_US);
                }
            }
        }
    }

    fn end_later(&mut self, from: NodeId, to: NodeId, (low, high): (u64, u64)) {
        let boot = self.machines[&from].boot;
        let in_us = self.rng.between(low, high);
        self.events.after(in_us, Event::LinkEnds { from, to, boot });
    }

    /// A connection ends. The dialing member dials again immediately.
    pub(crate) fn link_ends(&mut self, from: NodeId, to: NodeId, boot: u64) {
        if !self.machines[&from].is_alive(boot) {
            return;
        }
        if let Some(Link::Up { .. }) = self.links.0.get(&(from, to)) {
            self.network.reset(from, to);
            self.links.0.insert((from, to), Link::Down { result: None });
            self.events.after(0, Event::Dial { from, to, boot });
        }
    }

    /// Whether a member accepts connections from an id: the id is a known or a confirmed member.
    pub(crate) fn is_welcome(&self, to: NodeId, from: NodeId) -> bool {
        let replica = self.machines[&to].replica.as_ref();
        replica.is_some_and(|replica| replica.admits(from)) || self.is_confirmed_for(to, from)
    }

    /// Whether another member confirms that `from` is a member, and none reports that it was removed. `to` asks the
    /// members that it knows and reaches. If it knows no members, it asks the node through which it joined, which may
    /// be `from`.
    fn is_confirmed_for(&self, to: NodeId, from: NodeId) -> bool {
        let Some(membership) = self.machines[&to].replica.as_ref().map(Replica::membership) else { return false };
        if membership.state_of(from) != MemberState::Unknown {
            return false;
        }
        let knows_no_members = membership.members().next().is_none();
        let is_asked = |machine: &&Machine| {
            let id = machine.id;
            let is_cut = self.network.is_cut(id, to) || self.network.is_cut(to, id);
            let is_asked = id != to && (id != from || knows_no_members);
            is_asked && !is_cut && !machine.is_paused && (knows_no_members || membership.is_member(id))
        };
        let members = self.machines.values().filter(is_asked).filter_map(|machine| machine.replica.as_ref());
        let answers: Vec<_> = members.map(|replica| replica.membership().state_of(from)).collect();
        answers.contains(&MemberState::Member) && !answers.contains(&MemberState::Out)
    }

    pub(crate) fn dial(&mut self, from: NodeId, to: NodeId, boot: u64) {
        let Some(Link::Down { result }) = self.links.0.get(&(from, to)).copied() else { return };
        if !self.machines[&from].is_alive(boot) {
            return;
        }
        let is_cut = self.network.is_cut(from, to) || self.network.is_cut(to, from);
        let peer = &self.machines[&to];
        if let (false, false, Some(replica)) = (is_cut, peer.is_paused, &peer.replica) {
            if replica.membership().is_out(from) {
                self.deliver(from, Input::ReportedRemoved { by: to });
                let in_us = self.rng.between(DIAL_PAUSE_US.0, DIAL_PAUSE_US.1);
                self.events.after(in_us, Event::Dial { from, to, boot });
                return;
            }
            let (boot, boot_id) = (peer.boot, peer.boot_id);
            if !replica.admits(from) {
                if !self.is_welcome(to, from) {
                    // The connection is refused. The member dials again.
                    let in_us = self.rng.between(DIAL_PAUSE_US.0, DIAL_PAUSE_US.1);
                    self.events.after(in_us, Event::Dial { from, to, boot: self.machines[&from].boot });
                    return;
                }
                // It has no effect, so the member is not woken.
                let now_us = self.events.now_us();
                let machine = self.machine(to);
                let now = machine.now(now_us);
                if let Some(replica) = &mut machine.replica {
                    replica.handle(Input::PeerConfirmed { id: from }, now);
                }
            }
            self.links.0.insert((from, to), Link::Up { boot });
            self.trace.note(self.events.now_us(), from, "connected", &[to, boot_id], &[]);
            self.deliver(from, Input::PeerConnected { id: to, boot_id });
            return;
        }
        // A connection is refused only by a machine without the process. Otherwise there is no answer.
        let refused = !is_cut && peer.has_power && peer.replica.is_none();
        let outcome = if refused { DialResult::Refused } else { DialResult::Silence };
        self.links.0.insert((from, to), Link::Down { result: Some(outcome) });
        if result != Some(outcome) {
            self.trace.note(self.events.now_us(), from, "gone", &[to, u64::from(refused)], &[]);
            self.deliver(from, Input::PeerGone { id: to, refused });
        }
        if self.machines[&to].is_gone {
            return;
        }
        let in_us = self.rng.between(DIAL_PAUSE_US.0, DIAL_PAUSE_US.1);
        self.events.after(in_us, Event::Dial { from, to, boot });
    }
}
