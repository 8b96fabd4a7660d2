//! Faults and their ends.

use crate::event::{Event, Fault};
use crate::invariants::Checked;
use crate::network::NetworkConfig;
use crate::simulation::Simulation;
use crate::swarm::FaultKind;
use replica::io::{Input, NodeId};

/// How long a member is down.
pub(crate) const DOWN_US: (u64, u64) = (20_000, 2_500_000);
/// How long a member is away if it must need a checkpoint afterwards.
const LONG_US: (u64, u64) = (3_000_000, 7_000_000);
/// How long the network is cut.
const CUT_US: (u64, u64) = (50_000, 3_000_000);
/// How long a disk hangs. After ten seconds the process would exit.
const HANG_US: (u64, u64) = (50_000, 2_000_000);
const HANG_LONG_US: u64 = 12_000_000;
/// How long a disk is full.
const FULL_US: (u64, u64) = (200_000, 8_000_000);
/// Share of these faults that fill all disks at once, in parts of a million.
const FULL_ALL_PPM: u64 = 250_000;
/// How long a process is paused.
const PAUSE_US: (u64, u64) = (20_000, 2_000_000);
/// Largest jump of a wall clock. Requests are refused beyond 300 s.
const WALL_JUMP_MS: u64 = 400_000;
/// The size of one in four jumps: several hours, like a wrong time zone.
const WALL_JUMP_FAR_MS: u64 = 4 * 3_600_000;
/// The largest error of a wall clock, in years. A clock that starts in 1970 is far behind.
const YEARS_AHEAD_MAX: u64 = 30;
const YEARS_BEHIND_MAX: u64 = 56;
const YEAR_MS: u64 = 365 * 86_400_000;
/// Share of faults before which a snapshot of the disk is taken, in parts of a million.
const SNAPSHOT_PPM: u64 = 400_000;
/// Maximum number of reads that fail in a row.
const READ_ERRORS_MAX: u64 = 3;
/// How long the simulator waits for a write in which the member dies.
const DOOM_US: u64 = 300_000;

impl Simulation {
    /// Causes the next fault.
    pub(crate) fn fault(&mut self) -> Checked {
        if !self.has_faults {
            return Ok(());
        }
        let id = self.any();
        let other = self.any();
        if self.faults_rng.happens(SNAPSHOT_PPM) {
            self.take_snapshot(other);
        }
        if let Some(kind) = self.setup.swarm.pick_fault(&mut self.faults_rng) {
            self.inject_fault(kind, id);
        }
        let (low, high) = self.setup.fault_pause_us;
        let in_us = self.faults_rng.between(low, high);
        self.events.after(in_us, Event::Fault);
        Ok(())
    }

    /// Causes a fault. A fault of a single member hits this one.
    pub(crate) fn inject_fault(&mut self, kind: FaultKind, id: NodeId) {
        self.trace.note(self.events.now_us(), id, "fault", &[kind as u64], &[]);
        match kind {
            FaultKind::CrashInWrite => self.doom_leader(),
            FaultKind::PowerLoss => self.die(id, kind, DOWN_US),
            FaultKind::Kill | FaultKind::SyncError | FaultKind::ReadError => self.die(id, kind, DOWN_US),
            FaultKind::LongAbsence => self.die(id, kind, LONG_US),
            FaultKind::PowerLossAll => self.ids().into_iter().for_each(|id| self.die(id, kind, DOWN_US)),
            FaultKind::Partition => self.cut(),
            FaultKind::LinkBreak => {
                let other = self.any();
                if other != id {
                    self.links_break(id, other);
                    self.begins(kind, 0);
                }
            }
            FaultKind::DiskHang => self.hang(id),
            FaultKind::DiskFull => self.fill(id),
            FaultKind::Pause | FaultKind::ClockStop => self.pause(id, kind == FaultKind::ClockStop),
            FaultKind::WallJump => self.jump_wall(id),
            FaultKind::WallYears => self.lose_years(id),
            FaultKind::Stop => self.ask_to_stop(id),
            FaultKind::BitFlip
            | FaultKind::ZeroedSector
            | FaultKind::MisdirectedSector
            | FaultKind::LostSector
            | FaultKind::RolledBack => self.damage_later(id, kind),
        }
    }

    /// Records a fault that begins now and lasts this long.
    pub(crate) fn begins(&mut self, kind: FaultKind, lasts_us: u64) {
        self.watch.on_fault(self.events.now_us(), kind, lasts_us);
    }

    fn ask_to_stop(&mut self, id: NodeId) {
        if self.machines[&id].replica.is_some() && !self.machines[&id].is_stopping {
            self.machine(id).is_stopping = true;
            self.deliver(id, Input::Stop);
            self.begins(FaultKind::Stop, 0);
        }
    }

    fn any(&mut self) -> NodeId {
        let ids = self.ids();
        ids[self.faults_rng.below(ids.len() as u64) as usize]
    }

    /// Ends a fault.
    pub(crate) fn end_fault(&mut self, fault: Fault) -> Checked {
        match fault {
            Fault::Cut => self.heal(),
            Fault::Pause { id, boot } => {
                if self.machines[&id].is_alive(boot) {
                    self.resume(id);
                }
            }
            Fault::WallJump { id, by_ms } => self.machine(id).clock.jump_wall(-by_ms),
            Fault::Doom { id } => self.machine(id).is_doomed = false,
        }
        Ok(())
    }

    /// The leader dies in the middle of the next write.
    pub(crate) fn doom_leader(&mut self) {
        let any = self.any();
        let id = self.leader().unwrap_or(any);
        self.machine(id).is_doomed = true;
        self.events.after(DOOM_US, Event::FaultEnds(Fault::Doom { id }));
    }

    /// Kills a process as the fault requires. It starts again after a while.
    pub(crate) fn die(&mut self, id: NodeId, kind: FaultKind, (low, high): (u64, u64)) {
        if self.machines[&id].replica.is_none() {
            return;
        }
        let down_us = self.faults_rng.between(low, high);
        match kind {
            FaultKind::Kill => self.kill(id),
            FaultKind::SyncError => {
                self.machine(id).disk.fail_syncs();
                self.kill(id);
            }
            FaultKind::ReadError => {
                let count = self.faults_rng.between(1, READ_ERRORS_MAX) as u32;
                self.kill(id);
                self.machine(id).disk.fail_reads(count);
            }
            _ => self.lose_power(id),
        }
        self.begins(kind, down_us);
        self.events.after(down_us, Event::Restart(id));
    }

    fn cut(&mut self) {
        let ids = self.ids();
        self.network.cut_drawn(&ids);
        self.links_time_out();
        self.count.partitions += 1;
        let is_long = self.faults_rng.happens(150_000);
        let (low, high) = if is_long { LONG_US } else { CUT_US };
        let cut_us = self.faults_rng.between(low, high);
        self.begins(FaultKind::Partition, cut_us);
        self.events.after(cut_us, Event::FaultEnds(Fault::Cut));
    }

    fn heal(&mut self) {
        self.trace.note(self.events.now_us(), 0, "heal", &[], &[]);
        for delivery in self.network.heal(self.events.now_us()) {
            self.events.at(delivery.at_us, Event::Frame(delivery));
        }
    }

    fn hang(&mut self, id: NodeId) {
        if self.machines[&id].replica.is_none() {
            return;
        }
        let is_long = self.faults_rng.happens(100_000);
        let hang_us = if is_long { HANG_LONG_US } else { self.faults_rng.between(HANG_US.0, HANG_US.1) };
        let now_us = self.events.now_us();
        self.machine(id).disk.hang(now_us, hang_us);
        self.begins(FaultKind::DiskHang, hang_us);
    }

    /// Fills one disk, or all disks, for a while.
    fn fill(&mut self, id: NodeId) {
        let is_all = self.faults_rng.happens(FULL_ALL_PPM);
        let full_us = self.faults_rng.between(FULL_US.0, FULL_US.1);
        let now_us = self.events.now_us();
        for id in if is_all { self.ids() } else { vec![id] } {
            self.machine(id).disk.fill(now_us, full_us);
        }
        self.begins(FaultKind::DiskFull, full_us);
    }

    fn pause(&mut self, id: NodeId, stops_clock: bool) {
        let now_us = self.events.now_us();
        let machine = self.machine(id);
        if machine.replica.is_none() || machine.is_paused {
            return;
        }
        machine.is_paused = true;
        if stops_clock {
            machine.clock.stop(now_us);
        }
        let boot = machine.boot;
        let pause_us = self.faults_rng.between(PAUSE_US.0, PAUSE_US.1);
        self.begins(if stops_clock { FaultKind::ClockStop } else { FaultKind::Pause }, pause_us);
        self.events.after(pause_us, Event::FaultEnds(Fault::Pause { id, boot }));
    }

    /// Frames that arrived during the pause are handled before at most one tick.
    fn resume(&mut self, id: NodeId) {
        let now_us = self.events.now_us();
        let machine = self.machine(id);
        if !machine.is_paused {
            return;
        }
        machine.is_paused = false;
        machine.clock.go_on(now_us);
        for input in std::mem::take(&mut machine.inbox) {
            self.deliver(id, input);
        }
        self.deliver(id, Input::Tick);
    }

    fn jump_wall(&mut self, id: NodeId) {
        let most_ms = if self.faults_rng.below(4) == 0 { WALL_JUMP_FAR_MS } else { WALL_JUMP_MS };
        let by_ms = self.faults_rng.below(2 * most_ms) as i64 - most_ms as i64;
        self.set_wall_wrong(id, FaultKind::WallJump, by_ms);
    }

    fn lose_years(&mut self, id: NodeId) {
        let is_ahead = self.faults_rng.happens(500_000);
        let most = if is_ahead { YEARS_AHEAD_MAX } else { YEARS_BEHIND_MAX };
        let by_ms = (YEAR_MS + self.faults_rng.below((most - 1) * YEAR_MS)) as i64;
        self.set_wall_wrong(id, FaultKind::WallYears, if is_ahead { by_ms } else { -by_ms });
    }

    fn set_wall_wrong(&mut self, id: NodeId, kind: FaultKind, by_ms: i64) {
        self.machine(id).clock.jump_wall(by_ms);
        let wrong_us = self.faults_rng.between(LONG_US.0, LONG_US.1);
        self.begins(kind, wrong_us);
        self.events.after(wrong_us, Event::FaultEnds(Fault::WallJump { id, by_ms }));
    }

    /// The machine loses power: unsynced data may be lost, and peers get no notification.
    pub(crate) fn lose_power(&mut self, id: NodeId) {
        if self.machines[&id].replica.is_none() {
            return;
        }
        let machine = self.machine(id);
        let lost_before = machine.disk.lost_crashes();
        machine.disk.crash();
        machine.has_power = false;
        let lost = machine.disk.lost_crashes() - lost_before;
        self.count.crashes_with_loss += lost;
        self.trace.note(self.events.now_us(), id, "power", &[lost], &[]);
        self.process_gone(id);
    }

    /// Kills the process. Its written data remains.
    pub(crate) fn kill(&mut self, id: NodeId) {
        if self.machines[&id].replica.is_none() {
            return;
        }
        self.machine(id).disk.kill();
        self.trace.note(self.events.now_us(), id, "kill", &[], &[]);
        self.process_gone(id);
    }

    fn process_gone(&mut self, id: NodeId) {
        self.count.crashes += 1;
        let now_us = self.events.now_us();
        self.machine(id).clock.go_on(now_us);
        self.machine(id).end();
        self.clients.forget_member(id);
        self.administrator_forgets(id);
        self.reads.retain(|_, (reader, _)| *reader != id);
        let has_power = self.machines[&id].has_power;
        self.links_of_dead(id, has_power);
    }

    /// Ends all faults: all members run, and the network has no cuts. Processes with hung disks are killed.
    pub(crate) fn end_faults(&mut self) -> Checked {
        self.has_faults = false;
        self.heal();
        self.network.configure(NetworkConfig { loss_ppm: 0, ..self.setup.network.clone() });
        let now_us = self.events.now_us();
        for id in self.ids() {
            self.machine(id).is_doomed = false;
            self.machine(id).disk.fail_reads(0);
            self.machine(id).disk.make_room();
            self.resume(id);
            if self.machines[&id].disk.hangs(now_us) {
                self.kill(id);
            }
            self.start(id)?;
        }
        Ok(())
    }
}
