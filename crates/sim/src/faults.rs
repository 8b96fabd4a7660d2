//! What goes wrong, and how it ends.

use crate::invariants::Checked;
use crate::network::NetworkConfig;
use crate::simulation::{Event, Simulation};
use replica::io::{AdminCommand, Input, NodeId};

/// Something that goes wrong for a while, and what must be known to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The network is cut.
    Cut,
    /// A process does not run.
    Pause { id: NodeId, boot: u64 },
    /// A wall clock is wrong by so much more.
    WallJump { id: NodeId, by_ms: i64 },
    /// The leader was to die in the middle of a write, and has not.
    Doom { id: NodeId },
}

/// How long a member is down.
const DOWN_US: (u64, u64) = (20_000, 2_500_000);
/// How long a member is away that shall need a checkpoint.
const LONG_US: (u64, u64) = (3_000_000, 7_000_000);
/// How long the network is cut.
const CUT_US: (u64, u64) = (50_000, 3_000_000);
/// How long a disk hangs; past ten seconds the process gives itself up.
const HANG_US: (u64, u64) = (50_000, 2_000_000);
const HANG_LONG_US: u64 = 12_000_000;
/// How long a process is paused.
const PAUSE_US: (u64, u64) = (20_000, 2_000_000);
/// By how much a wall clock jumps: requests are refused beyond 300 s.
const WALL_JUMP_MS: u64 = 400_000;
/// The size of one in four jumps: several hours, like a wrong time zone.
const WALL_JUMP_FAR_MS: u64 = 4 * 3_600_000;
/// How long a member waits for the write that it dies in.
const DOOM_US: u64 = 300_000;

impl Simulation {
    /// The next thing goes wrong.
    pub(crate) fn fault(&mut self) -> Checked {
        if !self.has_faults {
            return Ok(());
        }
        let id = self.any();
        let draw = self.faults_rng.below(100);
        self.trace.note(self.events.now_us(), id, "fault", &[draw], &[]);
        match draw {
            0..20 => self.doom_leader(),
            20..30 => self.die(id, DOWN_US, true),
            30..38 => self.die(id, DOWN_US, false),
            38..42 => self.die(id, LONG_US, true),
            42..48 => self.die_all(),
            48..66 => self.cut(),
            66..74 => {
                let other = self.any();
                if other != id {
                    self.links_break(id, other);
                }
            }
            74..82 => self.hang(id),
            82..88 => self.pause(id),
            88..91 => self.jump_wall(id),
            91..95 => {
                if self.machines[&id].replica.is_some() && !self.machines[&id].is_stopping {
                    self.machine(id).is_stopping = true;
                    self.deliver(id, Input::Stop);
                }
            }
            _ => {
                if self.machines[&id].replica.is_some() {
                    self.requests += 1;
                    let command = AdminCommand::TransferLeader { to: None };
                    self.deliver(id, Input::Admin { request_id: self.requests, command });
                }
            }
        }
        let (low, high) = self.setup.fault_pause_us;
        let in_us = self.faults_rng.between(low, high);
        self.events.after(in_us, Event::Fault);
        Ok(())
    }

    fn any(&mut self) -> NodeId {
        let ids = self.ids();
        ids[self.faults_rng.below(ids.len() as u64) as usize]
    }

    /// Something that went wrong ends.
    pub(crate) fn mend(&mut self, fault: Fault) -> Checked {
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
        self.events.after(DOOM_US, Event::Mend(Fault::Doom { id }));
    }

    fn die(&mut self, id: NodeId, (low, high): (u64, u64), loses_power: bool) {
        if self.machines[&id].replica.is_none() {
            return;
        }
        if loses_power {
            self.lose_power(id);
        } else {
            self.kill(id);
        }
        let down_us = self.faults_rng.between(low, high);
        self.events.after(down_us, Event::Restart(id));
    }

    fn die_all(&mut self) {
        for id in self.ids() {
            self.die(id, DOWN_US, true);
        }
    }

    fn cut(&mut self) {
        let ids = self.ids();
        self.network.cut_drawn(&ids);
        self.links_time_out();
        self.count.partitions += 1;
        let is_long = self.faults_rng.happens(150_000);
        let (low, high) = if is_long { LONG_US } else { CUT_US };
        let cut_us = self.faults_rng.between(low, high);
        self.events.after(cut_us, Event::Mend(Fault::Cut));
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
    }

    fn pause(&mut self, id: NodeId) {
        let machine = self.machine(id);
        if machine.replica.is_none() || machine.is_paused {
            return;
        }
        machine.is_paused = true;
        let boot = machine.boot;
        let pause_us = self.faults_rng.between(PAUSE_US.0, PAUSE_US.1);
        self.events.after(pause_us, Event::Mend(Fault::Pause { id, boot }));
    }

    /// What came in meanwhile comes before at most one tick.
    fn resume(&mut self, id: NodeId) {
        let machine = self.machine(id);
        if !machine.is_paused {
            return;
        }
        machine.is_paused = false;
        for input in std::mem::take(&mut machine.inbox) {
            self.deliver(id, input);
        }
        self.deliver(id, Input::Tick);
    }

    fn jump_wall(&mut self, id: NodeId) {
        let most_ms = if self.faults_rng.below(4) == 0 { WALL_JUMP_FAR_MS } else { WALL_JUMP_MS };
        let by_ms = self.faults_rng.below(2 * most_ms) as i64 - most_ms as i64;
        self.machine(id).clock.jump_wall(by_ms);
        let wrong_us = self.faults_rng.between(LONG_US.0, LONG_US.1);
        self.events.after(wrong_us, Event::Mend(Fault::WallJump { id, by_ms }));
    }

    /// The machine loses its power: what was not synced may be lost, and nobody is told.
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

    /// The process dies; what it wrote stays.
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
        self.machine(id).end();
        self.clients.forget_member(id);
        self.administrator_forgets(id);
        self.reads.retain(|_, (reader, _)| *reader != id);
        let has_power = self.machines[&id].has_power;
        self.links_of_dead(id, has_power);
    }

    /// Nothing goes wrong any more, and what went wrong is over: all members run on a network that is whole. Disks
    /// that hang are given up with their processes.
    pub(crate) fn end_faults(&mut self) -> Checked {
        self.has_faults = false;
        self.heal();
        self.network.configure(NetworkConfig { loss_ppm: 0, ..self.setup.network.clone() });
        let now_us = self.events.now_us();
        for id in self.ids() {
            self.machine(id).is_doomed = false;
            self.resume(id);
            if self.machines[&id].disk.hangs(now_us) {
                self.kill(id);
            }
            self.start(id)?;
        }
        Ok(())
    }
}
