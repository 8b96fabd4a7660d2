//! Disks that lose or change data, and the operator's reaction.
//!
//! A disk is damaged while its process is not running, so that the next start finds the damage. At most one member is
//! damaged at a time, and only while the other voters are a majority. Catamaran's promise assumes a majority of intact
//! disks.
//!
//! The member itself finds most damage. Some damage leaves no trace: a rolled-back disk, or a lost last record without
//! its seal (docs/internals/consensus-rules.md, "A torn last record"). The promise covers such damage only if every
//! other voter still has everything that this member lost. Otherwise the simulator undoes the damage.

use crate::event::Event;
use crate::faults::DOWN_US;
use crate::invariants::Checked;
use crate::machine::Damaged;
use crate::simulation::Simulation;
use crate::swarm::FaultKind;
use replica::OpenError;
use replica::disk::DiskRead;
use replica::io::{AdminCommand, Input, NodeId, Role, SuspectedLoss};
use replica::log::limits::SECTOR_BYTES;
use replica::log::{Log, Repair, TornRecord};
use replica::testing::MemoryDisk;
use std::collections::BTreeSet;

/// Share of the damage that hits the end of a log, where the newest entries are, in parts of a million.
const TAIL_PPM: u64 = 400_000;

/// The end of a log, with the votes and entries that the member has acknowledged.
struct Acknowledged {
    last: (u64, u64),
    term: u64,
    vote: u64,
}

impl Acknowledged {
    fn of(log: &Log) -> Option<Self> {
        let last = log.last_index();
        let hard = log.hard_state();
        Some(Self { last: (log.term(last).ok()?, last), term: hard.term, vote: hard.vote })
    }

    /// Whether the damage is undetected: the member opens this log and does not know that entries are missing.
    fn is_lost_silently(&self, after: &Log, repairs: &[Repair]) -> bool {
        let torn = repairs.iter().find_map(|repair| match repair {
            Repair::TailCut { record, .. } => Some(*record),
            Repair::VoteCopy => None,
        });
        let is_known = match torn {
            Some(TornRecord::Unknown) => true,
            Some(TornRecord::Entries { last }) => last.index >= self.last.1,
            Some(TornRecord::Empty) | None => false,
        };
        let hard = after.hard_state();
        let keeps_vote =
            hard.term > self.term || (hard.term == self.term && (self.vote == 0 || hard.vote == self.vote));
        !keeps_vote || (after.last_index() < self.last.1 && !is_known)
    }
}

impl Simulation {
    /// Kills a member. Its disk is damaged before it starts again.
    pub(crate) fn damage_later(&mut self, id: NodeId, kind: FaultKind) {
        if !self.may_damage(id) || self.machines[&id].damage.is_some() {
            return;
        }
        self.machine(id).damage = Some(kind);
        let dies_by = if self.faults_rng.happens(500_000) { FaultKind::PowerLoss } else { FaultKind::Kill };
        self.die(id, dies_by, DOWN_US);
    }

    /// Whether the promise allows damage to this disk now.
    fn may_damage(&self, id: NodeId) -> bool {
        let is_intact = self.damaged.is_none() && !self.membership.has_dead();
        is_intact && !self.machines[&id].is_gone && !self.administrator.takes_vote() && self.can_spare_one()
    }

    /// Damages a disk before its process starts.
    pub(crate) fn damage_now(&mut self, id: NodeId) {
        let Some(kind) = self.machine(id).damage.take() else { return };
        let config = self.setup.log.clone();
        if !self.has_faults || !self.may_damage(id) {
            return;
        }
        let Ok((log, _)) = Log::open(&self.machines[&id].disk, config.clone()) else { return };
        let Some(acknowledged) = Acknowledged::of(&log) else { return };
        let (before, loss) = (self.machine(id).disk.contents().clone(), self.machines[&id].suspected_loss);
        if !self.apply_damage(id, kind) {
            return;
        }
        let opened = Log::open(&self.machines[&id].disk, config);
        let is_silent = match &opened {
            Ok((after, repairs)) => acknowledged.is_lost_silently(after, repairs),
            Err(_) => false,
        };
        if is_silent && !self.others_hold(id, &acknowledged) {
            *self.machine(id).disk.contents_mut() = before;
            self.machine(id).suspected_loss = loss;
            return;
        }
        let is_found = opened.is_err();
        let end = opened.as_ref().map(|(log, repairs)| (log.last_index(), log.hard_state().clone(), repairs));
        self.trace.say(self.events.now_us(), || {
            let Acknowledged { last, term, vote } = acknowledged;
            format!("{id} promised {last:?}, term {term}, vote {vote}; {kind:?} leaves {end:?}")
        });
        self.trace.note(self.events.now_us(), id, "damage", &[kind as u64, is_silent.into(), is_found.into()], &[]);
        self.begins(kind, 0);
        self.count.disks_damaged += 1;
        self.damaged = Some(Damaged { id, floor: self.applied_max });
        if kind == FaultKind::RolledBack || is_silent {
            // The member does not know which serials it served.
            self.invariants.serials.forget(id);
        }
    }

    /// Returns whether anything changed.
    fn apply_damage(&mut self, id: NodeId, kind: FaultKind) -> bool {
        if kind == FaultKind::RolledBack {
            let machine = self.machine(id);
            machine.suspected_loss = machine.snapshot_loss;
            let is_possible = machine.disk.snapshot().is_some();
            machine.disk.roll_back();
            return is_possible;
        }
        let Self { machines, faults_rng: rng, .. } = self;
        let disk = machines.get_mut(&id).expect("it was looked at").disk.contents_mut();
        let used = |disk: &MemoryDisk, file: &str| {
            let bytes = disk.bytes(file).unwrap_or_default();
            bytes
                .iter()
                .rposition(|byte| *byte != 0)
                .map_or(0, |last| (last + 1).div_ceil(SECTOR_BYTES).min(bytes.len() / SECTOR_BYTES))
        };
        let files = disk.list().unwrap_or_default().into_iter().map(|(file, _)| file);
        let files: Vec<_> = files.map(|file| (used(disk, &file), file)).filter(|(sectors, _)| *sectors > 0).collect();
        let Some((sectors, file)) = rng.pick(&files) else { return false };
        let is_tail = rng.happens(TAIL_PPM);
        let sector = if is_tail { *sectors as u64 - 1 } else { rng.below(*sectors as u64) } as usize;
        let bytes = disk.bytes(file).unwrap_or_default();
        let old = bytes[sector * SECTOR_BYTES..][..SECTOR_BYTES].to_vec();
        let (at, new) = match kind {
            FaultKind::BitFlip => {
                disk.flip(file, (sector * SECTOR_BYTES) * 8 + rng.below(SECTOR_BYTES as u64 * 8) as usize);
                return true;
            }
            FaultKind::ZeroedSector => (sector, vec![0; SECTOR_BYTES]),
            FaultKind::MisdirectedSector => (rng.below(*sectors as u64) as usize, old),
            _ => match rng.pick(&disk.replaced_sectors(file)) {
                Some((offset, before)) => (offset / SECTOR_BYTES, before.clone()),
                None => return false,
            },
        };
        let is_changed = disk.bytes(file).is_some_and(|bytes| bytes[at * SECTOR_BYTES..][..SECTOR_BYTES] != new);
        disk.put_sector(file, at * SECTOR_BYTES, &new);
        is_changed
    }

    /// Whether every other voter has durably stored the entries that this member acknowledged, and a term in which this
    /// member's votes no longer count. Then nothing depends on this member's disk.
    fn others_hold(&self, id: NodeId, acknowledged: &Acknowledged) -> bool {
        let replicas = || self.machines.values().filter_map(|machine| machine.replica.as_ref());
        let voters: BTreeSet<_> = replicas().flat_map(|replica| replica.voters().concat()).collect();
        let holds = |voter: &NodeId| {
            let Some(machine) = self.machines.get(voter) else { return false };
            let Ok((log, _)) = Log::open(&machine.disk.without_unsynced(), self.setup.log.clone()) else {
                return false;
            };
            let (term, index) = acknowledged.last;
            let is_campaigning = machine.replica.as_ref().is_some_and(|replica| {
                let status = replica.brief_status();
                status.role == Role::Candidate && status.term <= acknowledged.term
            });
            let has_entry = log.first_index() > index || log.term(index).is_ok_and(|of| of == term);
            has_entry && log.last_index() >= index && log.hard_state().term >= acknowledged.term && !is_campaigning
        };
        voters.len() > 1 && voters.iter().filter(|voter| **voter != id).all(holds)
    }

    /// Takes a snapshot of a disk, for a later rollback.
    pub(crate) fn take_snapshot(&mut self, id: NodeId) {
        if self.setup.swarm.has_fault(FaultKind::RolledBack) {
            let machine = self.machine(id);
            machine.disk.take_snapshot();
            machine.snapshot_loss = machine.suspected_loss;
        }
    }

    /// Handles a member that does not open. After a disk error, the operator starts it again. A damaged member is
    /// removed, and another member gets its vote.
    pub(crate) fn does_not_open(&mut self, id: NodeId, error: &OpenError) -> Checked {
        let is_read_error = format!("{error:?}").contains("os error 5");
        if is_read_error {
            self.trace.note(self.events.now_us(), id, "read error", &[], &[]);
            let in_us = self.faults_rng.between(DOWN_US.0, DOWN_US.1);
            self.events.after(in_us, Event::Restart(id));
            return Ok(());
        }
        if self.damaged.is_none_or(|damaged| damaged.id != id) {
            return Err(self.violation("members_stay_sound", format!("{id} does not open: {error}")));
        }
        self.trace.note(self.events.now_us(), id, "quarantine", &[], &[]);
        self.trace.say(self.events.now_us(), || format!("{id} does not open: {error}"));
        self.machine(id).is_gone = true;
        self.count.quarantined += 1;
        self.membership.note_dead(id);
        Ok(())
    }

    /// Handles a leader's report that a member lost entries. This is correct only for a damaged member.
    pub(crate) fn contradicted(&mut self, id: NodeId, loss: SuspectedLoss) -> Checked {
        if self.damaged.is_none_or(|damaged| damaged.id != id) {
            return Err(self.violation("members_stay_sound", format!("{id} lacks what it acknowledged: {loss:?}")));
        }
        let was_suspected = self.machines[&id].suspected_loss.is_some();
        self.machine(id).suspected_loss = Some(loss);
        if was_suspected && let Some(leader) = self.leader() {
            // The operator follows the advice in the log: another leader sends the member the missing entries.
            self.requests += 1;
            let command = AdminCommand::TransferLeader { to: None };
            self.deliver(leader, Input::Admin { request_id: self.requests, command });
        }
        self.ends_itself(id, "contradicted");
        Ok(())
    }

    /// A damaged member has recovered once it has applied everything again and suspects no loss.
    pub(crate) fn check_damaged(&mut self, id: NodeId) {
        let Some(damaged) = self.damaged.filter(|damaged| damaged.id == id) else { return };
        let machine = &self.machines[&id];
        let is_up =
            |replica: &replica::Replica| replica.state_hash().0 >= damaged.floor && replica.suspected_loss().is_none();
        if machine.suspected_loss.is_none() && machine.replica.as_ref().is_some_and(is_up) {
            self.damaged = None;
            self.count.damage_survived += 1;
        }
    }

    /// A removed member no longer counts as damaged.
    pub(crate) fn forget_damaged(&mut self, members: &[NodeId]) {
        self.damaged = self.damaged.filter(|damaged| members.contains(&damaged.id));
    }

    /// Whether a log that does not open is on a damaged disk.
    pub(crate) fn is_damage_of(&self, id: NodeId) -> bool {
        self.damaged.is_some_and(|damaged| damaged.id == id) || self.machines[&id].is_gone
    }
}
