//! Faults at critical moments: in a third of the seeds, faults hit members exactly at such moments.

use crate::event::Event;
use crate::faults::DOWN_US;
use crate::simulation::Simulation;
use crate::swarm::{Boundary, FaultKind};
use replica::io::{AdminCommand, NodeId, Role};

/// Share of the moments at which a fault happens, in parts of a million.
const STRUCK_PPM: u64 = 150_000;
/// The same share for votes, which are rare. Only a fault right after a vote shows whether the vote was stored before
/// it was sent.
const VOTE_PPM: u64 = 500_000;
/// Minimum time between two such faults, so that the cluster makes progress.
const PAUSE_US: u64 = 300_000;
/// Maximum delay of a fault after its moment.
const LATE_US: u64 = 20_000;
/// How long a machine is off after it voted. The time is short, so that it may vote again in the same election.
const VOTER_DOWN_US: (u64, u64) = (1_000, 60_000);
/// The faults that can hit a member at such a moment.
const STRIKES: [FaultKind; 7] = [
    FaultKind::PowerLoss,
    FaultKind::Kill,
    FaultKind::SyncError,
    FaultKind::Pause,
    FaultKind::ClockStop,
    FaultKind::DiskHang,
    FaultKind::Partition,
];

impl Simulation {
    /// Handles a critical moment at a member. Most cause no fault.
    pub(crate) fn boundary(&mut self, boundary: Boundary, id: NodeId) {
        if !self.is_injected(boundary, STRUCK_PPM) {
            return;
        }
        let Some(&kind) = self.faults_rng.pick(&STRIKES) else { return };
        let in_us = self.faults_rng.below(LATE_US);
        self.events.after(in_us, Event::Strike { kind, id });
    }

    fn is_injected(&mut self, boundary: Boundary, ppm: u64) -> bool {
        if self.setup.swarm.target != Some(boundary) || !self.has_faults || self.events.now_us() < self.struck_until_us
        {
            return false;
        }
        let is_injected = self.faults_rng.happens(ppm);
        if is_injected {
            self.struck_until_us = self.events.now_us() + PAUSE_US;
            self.count.boundaries_struck += 1;
        }
        is_injected
    }

    /// A member has voted, and the frame is on its way. Cuts the power before anything else is stored.
    pub(crate) fn votes(&mut self, id: NodeId) {
        if self.is_injected(Boundary::Vote, VOTE_PPM) {
            self.die(id, FaultKind::PowerLoss, VOTER_DOWN_US);
        }
    }

    /// Handles a member's change to candidate, leader or follower.
    pub(crate) fn role_changes(&mut self, id: NodeId, role: Role) {
        if role != Role::Follower {
            self.boundary(Boundary::Election, id);
        }
    }

    /// Handles a command that is sent to a member.
    pub(crate) fn boundary_of_command(&mut self, command: &AdminCommand, to: NodeId) {
        match command {
            AdminCommand::AddNode { .. }
            | AdminCommand::RemoveNode { .. }
            | AdminCommand::SetVote { .. }
            | AdminCommand::ReplaceNode { .. }
            | AdminCommand::Join { .. } => self.boundary(Boundary::ConfChange, self.leader().unwrap_or(to)),
            AdminCommand::Checkpoint => self.boundary(Boundary::Checkpoint, to),
            _ => {}
        }
    }

    /// Handles the response to an update whose session may have replaced the oldest one in the table of repeats.
    pub(crate) fn boundary_of_response(&mut self, id: NodeId) {
        if self.count.acknowledged > self.setup.session_count_max as u64 {
            self.boundary(Boundary::Eviction, id);
        }
    }

    /// Causes the planned fault, if the member still exists.
    pub(crate) fn inject_fault_now(&mut self, kind: FaultKind, id: NodeId) {
        if !self.has_faults || self.machines[&id].is_gone {
            return;
        }
        match kind {
            FaultKind::PowerLoss | FaultKind::Kill | FaultKind::SyncError => self.die(id, kind, DOWN_US),
            kind => self.inject_fault(kind, id),
        }
    }
}
