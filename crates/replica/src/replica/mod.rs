//! One replica: takes inputs, returns outputs.
//!
//! ```text
//!   handle(input, now) --> update | admin | peer | persisted | tick ...
//!   poll()             --> evaluate and propose commands   --> raft --> apply --> log, checkpoints --> outputs
//! ```
//!
//! This module only routes: it passes each input to the component that it concerns, and executes what a component
//! decides about Raft or the applied state.

mod admission;
mod apply;
mod connections;
mod disk;
mod founding;
mod frames;
mod install;
mod membership;
mod open;
mod propose;
mod reads;
mod removal;
mod reports;
mod requests;
mod restore;
mod status;
mod stop;
mod tick;
mod views;

pub use founding::Founding;
pub use open::OpenError;
pub use restore::{Backup, Founder, RestoreFailure, Restored};
pub use status::{KeyStatus, MemberStatus, Status, ZoneStatus};

use crate::background::IdleTime;
use crate::clock::Clocks;
use crate::config::ReplicaConfig;
use crate::context::{Context, Local, Outputs};
use crate::failover::Evidence;
use crate::follower_commit::FollowerCommit;
use crate::full::FullDisk;
use crate::io::{Input, NodeId, Now, Output, Role};
use crate::log::{Log, Repair};
use crate::log_jobs::LogJobs;
use crate::log_loss::LogLoss;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::progress::Progress;
use crate::propose::{Head, OpenedKeys};
use crate::raft::{Driver, LogStorage};
use crate::reads::Reads;
use crate::requests::{Requests, SeenForwards};
use crate::rotation::Rotation;
use crate::transfer::Transfers;
use raft::StateRole;
use raft::eraftpb::ConfState;
use zone::{ZoneReader, ZoneSet};

/// One member of a cluster: its components. Each changes only itself and the outputs.
pub struct Replica {
    /// What all components may read, with `driver` and `machine`: see [`Context`].
    pub(crate) local: Local,
    /// What all components may write.
    pub(crate) outputs: Outputs,
    /// Consensus: Raft and its log.
    pub(crate) driver: Driver,
    /// The applied state.
    pub(crate) machine: Machine,
    /// A leader's commands that are not applied yet, and the keys that signed them.
    pub(crate) head: Head,
    pub(crate) opened_keys: OpenedKeys,
    /// Updates and commands of this member's clients.
    pub(crate) requests: Requests,
    /// Commands that other members forwarded to this leader.
    pub(crate) seen_forwards: SeenForwards,
    /// Linearizable reads.
    pub(crate) reads: Reads,
    /// Commits without the leader's commit.
    pub(crate) follower_commit: FollowerCommit,
    /// Reports between members: they confirm the state.
    pub(crate) progress: Progress,
    /// Leases, and what all live members show.
    pub(crate) rotation: Rotation,
    /// Evidence that a leader's process died.
    pub(crate) evidence: Evidence,
    /// Checkpoints being written, sent and received.
    pub(crate) transfers: Transfers,
    /// When background work may run.
    pub(crate) background: IdleTime,
    /// Memory of the members' zones.
    pub(crate) memory: Memory,
    /// The members' clocks.
    pub(crate) clocks: Clocks,
    /// Disks without room.
    pub(crate) full: FullDisk,
    /// Disk jobs of the log that are under way.
    log_jobs: LogJobs,
    /// What this member's log may have lost.
    pub(crate) log_loss: LogLoss,
    repairs: Vec<Repair>,
    /// Time of the last tick.
    ticked_ms: u64,
    ticks: u64,
    /// Role, term and leader that the components know.
    role: (StateRole, u64, Option<NodeId>),
}

impl Replica {
    fn assemble(config: ReplicaConfig, now: Now, mut log: Log, conf_state: ConfState, machine: Machine) -> Self {
        let applied = machine.applied.0;
        let started_last_index = log.last_known_index();
        log.set_applied(applied);
        let recorded_contact_ms = log.contact_wall_ms();
        let driver = Driver::new(config.id, config.seed, LogStorage::new(log, conf_state), applied);
        let role = (driver.role(), driver.term(), driver.leader());
        // Tokens and contexts of earlier processes must not be used again.
        let first_token = config.boot_id;
        let log_loss = LogLoss::new(config.suspected_loss);
        Self {
            outputs: Outputs::new(config.group),
            local: Local::new(config, now, started_last_index),
            driver,
            machine,
            head: Head::default(),
            opened_keys: OpenedKeys::default(),
            requests: Requests::new(first_token),
            seen_forwards: SeenForwards::default(),
            reads: Reads::new(first_token),
            follower_commit: FollowerCommit::default(),
            progress: Progress::default(),
            rotation: Rotation::default(),
            evidence: Evidence::default(),
            transfers: Transfers::default(),
            background: IdleTime::default(),
            memory: Memory::default(),
            clocks: Clocks::default(),
            full: FullDisk::default(),
            repairs: Vec::new(),
            log_jobs: LogJobs::new(applied, recorded_contact_ms),
            log_loss,
            ticked_ms: now.monotonic_ms,
            role,
            ticks: 0,
        }
    }

    /// Reports the initial state to the shell.
    fn report_all(&mut self) {
        let members = self.machine.settings.members();
        self.outputs.push(Output::PeersChanged { members });
        self.outputs.push(Output::KeysChanged { keys: None });
        self.outputs.push(Output::PoliciesChanged);
        self.outputs.push(Output::TrustChanged);
        self.outputs.push(Output::ZonesChanged { zones: None });
        self.outputs.push(Output::Published { index: self.machine.applied.0 });
        self.note_removal();
    }

    /// Repairs made at the start, for the operator.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// The zones, for reading on the replica's thread.
    #[must_use]
    pub const fn zones(&self) -> &ZoneSet {
        &self.machine.zones
    }

    /// A reader of the zones for another thread; void after [`Output::ZonesReplaced`].
    #[must_use]
    pub fn zone_reader(&self) -> ZoneReader {
        self.machine.zones.reader()
    }

    /// Handles an input.
    pub fn handle(&mut self, input: Input, now: Now) {
        self.local.now.monotonic_ms = self.local.now.monotonic_ms.max(now.monotonic_ms);
        self.local.now.wall_ms = now.wall_ms;
        if self.local.lifecycle.fatal_reason().is_some() {
            return;
        }
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.rotation.check_clock_step(&context, &mut self.outputs);
        match input {
            Input::Tick => self.tick(),
            Input::Peer { from, frame } => self.handle_frame(from, &frame),
            Input::PeerConfirmed { id } => self.handle_peer_confirmed(id),
            Input::PeerConnected { id, boot_id } => self.handle_connected(id, boot_id),
            Input::PeerGone { id, refused } => self.handle_gone(id, refused),
            Input::ReportedRemoved { by } => self.handle_reported_removed(by),
            Input::Persisted { queue, ticket } => self.handle_persisted(queue, ticket),
            Input::DiskFull { queue } => self.full.set(queue, true),
            Input::DiskRoom { queue } => self.handle_disk_room(queue),
            Input::FileRead { ticket, bytes } => self.handle_file_read(ticket, bytes),
            Input::Update(request) => self.handle_update(request),
            Input::Admin { request_id, command } => self.handle_admin(request_id, command),
            Input::ReadIndex { request_id } => self.handle_read_index(request_id),
            Input::DataKeys { keys } => {
                self.local.config.data_key = keys;
                self.outputs.push(Output::KeysChanged { keys: None });
                self.outputs.push(Output::TrustChanged);
            }
            Input::Memory { limit_bytes } => self.memory.set_limit(limit_bytes),
            Input::Idle => self.background.note_idle(),
            Input::MachineRestored => {
                let context = Context::new(&self.local, &self.driver, &self.machine);
                self.rotation.void_lease(&context, &mut self.outputs);
            }
            Input::Stop => self.handle_stop(),
        }
        self.note_role();
    }

    /// The next output; `None` if there is none before the next input.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some(output) = self.outputs.pop() {
            return Some(output);
        }
        if self.local.lifecycle.fatal_reason().is_none() {
            self.work();
        }
        self.outputs.pop()
    }

    /// Runs all parts until none has more to do.
    fn work(&mut self) {
        self.note_role();
        self.begin_checkpoint();
        let has_work = || self.requests.admin.has_chunks_to_propose() || self.transfers.has_checkpoint_to_write();
        let is_idle = self.background.start_step(has_work, self.local.running_ms, &mut self.outputs);
        if is_idle {
            let (requests, mut shared) = self.requests();
            requests.continue_imports(&mut shared);
        }
        // A batch is sent before the next one is evaluated, so that replication and new requests are not delayed.
        while self.propose_waiting() && self.outputs.is_empty() {
            self.work_raft();
        }
        self.work_raft();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.transfers.drive(&context, is_idle, &mut self.outputs);
        self.poll_log();
    }

    /// Executes all work that raft has ready.
    pub(crate) fn work_raft(&mut self) {
        loop {
            let transfers = &self.transfers;
            let Some(work) = self.driver.ready(|snapshot| transfers.reference(snapshot)) else { break };
            self.note_role();
            if work.snapshot.is_some() {
                self.transfers.is_installing = true;
                self.install_when_durable();
            }
            self.send_messages(work.messages);
            self.handle_read_states(work.reads);
            self.apply_committed(work.committed);
            if self.local.lifecycle.fatal_reason().is_some() {
                return;
            }
        }
        self.note_role();
    }

    /// Handles a change of role, term or leader. A head belongs to one leader in one term.
    pub(crate) fn note_role(&mut self) {
        let role = (self.driver.role(), self.driver.term(), self.driver.leader());
        if role == self.role {
            return;
        }
        let (was_leader, old_term) = (self.role.0 == StateRole::Leader, self.role.1);
        self.role = role;
        self.local.last_leader = role.2.or(self.local.last_leader);
        if old_term != role.1 || was_leader != (role.0 == StateRole::Leader) {
            self.drop_head();
            self.progress.reset(self.local.now.monotonic_ms);
            self.rotation.reset(&Context::new(&self.local, &self.driver, &self.machine));
            self.reads.reset();
            self.follower_commit = FollowerCommit::default();
            self.memory.reset();
            self.full.reset();
        }
        self.outputs.push(Output::RoleChanged { role: role_of(role.0), term: role.1, leader: role.2 });
        // Waiting commands go to the new leader.
        if role.2.is_some() {
            let (requests, mut shared) = self.requests();
            requests.tick_waiters(&mut shared);
        }
    }

    pub(crate) fn role_now(&self) -> Role {
        role_of(self.driver.role())
    }
}

const fn role_of(role: StateRole) -> Role {
    match role {
        StateRole::Follower => Role::Follower,
        StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        StateRole::Leader => Role::Leader,
    }
}
