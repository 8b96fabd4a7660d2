//! Executes the outputs of members, and checks invariants after each step.

use crate::event::Event;
use crate::invariants::{Checked, votes_are_on_disk};
use crate::machine::Machine;
use crate::simulation::Simulation;
use crate::swarm::Boundary;
use replica::disk::DiskQueue;
use replica::io::{Channel, FatalReason, NodeId, Output, ReadIndexError, Role, Serving};
use replica::log::Log;
use replica::testing::forge::grants_vote;

/// Maximum time until a machine is idle. It exceeds the time that a replica waits.
const IDLE_US_MAX: u64 = 80_000;

impl Simulation {
    pub(crate) fn carry_out(&mut self, id: NodeId, output: Output) -> Checked {
        let now_us = self.events.now_us();
        match output {
            Output::Send { to, channel, frame } => return self.send(id, to, channel, frame),
            Output::Disk(job) => {
                self.trace.note(now_us, id, "write", &[job.queue as u64, job.ticket], &[]);
                let is_bulk = job.queue == DiskQueue::Bulk;
                self.machine(id).disk.submit(job);
                if is_bulk {
                    self.boundary(Boundary::Checkpoint, id);
                }
                self.drive_disk(id);
            }
            Output::ReadFile(read) => {
                self.trace.note(now_us, id, "wants", &[read.ticket], read.file.as_bytes());
                let pending = self.machine(id).disk.read_later(now_us, read);
                self.events.at(pending.at_us, Event::Disk { id, pending });
            }
            Output::AwaitIdle => self.schedule_idle(id),
            Output::UpdateDone { request_id, verdict } => self.update_done(id, request_id, verdict)?,
            Output::AdminDone { request_id, result } => self.command_done(id, request_id, result),
            Output::ReadIndexDone { request_id, result } => self.read_done(id, request_id, result)?,
            Output::RoleChanged { role, term, leader } => {
                self.trace.note(now_us, id, "role", &[role as u64, term, leader.unwrap_or(0)], &[]);
                if role == Role::Leader {
                    self.leads(id, term)?;
                }
                self.role_changes(id, role);
            }
            Output::KeysChanged { .. } => {
                let machine = self.machine(id);
                machine.keys = machine.replica.as_ref().map(|replica| replica.key_table()).unwrap_or_default();
            }
            Output::ServingChanged { serving } => self.serving_changed(id, serving)?,
            Output::Removed { is_out } => self.removed(id, is_out)?,
            Output::PeersChanged { .. } => {
                self.links_of_removed(id);
                self.boundary(Boundary::ConfChange, id);
            }
            Output::Stopped => self.ends_itself(id, "stopped"),
            Output::Fatal { reason } => self.cannot_go_on(id, reason)?,
            Output::LossUnresolved { unreported_voters } => self.loss_unresolved(id, &unreported_voters),
            Output::LossResolved => self.machine(id).suspected_loss = None,
            Output::ZonesReplaced => {
                self.count.checkpoints_installed += 1;
                self.boundary(Boundary::Checkpoint, id);
            }
            Output::LeaseChanged { .. } => self.boundary(Boundary::LeaseEnd, id),
            Output::Published { .. }
            | Output::AllLiveIndex { .. }
            | Output::PoliciesChanged
            | Output::TrustChanged
            | Output::Audited { .. }
            | Output::AuditGap { .. }
            | Output::ZonesChanged { .. } => {}
        }
        Ok(())
    }

    fn send(&mut self, id: NodeId, to: NodeId, channel: Channel, frame: Vec<u8>) -> Checked {
        let now_us = self.events.now_us();
        self.trace.note(now_us, id, "send", &[to, channel as u64], &frame);
        self.check_vote(id, &frame)?;
        let is_vote = self.setup.swarm.target == Some(Boundary::Vote) && grants_vote(&frame);
        // A channel that is down drops its frames.
        if self.is_linked(id, to) {
            for delivery in self.network.send(now_us, id, to, channel, frame) {
                self.events.at(delivery.at_us, Event::Frame(delivery));
            }
        }
        if is_vote {
            self.votes(id);
        }
        Ok(())
    }

    fn serving_changed(&mut self, id: NodeId, serving: Serving) -> Checked {
        self.trace.note(self.events.now_us(), id, "serving", &[serving as u64], &[]);
        let machine = &self.machines[&id];
        let is_fatal = machine.replica.as_ref().is_none_or(|it| it.brief_status().fatal.is_some());
        let gives_up = is_fatal || self.membership.may_leave(id);
        let checked = self.invariants.serving.on_serving((id, machine.boot), serving, gives_up);
        checked.map_err(|what| self.violation("reads_never_stop", what))?;
        if serving == Serving::No { Ok(()) } else { self.check_closely(id) }
    }

    fn cannot_go_on(&mut self, id: NodeId, reason: FatalReason) -> Checked {
        match reason {
            FatalReason::DiskHung => self.ends_itself(id, "disk hung"),
            FatalReason::LogLost(contradicted) | FatalReason::LogDiverged(contradicted) => {
                return self.contradicted(id, contradicted.loss);
            }
            FatalReason::Damaged if self.is_damage_of(id) => self.ends_itself(id, "damaged"),
            reason => return Err(self.violation("members_stay_sound", format!("{id} stopped: {reason:?}"))),
        }
        Ok(())
    }

    /// The operator forgets the suspected loss if every voter that could resolve it has died for good.
    fn loss_unresolved(&mut self, id: NodeId, unreported_voters: &[NodeId]) {
        if !unreported_voters.is_empty() && unreported_voters.iter().all(|of| self.machines[of].is_gone) {
            self.machine(id).suspected_loss = None;
            self.ends_itself(id, "loss forgotten");
        }
    }

    /// Schedules the time at which the machine is idle: immediately, later, or too late.
    fn schedule_idle(&mut self, id: NodeId) {
        let in_us = self.rng.below(IDLE_US_MAX);
        let boot = self.machines[&id].boot;
        self.events.after(in_us, Event::Idle { id, boot });
    }

    fn read_done(&mut self, id: NodeId, request_id: u64, result: Result<u64, ReadIndexError>) -> Checked {
        let invariant = "reads_see_what_was_acknowledged";
        let Some((_, floor)) = self.reads.remove(&request_id) else {
            return Err(self.violation(invariant, "one read, two answers".into()));
        };
        let Ok(index) = result else { return Ok(()) };
        self.count.reads_done += 1;
        self.invariants.reads.on_read(id, index, floor).map_err(|what| self.violation(invariant, what))
    }

    fn leads(&mut self, id: NodeId, term: u64) -> Checked {
        let is_new = self.invariants.elections.on_leader(id, term);
        let is_new = is_new.map_err(|what| self.violation("election_safety", what))?;
        self.count.leader_changes += u64::from(is_new && self.invariants.elections.count() > 1);
        Ok(())
    }

    /// A process exits by itself, and is started again.
    pub(crate) fn ends_itself(&mut self, id: NodeId, why: &str) {
        self.trace.note(self.events.now_us(), id, why, &[], &[]);
        self.kill(id);
        let down_us = self.faults_rng.between(10_000, 500_000);
        self.events.after(down_us, Event::Restart(id));
    }

    /// Checks a member after a step: everything that must hold at each index.
    pub(crate) fn look(&mut self, id: NodeId) -> Checked {
        let machine = &self.machines[&id];
        let Some(replica) = &machine.replica else { return Ok(()) };
        let (index, hash) = replica.state_hash();
        if index == machine.looked_at {
            return Ok(());
        }
        self.applied_max = self.applied_max.max(index);
        let now_us = self.events.now_us();
        self.trace.note(now_us, id, "applied", &[index, hash as u64, (hash >> 64) as u64], &[]);
        let Self { invariants, machines, oracle, .. } = self;
        let replica = machines[&id].replica.as_ref().expect("it was there above");
        let published = replica.zones().published();
        let checked = (|| {
            invariants.states.on_applied(id, index, hash).map_err(|what| ("replicas_hold_equal_state", what))?;
            if replica.serving() != Serving::No {
                let is_behind = replica.serves_behind();
                let checked = invariants.serials.on_served(id, is_behind, &published);
                checked.map_err(|what| ("serials_never_go_back", what))?;
            }
            invariants.traces.on_applied(id, oracle, &published).map_err(|what| ("refused_leaves_no_trace", what))
        })();
        checked.map_err(|(invariant, what)| self.violation(invariant, what))?;
        self.machine(id).looked_at = index;
        self.check_damaged(id);
        if index.is_multiple_of(COMPARED) {
            self.compare(id)?;
        }
        if index.is_multiple_of(VIOLATION_CHECK_INTERVAL) {
            self.check_violations(id)?;
        }
        if self.invariants.durable.is_due() {
            self.check_disks(index)?;
        }
        Ok(())
    }

    /// Compares a member with the model of the zones.
    fn compare(&self, id: NodeId) -> Checked {
        let Some(replica) = &self.machines[&id].replica else { return Ok(()) };
        let compared = self.oracle.compare(id, &replica.zones().published());
        compared.map_err(|what| self.violation("members_hold_what_the_model_holds", what))
    }

    /// Checks the data that a member shows to clients when it starts to answer, and at the end.
    pub(crate) fn check_closely(&mut self, id: NodeId) -> Checked {
        let Self { invariants, machines, oracle, .. } = self;
        let Some(replica) = &machines[&id].replica else { return Ok(()) };
        let published = replica.zones().published();
        let applied = replica.state_hash().0;
        let checked = (|| {
            let checked = invariants.serials.on_served(id, replica.serves_behind(), &published);
            checked.map_err(|what| ("serials_never_go_back", what))?;
            let survive = &mut invariants.acknowledged;
            let result = survive.on_serving(id, oracle, &published, applied);
            result.map_err(|what| ("acknowledged_updates_survive", what))
        })();
        checked.map_err(|(invariant, what)| self.violation(invariant, what))
    }

    /// Checks that a member counted no invariant violation.
    pub(crate) fn check_violations(&mut self, id: NodeId) -> Checked {
        let Some(replica) = &self.machines[&id].replica else { return Ok(()) };
        let status = replica.brief_status();
        let checked = self.invariants.states.on_violations(id, status.invariant_violations, status.is_fenced);
        checked.map_err(|what| self.violation("replicas_hold_equal_state", what))
    }

    /// Checks that a vote that a member sends is on its disk.
    fn check_vote(&self, id: NodeId, frame: &[u8]) -> Checked {
        let Some(vote) = replica::testing::vote_of(frame) else { return Ok(()) };
        let checked = votes_are_on_disk::on_vote(id, vote, &self.machines[&id].disk, &self.setup.log);
        checked.map_err(|what| self.violation("votes_are_on_disk", what))
    }

    /// Checks that a majority has the applied entries even if all members lose power now. Applied entries are
    /// committed.
    pub(crate) fn check_disks(&mut self, index: u64) -> Checked {
        let readable = |machine: &&Machine| {
            !self.is_damage_of(machine.id) || Log::open(&machine.disk, self.setup.log.clone()).is_ok()
        };
        let disks: Vec<_> =
            self.machines.values().filter(readable).map(|machine| (machine.id, &machine.disk)).collect();
        let replicas = self.machines.values().filter_map(|machine| machine.replica.as_ref());
        let known = replicas.map(replica::Replica::voters).collect();
        let unreadable = self.machines.keys().copied().filter(|id| disks.iter().all(|(of, _)| of != id)).collect();
        let checked = self.invariants.durable.on_applied(index, &self.setup.log, &disks, known, &unreadable);
        checked.map_err(|what| self.violation("durable_before_acknowledged", what))
    }
}

/// Members are compared with the model at every multiple of this index.
const COMPARED: u64 = 307;
/// Invariant violations are checked each time this many entries have been applied.
const VIOLATION_CHECK_INTERVAL: u64 = 16;
