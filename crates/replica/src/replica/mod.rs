//! One replica: inputs in, outputs out, nothing else.
//!
//! ```text
//!   handle(input, now) --> update | admin | peer | persisted | tick ...
//!   poll()             --> evaluate and propose what waits --> raft --> apply --> log, checkpoints --> outputs
//! ```

mod admission;
mod disk;
mod doubt;
mod founding;
mod frames;
mod open;
mod removal;
mod restore;
mod stop;
mod tick;
mod torn;

pub use doubt::{ContradictedLog, Doubt};
pub use founding::Founding;
pub use open::OpenError;
pub(crate) use removal::Removal;
pub use removal::{MemberState, Membership};
pub use restore::{Backup, Founder, RestoreFailure, Restored};
#[cfg(test)]
pub(crate) use torn::doubt_of;

use crate::admin::AdminJobs;
use crate::background::IdleTime;
use crate::clock::Clocks;
use crate::config::ReplicaConfig;
use crate::disk::Tickets;
use crate::failover::Evidence;
use crate::follower_commit::FollowerCommit;
use crate::forward::{SeenForwards, Waiters};
use crate::full::FullDisk;
use crate::io::{FatalReason, Input, NodeId, Now, Output, Role, Serving};
use crate::log::{Log, Repair};
use crate::machine::Machine;
use crate::memory::Memory;
use crate::progress::Progress;
use crate::propose::{Head, OpenedKeys};
use crate::raft::{Driver, FetchWanted, LogStorage};
use crate::reads::Reads;
use crate::rotation::Rotation;
use crate::transfer::Transfers;
use crate::update::LimitReached;
use doubt::Doubts;
use raft::StateRole;
use raft::eraftpb::ConfState;
use std::collections::VecDeque;
use stop::Stop;
use zone::{ZoneReader, ZoneSet};

/// Event counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches that raft did not accept.
    pub proposals_dropped: u64,
    /// Checkpoints written.
    pub checkpoints_written: u64,
    /// Checkpoints abandoned because they took too long, or because the state was wrong.
    pub checkpoints_abandoned: u64,
    /// Checkpoints from a leader that replaced the state.
    pub checkpoints_installed: u64,
    /// Checkpoint blocks that were on disk at the start and did not have to be fetched again.
    pub checkpoint_blocks_kept: u64,
    /// Number of times that the leadership was handed over because the disk hung.
    pub disk_hung_transfers: u64,
    /// Number of times that the leadership was handed over because the disk was full.
    pub disk_full_transfers: u64,
    /// Updates and commands that this leader refused because its disk, or the disks of too many members, had no room.
    pub refused_for_disk: u64,
    /// Updates of own clients that were refused because the leader's queue was full.
    pub updates_overloaded: u64,
    /// Forwarded commands that arrived again and were ignored.
    pub forwards_repeated: u64,
    /// Frames that were dropped because their sender is not a known member.
    pub non_member_frames: u64,
    /// Messages that raft did not get because they were late, or because their sender is not a known voter.
    pub messages_ignored: u64,
    /// Votes withheld because this member's log may lack acknowledged entries.
    pub votes_withheld: u64,
    /// Updates and imports that this leader refused because a member has no memory for larger zones.
    pub refused_for_memory: u64,
    /// Updates that this leader refused because of a limit, in the order of [`LimitReached::ALL`].
    pub limits_reached: [u64; LimitReached::ALL.len()],
}

/// One member of a cluster.
pub struct Replica {
    pub(crate) config: ReplicaConfig,
    pub(crate) now: Now,
    pub(crate) out: VecDeque<Output>,
    pub(crate) tickets: Tickets,
    pub(crate) driver: Driver,
    pub(crate) machine: Machine,
    pub(crate) head: Head,
    pub(crate) opened_keys: OpenedKeys,
    pub(crate) waiters: Waiters,
    pub(crate) seen_forwards: SeenForwards,
    pub(crate) admin: AdminJobs,
    pub(crate) reads: Reads,
    pub(crate) follower_commit: FollowerCommit,
    pub(crate) progress: Progress,
    pub(crate) rotation: Rotation,
    pub(crate) evidence: Evidence,
    pub(crate) transfers: Transfers,
    pub(crate) background: IdleTime,
    pub(crate) memory: Memory,
    pub(crate) clocks: Clocks,
    pub(crate) full: FullDisk,
    pub(crate) counters: Counters,
    pub(crate) serving: Serving,
    pub(crate) fenced: bool,
    /// The reason to exit in an orderly way, as soon as possible.
    pub(crate) pending_fatal: Option<FatalReason>,
    pub(crate) removal: Removal,
    /// The log restarts after a checkpoint. The state is replaced once that is durable.
    pub(crate) is_installing: bool,
    pub(crate) started_ms: u64,
    /// Everything published before the start is at or below this index.
    pub(crate) started_last_index: u64,
    repairs: Vec<Repair>,
    fatal: Option<FatalReason>,
    fetches: Vec<(u64, FetchWanted)>,
    /// When each job of the log was issued, in running time, oldest first.
    pub(crate) unwritten_ms: VecDeque<u64>,
    /// Running time of this process: the sum of bounded steps from tick to tick. Pauses do not count.
    pub(crate) running_ms: u64,
    /// The last known leader.
    pub(crate) last_leader: Option<NodeId>,
    /// When a leader was last heard, in running time.
    pub(crate) led_ms: u64,
    /// Doubts about the completeness of this member's log.
    pub(crate) doubts: Doubts,
    /// When the last tick was.
    ticked_ms: u64,
    role: (StateRole, u64, Option<NodeId>),
    ticks: u64,
    /// Refusals whose reason may still be computed before the next tick.
    pub(crate) explanations_left: u32,
    quiet_ticks: u64,
    /// Commit index in the newest record.
    recorded_commit: u64,
    /// Time of the last leader contact in the newest record.
    recorded_contact_ms: u64,
    stop: Stop,
}

impl Replica {
    fn assemble(config: ReplicaConfig, now: Now, mut log: Log, conf_state: ConfState, machine: Machine) -> Self {
        let applied = machine.applied.0;
        let started_last_index = log.last_known_index();
        log.set_applied(applied);
        let recorded_contact_ms = log.contact_wall_ms();
        let driver = Driver::new(config.id, config.seed, LogStorage::new(log, conf_state), applied);
        let role = (driver.role(), driver.term(), driver.leader());
        // Tokens and contexts of a process before this one must not come again.
        let first_token = config.boot_id;
        let doubts = Doubts::new(config.doubt);
        Self {
            config,
            now,
            out: VecDeque::new(),
            tickets: Tickets::default(),
            driver,
            machine,
            head: Head::default(),
            opened_keys: OpenedKeys::default(),
            waiters: Waiters::new(first_token),
            seen_forwards: SeenForwards::default(),
            admin: AdminJobs::default(),
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
            counters: Counters::default(),
            serving: Serving::No,
            fenced: false,
            pending_fatal: None,
            removal: Removal::No,
            is_installing: false,
            started_ms: now.monotonic_ms,
            started_last_index,
            repairs: Vec::new(),
            fatal: None,
            fetches: Vec::new(),
            unwritten_ms: VecDeque::new(),
            running_ms: 0,
            last_leader: None,
            led_ms: 0,
            doubts,
            ticked_ms: now.monotonic_ms,
            role,
            ticks: 0,
            explanations_left: 0,
            quiet_ticks: 0,
            recorded_commit: applied,
            recorded_contact_ms,
            stop: Stop::No,
        }
    }

    /// Reports the initial state to the shell.
    fn report_all(&mut self) {
        let members = self.machine.settings.members();
        self.out.push_back(Output::PeersChanged { members });
        self.out.push_back(Output::KeysChanged { keys: None });
        self.out.push_back(Output::PoliciesChanged);
        self.out.push_back(Output::TrustChanged);
        self.out.push_back(Output::ZonesChanged { zones: None });
        self.out.push_back(Output::Published { index: self.machine.applied.0 });
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
        self.now.monotonic_ms = self.now.monotonic_ms.max(now.monotonic_ms);
        self.now.wall_ms = now.wall_ms;
        if self.fatal.is_some() {
            return;
        }
        self.check_clock_step();
        match input {
            Input::Tick => self.tick(),
            Input::Peer { from, frame } => self.handle_frame(from, &frame),
            Input::PeerConfirmed { id } => self.handle_peer_confirmed(id),
            Input::PeerConnected { id, boot_id } => self.handle_connected(id, boot_id),
            Input::PeerGone { id, refused } => self.handle_gone(id, refused),
            Input::ReportedRemoved { by } => self.handle_reported_removed(by),
            Input::Persisted { queue, ticket } => self.handle_persisted(queue, ticket),
            Input::DiskFull { queue } => self.handle_disk_full(queue),
            Input::DiskRoom { queue } => self.handle_disk_room(queue),
            Input::FileRead { ticket, bytes } => self.handle_file_read(ticket, bytes),
            Input::Update(request) => self.handle_update(request),
            Input::Admin { request_id, command } => self.handle_admin(request_id, command),
            Input::ReadIndex { request_id } => self.handle_read_index(request_id),
            Input::DataKeys { keys } => {
                self.config.data_key = keys;
                self.out.push_back(Output::KeysChanged { keys: None });
                self.out.push_back(Output::TrustChanged);
            }
            Input::Memory { limit_bytes } => self.handle_memory(limit_bytes),
            Input::Idle => self.handle_idle(),
            Input::MachineRestored => self.void_lease(),
            Input::Stop => self.handle_stop(),
        }
        self.note_role();
    }

    /// The next output; `None` if there is none before the next input.
    pub fn poll(&mut self) -> Option<Output> {
        if let Some(output) = self.out.pop_front() {
            return Some(output);
        }
        if self.fatal.is_none() {
            self.work();
        }
        self.out.pop_front()
    }

    /// Moves everything that can move.
    fn work(&mut self) {
        self.note_role();
        self.begin_checkpoint_when_due();
        let is_idle = self.start_background_step();
        if is_idle {
            self.continue_imports();
        }
        // A batch is sent before the next one is evaluated, so that replication and new requests are not delayed.
        while self.propose_waiting() && self.out.is_empty() {
            self.work_raft();
        }
        self.work_raft();
        self.drive_transfers(is_idle);
        self.poll_log();
    }

    /// Does all that raft has ready.
    pub(crate) fn work_raft(&mut self) {
        loop {
            let transfers = &self.transfers;
            let Some(work) = self.driver.ready(|snapshot| transfers.reference(snapshot)) else { break };
            self.note_role();
            if work.snapshot.is_some() {
                self.is_installing = true;
                self.install_when_durable();
            }
            self.send_messages(work.messages);
            self.handle_read_states(work.reads);
            self.apply_committed(work.committed);
            if self.fatal.is_some() {
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
        self.last_leader = role.2.or(self.last_leader);
        if old_term != role.1 || was_leader != (role.0 == StateRole::Leader) {
            self.drop_head();
            self.reset_progress();
            self.reset_rotation();
            self.reset_reads();
            self.reset_follower_commit();
            self.reset_memory();
            self.reset_full();
        }
        self.out.push_back(Output::RoleChanged { role: role_of(role.0), term: role.1, leader: role.2 });
        // Waiting commands go to the new leader.
        if role.2.is_some() {
            self.tick_waiters();
        }
    }

    pub(crate) fn role_now(&self) -> Role {
        role_of(self.driver.role())
    }

    /// Stops this replica. It reports the reason once.
    pub(crate) fn fatal(&mut self, reason: FatalReason) {
        if self.fatal.is_none() {
            self.fatal = Some(reason);
            self.serving = Serving::No;
            self.out.push_back(Output::ServingChanged { serving: Serving::No });
            self.out.push_back(Output::Fatal { reason });
        }
    }

    pub(crate) const fn fatal_reason(&self) -> Option<FatalReason> {
        self.fatal
    }
}

const fn role_of(role: StateRole) -> Role {
    match role {
        StateRole::Follower => Role::Follower,
        StateRole::Candidate | StateRole::PreCandidate => Role::Candidate,
        StateRole::Leader => Role::Leader,
    }
}
