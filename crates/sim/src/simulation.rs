//! All members, and the loop over events.

use crate::administrator::Administrator;
use crate::attacker::Attacker;
use crate::clients::Clients;
use crate::clock::{Events, MachineClock};
use crate::coverage::CoverageTracker;
use crate::disk::{Finished, Pending, SimDisk};
use crate::event::Event;
use crate::invariants::{Checked, Invariants, Violation};
use crate::links::Links;
use crate::machine::{Damaged, Machine};
use crate::membership::Membership;
use crate::network::{Delivery, Network, NetworkConfig};
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::setup::{Setup, data_keys};
use crate::swarm::FaultKind;
use crate::trace::Trace;
use replica::io::{Channel, Input, NodeId, Role, TICK_MS};
use replica::peer::FEATURE_LEVEL;
use replica::{Replica, ReplicaConfig};
use std::collections::BTreeMap;

/// Event counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Updates whose client got the outcome.
    pub acknowledged: u64,
    /// Repeats among them.
    pub repeats_answered: u64,
    /// Updates that members refused by their own state, without the leader.
    pub refused_early: u64,
    /// Updates whose clients gave up without an outcome.
    pub unknown: u64,
    /// Commands of the administrator that were done.
    pub commands_done: u64,
    /// Reads that were confirmed.
    pub reads_done: u64,
    /// Changes of the leader.
    pub leader_changes: u64,
    /// Processes that died, with or without a loss of power.
    pub crashes: u64,
    /// Crashes that lost unsynced data.
    pub crashes_with_loss: u64,
    /// Partitions of the network.
    pub partitions: u64,
    /// Checkpoints of a leader that replaced a member's state.
    pub checkpoints_installed: u64,
    /// Updates of the key without grants that a policy granted.
    pub policy_granted: u64,
    /// Updates of that key that no policy granted.
    pub policy_refused: u64,
    /// Machines that joined.
    pub joined: u64,
    /// Members that learned of their removal.
    pub removed: u64,
    /// Machines that died for good.
    pub machines_dead: u64,
    /// Settings of members that were compared with their expected values.
    pub settings_compared: u64,
    /// Critical moments at which a fault hit a member.
    pub boundaries_struck: u64,
    /// Members that were upgraded to the newer build.
    pub upgrades: u64,
    /// Separate clusters made from a backup.
    pub restored: u64,
    /// Separate clusters made from the disk of one member.
    pub recovered: u64,
    /// Disks that were damaged.
    pub disks_damaged: u64,
    /// Members that recovered from a damaged disk.
    pub damage_survived: u64,
    /// Members that did not open with a damaged disk and were given up.
    pub quarantined: u64,
    /// Frames between members.
    pub frames: u64,
    /// Frames overtaken by a later one of the same channel.
    pub frames_reordered: u64,
    /// Repeated frames.
    pub frames_repeated: u64,
    /// Frames forged by the attacker.
    pub frames_forged: u64,
    /// Milliseconds from the end of the faults until each member accepted an update.
    pub recovery_ms: u64,
}

impl Count {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.repeats_answered += other.repeats_answered;
        self.refused_early += other.refused_early;
        self.unknown += other.unknown;
        self.commands_done += other.commands_done;
        self.reads_done += other.reads_done;
        self.leader_changes += other.leader_changes;
        self.crashes += other.crashes;
        self.crashes_with_loss += other.crashes_with_loss;
        self.partitions += other.partitions;
        self.checkpoints_installed += other.checkpoints_installed;
        self.policy_granted += other.policy_granted;
        self.policy_refused += other.policy_refused;
        self.joined += other.joined;
        self.removed += other.removed;
        self.machines_dead += other.machines_dead;
        self.settings_compared += other.settings_compared;
        self.boundaries_struck += other.boundaries_struck;
        self.upgrades += other.upgrades;
        self.restored += other.restored;
        self.recovered += other.recovered;
        self.disks_damaged += other.disks_damaged;
        self.damage_survived += other.damage_survived;
        self.quarantined += other.quarantined;
        self.frames += other.frames;
        self.frames_reordered += other.frames_reordered;
        self.frames_repeated += other.frames_repeated;
        self.frames_forged += other.frames_forged;
        self.recovery_ms += other.recovery_ms;
    }
}

/// A cluster, its clients, and the checks.
pub(crate) struct Simulation {
    pub(crate) setup: Setup,
    pub(crate) events: Events<Event>,
    pub(crate) machines: BTreeMap<NodeId, Machine>,
    pub(crate) network: Network<Channel>,
    pub(crate) links: Links,
    pub(crate) clients: Clients,
    pub(crate) administrator: Administrator,
    pub(crate) membership: Membership,
    pub(crate) attacker: Attacker,
    pub(crate) oracle: Oracle,
    pub(crate) invariants: Invariants,
    pub(crate) trace: Trace,
    pub(crate) count: Count,
    /// The faults and the command in progress.
    pub(crate) watch: CoverageTracker,
    /// The member with a damaged disk, until it recovers or is removed.
    pub(crate) damaged: Option<Damaged>,
    /// Faults at critical moments do not happen before this time.
    pub(crate) struck_until_us: u64,
    /// The result of the checks of clusters created from this one.
    pub(crate) second_cluster_result: Checked,
    /// The applied index when the cluster's preparation was complete.
    pub(crate) prepared_index: u64,
    /// Reads in progress: the index that each must reach, by request.
    pub(crate) reads: BTreeMap<u64, (NodeId, u64)>,
    /// Highest index that any member has applied.
    pub(crate) applied_max: u64,
    /// Whether faults happen.
    pub(crate) has_faults: bool,
    pub(crate) requests: u64,
    /// For the order of events.
    pub(crate) rng: Rng,
    /// For faults.
    pub(crate) faults_rng: Rng,
}

impl Simulation {
    /// Starts the founders with empty logs, on a network without cuts.
    pub(crate) fn new(setup: Setup, is_printed: bool) -> Result<Self, Violation> {
        let mut rng = Rng::new(setup.seed);
        let mut machines = BTreeMap::new();
        for id in setup.ids() {
            let disk = SimDisk::new(setup.disk.clone(), rng.fork("disk"));
            let clock = MachineClock::random(&mut rng.fork("clock"), setup.rate_error_ppm, setup.wall_error_ms);
            let mut machine = Machine::new(id, disk, clock);
            // Some members run the newer of two builds from the start.
            machine.level = if rng.happens(300_000) { FEATURE_LEVEL } else { setup.level };
            machines.insert(id, machine);
        }
        let mut simulation = Self {
            events: Events::default(),
            machines,
            network: Network::new(NetworkConfig::default(), rng.fork("network")),
            links: Links::default(),
            clients: Clients::new(&setup, rng.fork("clients")),
            administrator: Administrator::new(rng.fork("administrator")),
            membership: Membership::default(),
            attacker: Attacker::new(setup.seed),
            oracle: Oracle::default(),
            invariants: Invariants::new(rng.fork("invariants")),
            trace: Trace::new(is_printed),
            count: Count::default(),
            watch: CoverageTracker::default(),
            damaged: None,
            struck_until_us: 0,
            second_cluster_result: Ok(()),
            prepared_index: 0,
            reads: BTreeMap::new(),
            applied_max: 0,
            has_faults: false,
            requests: 0,
            faults_rng: rng.fork("faults"),
            rng,
            setup,
        };
        for id in simulation.setup.ids() {
            let config = simulation.setup.config(id, 0);
            let ops = Replica::init(&config, &simulation.setup.founders())
                .map_err(|error| simulation.violation("members_stay_sound", format!("{id}: init: {error}")))?;
            let machine = simulation.machine(id);
            ops.iter().for_each(|op| machine.disk.contents_mut().execute(op));
            simulation.start(id)?;
        }
        Ok(simulation)
    }

    pub(crate) fn violation(&self, invariant: &'static str, what: String) -> Violation {
        Violation { invariant, what, at_us: self.events.now_us() }
    }

    pub(crate) fn machine(&mut self, id: NodeId) -> &mut Machine {
        self.machines.get_mut(&id).expect("a machine that was there stays, also when it is gone")
    }

    pub(crate) fn alive(&self) -> Vec<NodeId> {
        self.machines.values().filter(|machine| machine.replica.is_some()).map(|machine| machine.id).collect()
    }

    /// The leader of the highest term.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leads = |machine: &&Machine| {
            let status = machine.replica.as_ref()?.brief_status();
            (status.role == Role::Leader).then_some((status.term, machine.id))
        };
        self.machines.values().filter_map(|machine| leads(&machine)).max().map(|(_, id)| id)
    }

    /// Handles all events up to this time.
    pub(crate) fn run_until(&mut self, until_us: u64) -> Checked {
        while self.events.next_us().is_some_and(|next| next <= until_us) {
            if let Some(event) = self.events.next_event() {
                self.happen(event)?;
            }
        }
        self.events.wait_until(until_us);
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Checked {
        match event {
            Event::Tick { id, boot } => self.tick(id, boot),
            Event::Wake { id, boot } => {
                let machine = self.machine(id);
                if machine.is_alive(boot) {
                    machine.is_woken = false;
                    return self.poll(id);
                }
                Ok(())
            }
            Event::Idle { id, boot } => {
                if self.machine(id).is_alive(boot) {
                    self.deliver(id, Input::Idle);
                }
                Ok(())
            }
            Event::Frame(delivery) => {
                if self.network.arrives(&delivery) && self.machines[&delivery.to].replica.is_some() {
                    let Delivery { from, to, frame, channel, .. } = delivery;
                    self.trace.note(self.events.now_us(), to, "frame", &[from, channel as u64], &frame);
                    self.deliver(to, Input::Peer { from, frame });
                }
                Ok(())
            }
            Event::Disk { id, pending } => {
                self.disk_done(id, pending);
                Ok(())
            }
            Event::LinkEnds { from, to, boot } => {
                self.link_ends(from, to, boot);
                Ok(())
            }
            Event::Dial { from, to, boot } => {
                self.dial(from, to, boot);
                Ok(())
            }
            Event::Client(client) => {
                self.client_begins(client);
                Ok(())
            }
            Event::Request(request) => self.request_arrives(request),
            Event::Response(response) => self.client_hears(response),
            Event::Timeout { client, update, tries } => {
                self.client_waited(client, update, tries);
                Ok(())
            }
            Event::Administrator => {
                self.administrate();
                std::mem::replace(&mut self.second_cluster_result, Ok(()))
            }
            Event::Read => {
                self.read();
                Ok(())
            }
            Event::Fault => self.fault(),
            Event::Strike { kind, id } => {
                self.inject_fault_now(kind, id);
                Ok(())
            }
            Event::Attacker => self.attack(),
            Event::FaultEnds(fault) => self.end_fault(fault),
            Event::Restart(id) => self.start(id),
            Event::Join(id) => self.begin_joining(id),
        }
    }

    fn tick(&mut self, id: NodeId, boot: u64) -> Checked {
        let machine = self.machine(id);
        if !machine.is_alive(boot) {
            return Ok(());
        }
        let period_us = machine.clock.true_us(TICK_MS * 1_000);
        self.events.after(period_us, Event::Tick { id, boot });
        // Ticks missed during a pause are not repeated.
        if !self.machine(id).is_paused {
            self.deliver(id, Input::Tick);
        }
        Ok(())
    }

    /// Passes an input to a process. The process handles it a moment later, together with other inputs.
    pub(crate) fn deliver(&mut self, id: NodeId, input: Input) {
        let now_us = self.events.now_us();
        let machine = self.machine(id);
        if machine.is_paused {
            machine.inbox.push_back(input);
            return;
        }
        let now = machine.now(now_us);
        let Some(replica) = &mut machine.replica else { return };
        replica.handle(input, now);
        if !machine.is_woken {
            machine.is_woken = true;
            let boot = machine.boot;
            let in_us = self.rng.below(self.setup.wake_us_max + 1);
            self.events.after(in_us, Event::Wake { id, boot });
        }
    }

    fn poll(&mut self, id: NodeId) -> Checked {
        while let Some(output) = self.machine(id).replica.as_mut().and_then(Replica::poll) {
            self.carry_out(id, output)?;
        }
        self.look(id)
    }

    fn disk_done(&mut self, id: NodeId, pending: Pending) {
        let now_us = self.events.now_us();
        let machine = self.machine(id);
        let finished = machine.disk.finish(pending);
        let is_doomed = machine.is_doomed && machine.replica.is_some() && !machine.disk.is_synced();
        match finished {
            Finished::Step => {}
            Finished::ReadFailed => return self.ends_itself(id, "read failed"),
            Finished::Full(queue) => {
                self.trace.note(now_us, id, "full", &[queue as u64], &[]);
                self.deliver(id, Input::DiskFull { queue });
            }
            Finished::Job { queue, ticket, waited } => {
                self.trace.note(now_us, id, "disk", &[queue as u64, ticket], &[]);
                if waited {
                    self.deliver(id, Input::DiskRoom { queue });
                }
                self.deliver(id, Input::Persisted { queue, ticket });
            }
            Finished::Read { ticket, bytes } => {
                self.trace.note(now_us, id, "read", &[ticket], &bytes);
                self.deliver(id, Input::FileRead { ticket, bytes });
            }
        }
        self.drive_disk(id);
        if is_doomed {
            self.lose_power(id);
            let down_us = self.faults_rng.between(20_000, 1_500_000);
            self.begins(FaultKind::CrashInWrite, down_us);
            self.events.after(down_us, Event::Restart(id));
        }
    }

    /// Starts the next disk operations.
    pub(crate) fn drive_disk(&mut self, id: NodeId) {
        let now_us = self.events.now_us();
        while let Some(pending) = self.machine(id).disk.begin(now_us) {
            self.events.at(pending.at_us, Event::Disk { id, pending });
        }
    }

    /// The configuration for a start of a member's process.
    pub(crate) fn config_of(&self, id: NodeId, boot_id: u64) -> ReplicaConfig {
        let machine = &self.machines[&id];
        ReplicaConfig {
            feature_level: machine.level,
            data_key: data_keys(machine.data_key),
            ..self.setup.config(id, boot_id)
        }
    }

    /// Starts the process of a member.
    pub(crate) fn start(&mut self, id: NodeId) -> Checked {
        if self.machines[&id].replica.is_some() || self.machines[&id].is_gone {
            return Ok(());
        }
        self.damage_now(id);
        // Tokens and contexts count up from it.
        let boot_id = self.rng.draw() >> 1;
        let now_us = self.events.now_us();
        let mut config = self.config_of(id, boot_id);
        let machine = self.machine(id);
        config.suspected_loss = machine.suspected_loss;
        let replica = match Replica::open(&machine.disk, config, machine.now(now_us)) {
            Ok(replica) => replica,
            Err(error) => return self.does_not_open(id, &error),
        };
        let machine = self.machine(id);
        machine.suspected_loss = replica.suspected_loss();
        machine.replica = Some(replica);
        machine.has_power = true;
        machine.looked_at = 0;
        machine.boot += 1;
        machine.boot_id = boot_id;
        machine.is_woken = true;
        let boot = machine.boot;
        self.trace.note(now_us, id, "start", &[boot], &[]);
        self.events.after(0, Event::Wake { id, boot });
        let first_us = self.rng.below(TICK_MS * 1_000);
        self.events.after(first_us, Event::Tick { id, boot });
        self.links_begin(id);
        Ok(())
    }
}
