//! One replica: inputs in, outputs out, nothing else.
//!
//! ```text
//!   handle(input, now) --> update | admin | peer | persisted | tick ...
//!   poll()             --> evaluate and propose what waits --> raft --> apply --> log, checkpoints --> outputs
//! ```

use crate::admin::AdminJobs;
use crate::checkpoint::{CheckpointError, CheckpointHeader, CheckpointReader, CheckpointWriter, Written, stale_files};
use crate::codec::DecodeError;
use crate::command::Answer;
use crate::config::ReplicaConfig;
use crate::disk::{DiskOp, DiskQueue, DiskRead, Tickets};
use crate::entry::Entry;
use crate::failover::Evidence;
use crate::forward::Waiters;
use crate::io::{FatalReason, Input, Member, NodeId, Now, Output, Role, Serving};
use crate::limits::{
    DISK_HUNG_ABORT_MS, DISK_HUNG_TRANSFER_MS, IMPORT_STAGE_ENTRIES_MAX, MESSAGE_OCTETS, STOP_WAIT_MS,
};
use crate::log::{self, CheckpointRef, Fetch, Log, LogId, Persisted};
use crate::machine::{Machine, Restore, RestoreError, empty_machine};
use crate::peer::{Frame, is_sent};
use crate::propose::{Head, Origin};
use crate::raft::{ConfTracker, Driver, FetchWanted, Guard, LogStorage, decode_conf_change, is_conf_change};
use crate::reads::Reads;
use crate::report::Reports;
use crate::state::Settings;
use crate::transfer::Transfers;
use core::fmt;
use raft::StateRole;
use raft::eraftpb::{ConfState, Message, MessageType};
use std::collections::VecDeque;
use zone::{ZoneReader, ZoneSet};

/// Ticks between two looks at those who wait.
const WAITERS_TICKS: u64 = 5;
/// Ticks between two looks at the membership and at what is stale.
const SLOW_TICKS: u64 = 10;
/// Ticks without a record after which the commit index is written by itself, so that a restarted replica knows how
/// much of its log was committed.
const QUIET_TICKS: u64 = 10;
/// Index and term of the state that a cluster begins with.
const GENESIS: (u64, u64) = (1, 1);

/// Counts of what went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Batches that raft did not take.
    pub proposals_dropped: u64,
    /// Checkpoints written.
    pub checkpoints_written: u64,
    /// Checkpoints of a leader that took the place of the state.
    pub checkpoints_installed: u64,
    /// Leaderships handed over because the disk hung.
    pub disk_hung_transfers: u64,
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
    pub(crate) waiters: Waiters,
    pub(crate) admin: AdminJobs,
    pub(crate) reads: Reads,
    pub(crate) reports: Reports,
    pub(crate) evidence: Evidence,
    pub(crate) transfers: Transfers,
    pub(crate) counters: Counters,
    pub(crate) serving: Serving,
    pub(crate) fenced: bool,
    /// The log begins anew behind a checkpoint; the state follows when that is durable.
    pub(crate) is_installing: bool,
    pub(crate) started_ms: u64,
    /// Last index of the log at start.
    pub(crate) started_last_index: u64,
    fatal: Option<FatalReason>,
    fetches: Vec<(u64, FetchWanted)>,
    /// Marks of the log and when they were handed over, oldest first.
    unwritten_ms: VecDeque<u64>,
    role: (StateRole, u64, Option<NodeId>),
    ticks: u64,
    quiet_ticks: u64,
    /// Commit index in the newest record.
    recorded_commit: u64,
    stop: Stop,
}

/// How far a stop is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    No,
    /// Asked for; the leadership is being handed over until then at the latest.
    HandingOver(u64),
    /// The last record is being written, by the job of this ticket.
    Writing {
        last: Option<u64>,
    },
    Done,
}

/// Why a replica cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The log; a damaged one means quarantine: the node comes back under its next incarnation.
    Log(log::OpenError),
    /// The checkpoint.
    Checkpoint(CheckpointError),
    /// Log and checkpoint are sound, and cannot be read by this software.
    Version(DecodeError),
    /// The checkpoint does not lead to the state that it was written from.
    State,
    /// Memory for the zones cannot be reserved.
    Memory,
    /// The directory belongs to another member or cluster.
    Foreign,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Checkpoint(error) => error.fmt(f),
            Self::Version(_) => f.write_str("written by newer software"),
            Self::State => f.write_str("the checkpoint does not restore the state that it was written from"),
            Self::Memory => f.write_str("cannot reserve memory for the zones"),
            Self::Foreign => f.write_str("the directory belongs to another member or cluster"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<RestoreError> for OpenError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Decode(error) => Self::Version(error),
            RestoreError::Zone | RestoreError::Hash => Self::State,
            RestoreError::Memory => Self::Memory,
        }
    }
}

impl Replica {
    /// What makes an empty directory that of a founding member: to be executed, in order, before [`Replica::open`].
    /// All founders must be given the same members. Executing it again after a crash is harmless as long as
    /// [`Replica::open`] says [`log::OpenError::Uninitialised`].
    ///
    /// # Errors
    /// [`OpenError::Memory`].
    pub fn init(config: &ReplicaConfig, members: &[Member]) -> Result<Vec<DiskOp>, OpenError> {
        let settings = Settings::genesis(config.cluster_id, members);
        let mut machine = empty_machine(config, settings)?;
        machine.apply_empty(GENESIS.0, GENESIS.1);
        let mut voters: Vec<_> = members.iter().map(|member| member.id).collect();
        voters.sort_unstable();
        let mut conf_state = ConfState::default();
        conf_state.set_voters(voters);
        let mut writer = CheckpointWriter::new(CheckpointHeader {
            cluster: config.cluster_id,
            group: u32::from(config.group),
            index: GENESIS.0,
            term: GENESIS.1,
            feature_level: 1,
            members: conf_state,
        });
        let (mut ops, mut tickets, mut state) = (Vec::new(), Tickets::default(), machine.freeze());
        let mut reference = CheckpointRef::default();
        while let Some(job) = writer.poll(&mut state, &mut tickets) {
            ops.extend(job.ops);
            if let Written::Whole(whole) = writer.persisted(job.ticket) {
                reference = whole.0.reference();
            }
        }
        ops.extend(create_log(config, reference, &mut tickets));
        Ok(ops)
    }

    /// What makes an empty directory that of a member that joins: its state comes from the leader.
    #[must_use]
    pub fn init_joining(config: &ReplicaConfig) -> Vec<DiskOp> {
        create_log(config, CheckpointRef::default(), &mut Tickets::default())
    }

    /// Starts from what the disk holds.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(disk: &dyn DiskRead, config: ReplicaConfig, now: Now) -> Result<Self, OpenError> {
        let (log, _repairs) = Log::open(disk, config.log.clone()).map_err(OpenError::Log)?;
        if log.id() != log_id(&config) {
            return Err(OpenError::Foreign);
        }
        let reference = log.checkpoint();
        let mut offer = None;
        let (mut machine, mut conf_state) = if reference.index == 0 {
            (empty_machine(&config, Settings::empty(config.cluster_id))?, ConfState::default())
        } else {
            let reader = CheckpointReader::open(disk, &reference).map_err(OpenError::Checkpoint)?;
            let machine = restore(disk, &reader, &config)?;
            let members = reader.manifest().header.members.clone();
            offer = Some(reader.into_parts());
            (machine, members)
        };
        let commit = log.hard_state().commit;
        replay(disk, &log, &mut machine, &mut conf_state, commit)?;
        let files = disk.list().map_err(|error| OpenError::Log(log::OpenError::Disk(error)))?;
        let stale = stale_files(files.iter().map(|(file, _)| file.as_str()), &reference);
        let mut replica = Self::assemble(config, now, log, conf_state, machine);
        if let Some((manifest, table)) = offer {
            replica.offer_checkpoint(manifest, table);
        }
        replica.remove_files(stale);
        replica.tell_all();
        Ok(replica)
    }

    fn assemble(config: ReplicaConfig, now: Now, mut log: Log, conf_state: ConfState, machine: Machine) -> Self {
        let applied = machine.applied.0;
        log.set_applied(applied);
        let started_last_index = log.last_index();
        let driver = Driver::new(config.id, config.seed, LogStorage::new(log, conf_state), applied);
        let role = (driver.role(), driver.term(), driver.leader());
        // Tokens and contexts of a process before this one must not come again.
        let first_token = config.boot_id;
        Self {
            config,
            now,
            out: VecDeque::new(),
            tickets: Tickets::default(),
            driver,
            machine,
            head: Head::default(),
            waiters: Waiters::new(first_token),
            admin: AdminJobs::default(),
            reads: Reads::new(first_token),
            reports: Reports::default(),
            evidence: Evidence::default(),
            transfers: Transfers::default(),
            counters: Counters::default(),
            serving: Serving::No,
            fenced: false,
            is_installing: false,
            started_ms: now.monotonic_ms,
            started_last_index,
            fatal: None,
            fetches: Vec::new(),
            unwritten_ms: VecDeque::new(),
            role,
            ticks: 0,
            quiet_ticks: 0,
            recorded_commit: applied,
            stop: Stop::No,
        }
    }

    /// Tells the shell what it needs to know at start.
    fn tell_all(&mut self) {
        let members = self.machine.settings.members();
        self.out.push_back(Output::PeersChanged { members });
        self.out.push_back(Output::KeysChanged);
        self.out.push_back(Output::ZonesChanged);
        self.out.push_back(Output::Published { index: self.machine.applied.0 });
    }

    /// The zones, for the shell's own reading on the thread of the replica.
    #[must_use]
    pub const fn zones(&self) -> &ZoneSet {
        &self.machine.zones
    }

    /// A reader of the zones for another thread; void after [`Output::ZonesReplaced`].
    #[must_use]
    pub fn zone_reader(&self) -> ZoneReader {
        self.machine.zones.reader()
    }

    /// Takes something that happened.
    pub fn handle(&mut self, input: Input, now: Now) {
        self.now.monotonic_ms = self.now.monotonic_ms.max(now.monotonic_ms);
        self.now.wall_ms = now.wall_ms;
        if self.fatal.is_some() {
            return;
        }
        match input {
            Input::Tick => self.tick(),
            Input::Peer { from, frame } => self.handle_frame(from, &frame),
            Input::PeerConnected { id, boot_id } => self.handle_connected(id, boot_id),
            Input::PeerGone { id, refused } => self.handle_gone(id, refused),
            Input::Persisted { queue, ticket } => self.handle_persisted(queue, ticket),
            Input::FileRead { ticket, octets } => self.handle_file_read(ticket, octets),
            Input::Update(request) => self.handle_update(request),
            Input::Admin { request_id, command } => self.handle_admin(request_id, command),
            Input::ReadIndex { request_id } => self.handle_read_index(request_id),
            Input::Stop => self.handle_stop(),
        }
        self.note_role();
    }

    /// The next thing to do; `None` when there is nothing before the next input.
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
        self.propose_waiting();
        self.work_raft();
        // What was applied may have made room for what waits.
        self.propose_waiting();
        self.work_raft();
        self.drive_transfers();
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

    /// Asks the disk for what the log wants.
    fn poll_log(&mut self) {
        while let Some(job) = self.driver.log_mut().poll_job(&mut self.tickets) {
            if job.queue == DiskQueue::Log {
                self.note_log_job(job.ticket);
                self.unwritten_ms.push_back(self.now.monotonic_ms);
                self.quiet_ticks = 0;
                self.recorded_commit = self.driver.log().hard_state().commit;
                if let Stop::Writing { last: last @ None } = &mut self.stop {
                    *last = Some(job.ticket);
                }
            }
            self.out.push_back(Output::Disk(job));
        }
        for wanted in self.driver.take_fetches_wanted() {
            match self.driver.log_mut().fetch(wanted.low, wanted.high, &mut self.tickets) {
                Ok(Fetch::Read(read)) => {
                    self.fetches.push((read.ticket, wanted));
                    self.out.push_back(Output::ReadFile(read));
                }
                Ok(Fetch::UnderWay(ticket)) => self.fetches.push((ticket, wanted)),
                Ok(Fetch::InMemory) => self.driver.fetched(wanted),
                // Raft asks again with the next heartbeat's answer.
                Ok(Fetch::Busy) | Err(_) => {}
            }
        }
    }

    fn handle_persisted(&mut self, queue: DiskQueue, ticket: u64) {
        match self.driver.log_mut().persisted(ticket) {
            Persisted::Record(mark) => {
                self.unwritten_ms.pop_front();
                self.remove_doomed(ticket);
                if let Some(mark) = mark {
                    let messages = self.driver.persisted(mark);
                    self.send_messages(messages);
                }
                self.install_when_durable();
                if let Stop::Writing { last: Some(last) } = self.stop
                    && ticket >= last
                {
                    self.stopped();
                }
            }
            Persisted::Housekeeping => {}
            Persisted::NotOurs => {
                if queue == DiskQueue::Bulk {
                    self.transfer_persisted(ticket);
                }
            }
        }
    }

    fn handle_file_read(&mut self, ticket: u64, octets: Vec<u8>) {
        let is_log = self.fetches.iter().any(|&(read, _)| read == ticket);
        if !is_log {
            return self.transfer_read(ticket, octets);
        }
        if self.driver.log_mut().fetched(ticket, &octets).is_err() {
            return self.fatal(FatalReason::Damaged);
        }
        let (done, rest) = core::mem::take(&mut self.fetches).into_iter().partition(|&(read, _)| read == ticket);
        self.fetches = rest;
        let done: Vec<(u64, FetchWanted)> = done;
        for (_, wanted) in done {
            self.driver.fetched(wanted);
        }
    }

    fn handle_frame(&mut self, from: NodeId, octets: &[u8]) {
        // Nothing is promised on a log that may be lost again.
        if !self.driver.log().is_durable() {
            return;
        }
        let frame = match Frame::decode(octets) {
            Ok((group, frame)) if group == self.config.group => frame,
            _ => {
                self.machine.alarms.frames_malformed += 1;
                return;
            }
        };
        match frame {
            Frame::Raft(message) if message.get_msg_type() == MessageType::MsgSnapshot => {
                self.handle_snapshot_message(from, *message);
            }
            Frame::Raft(message) => self.step(from, *message),
            Frame::Forward { token, command } => {
                let origin = Origin { peer: Some(from), token };
                if !self.driver.is_leader() || self.is_stopping() || !self.head.enqueue(origin, command) {
                    self.reply(origin, Answer::NotProposed);
                }
            }
            Frame::Answer { token, answer } => self.handle_answer(token, answer),
            Frame::Report(report) => self.handle_report(from, report),
            Frame::ReportAck(ack) => self.handle_report_ack(from, ack),
            Frame::HashVerdict { index, hash } => self.handle_hash_verdict(from, index, hash),
            Frame::ReadIndex { token } => self.handle_peer_read(from, token),
            Frame::ReadIndexAnswer { token, index } => self.handle_read_answer(token, index),
            Frame::SnapshotResult { ok } => self.handle_snapshot_result(from, ok),
            Frame::Checkpoint(octets) => self.handle_checkpoint_frame(from, &octets),
        }
    }

    /// Gives raft a message, if it may see it.
    pub(crate) fn step(&mut self, from: NodeId, message: Message) {
        match self.driver.step(from, message) {
            Guard::Step => {}
            Guard::Drop => self.machine.alarms.messages_refused += 1,
            Guard::Quarantine(reason) => self.fatal(reason),
        }
    }

    /// Tells an origin what became of its command.
    pub(crate) fn reply(&mut self, origin: Origin, answer: Answer) {
        match origin.peer {
            Some(peer) => self.send(peer, &Frame::Answer { token: origin.token, answer }),
            None => self.handle_answer(origin.token, answer),
        }
    }

    pub(crate) fn send(&mut self, to: NodeId, frame: &Frame) {
        let (lane, frame) = (frame.lane(), frame.encode(self.config.group));
        self.out.push_back(Output::Send { to, lane, frame });
    }

    fn send_messages(&mut self, messages: Vec<Message>) {
        // After a start nothing is said before what was read is known to be durable; raft repeats itself.
        if !self.driver.log().is_durable() {
            return;
        }
        for message in messages {
            if !is_sent(message.get_msg_type()) {
                continue;
            }
            let to = message.to;
            if message.get_msg_type() == MessageType::MsgSnapshot {
                self.note_snapshot_sent(to);
            }
            for message in split_append(message) {
                self.send(to, &Frame::Raft(Box::new(message)));
            }
        }
    }

    /// Follows role, term and leader: a head belongs to one term of one leader.
    pub(crate) fn note_role(&mut self) {
        let role = (self.driver.role(), self.driver.term(), self.driver.leader());
        if role == self.role {
            return;
        }
        let (was_leader, old_term) = (self.role.0 == StateRole::Leader, self.role.1);
        self.role = role;
        if old_term != role.1 || was_leader != (role.0 == StateRole::Leader) {
            self.drop_head();
            self.reset_reports();
            self.reset_reads();
        }
        self.out.push_back(Output::RoleChanged { role: role_of(role.0), term: role.1, leader: role.2 });
        // A new leader: what waits goes there.
        if role.2.is_some() {
            self.tick_waiters();
        }
    }

    pub(crate) fn role_now(&self) -> Role {
        role_of(self.driver.role())
    }

    fn tick(&mut self) {
        self.ticks += 1;
        if !self.driver.log().is_durable() {
            return;
        }
        if !self.fenced || self.driver.is_leader() {
            self.driver.tick();
        }
        self.note_role();
        self.campaign_when_due();
        self.check_disk();
        self.tick_reports();
        self.tick_reads();
        self.tick_stop();
        if self.ticks.is_multiple_of(WAITERS_TICKS) {
            self.tick_waiters();
            self.tick_admin();
        }
        if self.ticks.is_multiple_of(SLOW_TICKS) {
            self.reconcile_membership();
            self.tick_transfers();
            self.serve_stale_when_due();
            self.abandon_stale_stage();
        }
        self.quiet_ticks += 1;
        if self.quiet_ticks >= QUIET_TICKS && self.driver.log().hard_state().commit > self.recorded_commit {
            self.driver.log_mut().touch();
        }
    }

    /// A leader whose own disk hangs would stay leader for ever while nothing commits (R/raft_log.rs:425).
    fn check_disk(&mut self) {
        let Some(&since_ms) = self.unwritten_ms.front() else { return };
        let hung_ms = self.now.monotonic_ms.saturating_sub(since_ms);
        if hung_ms >= DISK_HUNG_ABORT_MS {
            return self.fatal(FatalReason::DiskHung);
        }
        if hung_ms >= DISK_HUNG_TRANSFER_MS
            && self.driver.is_leader()
            && !self.driver.is_transferring()
            && let Some(to) = self.driver.best_successor()
        {
            self.counters.disk_hung_transfers += 1;
            self.driver.transfer_leader(to);
        }
    }

    /// A stage that nobody touches is given up, by an entry.
    fn abandon_stale_stage(&mut self) {
        let index = self.machine.applied.0.saturating_sub(IMPORT_STAGE_ENTRIES_MAX);
        if self.driver.has_applied_own_term()
            && let Some(stage) = self.machine.stages.stale_since(index)
        {
            self.abandon_stage(stage);
        }
    }

    fn handle_stop(&mut self) {
        if self.stop != Stop::No {
            return;
        }
        self.stop = Stop::HandingOver(self.now.monotonic_ms + STOP_WAIT_MS);
        self.tick_stop();
    }

    /// A leader hands over first; then one last record carries the commit index.
    fn tick_stop(&mut self) {
        let Stop::HandingOver(until_ms) = self.stop else { return };
        let successor = self.driver.best_successor().filter(|_| self.driver.is_leader());
        if let Some(to) = successor
            && self.now.monotonic_ms < until_ms
        {
            if !self.driver.is_transferring() {
                self.driver.transfer_leader(to);
            }
            return;
        }
        self.stop = Stop::Writing { last: None };
        self.driver.log_mut().touch();
    }

    fn stopped(&mut self) {
        self.stop = Stop::Done;
        self.out.push_back(Output::Stopped);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop != Stop::No
    }

    /// This replica cannot go on: it says so once, and then does nothing.
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

const fn log_id(config: &ReplicaConfig) -> LogId {
    LogId { cluster: config.cluster_id, group: config.group as u32, member: config.id }
}

/// The operations that make a log.
fn create_log(config: &ReplicaConfig, checkpoint: CheckpointRef, tickets: &mut Tickets) -> Vec<DiskOp> {
    let mut log = Log::create(log_id(config), checkpoint, config.log.clone());
    let mut ops = Vec::new();
    while let Some(job) = log.poll_job(tickets) {
        ops.extend(job.ops);
        log.persisted(job.ticket);
        if log.is_durable() {
            break;
        }
    }
    ops
}

fn restore(disk: &dyn DiskRead, reader: &CheckpointReader, config: &ReplicaConfig) -> Result<Machine, OpenError> {
    let mut restore = Restore::new(config)?;
    let mut result = Ok(());
    reader
        .for_each_item(disk, |section, item| {
            if result.is_ok() {
                result = restore.item(section, item);
            }
        })
        .map_err(OpenError::Checkpoint)?;
    result?;
    let header = &reader.manifest().header;
    Ok(restore.finish((header.index, header.term))?)
}

/// Applies what the log says is committed.
fn replay(
    disk: &dyn DiskRead,
    log: &Log,
    machine: &mut Machine,
    conf_state: &mut ConfState,
    commit: u64,
) -> Result<(), OpenError> {
    let first = machine.applied.0 + 1;
    if first > commit {
        return Ok(());
    }
    let mut tracker = ConfTracker::new(conf_state);
    let mut result = Ok(());
    log.replay(disk, first, commit, |entry| {
        if result.is_err() {
            return;
        }
        if is_conf_change(&entry) {
            if let Some(change) = decode_conf_change(&entry.data) {
                tracker.apply(&change);
            }
            machine.apply_empty(entry.index, entry.term);
        } else if entry.data.is_empty() {
            machine.apply_empty(entry.index, entry.term);
        } else {
            match Entry::decode(&entry.data) {
                Ok(decoded) => {
                    machine.apply(entry.index, entry.term, &decoded, None);
                    machine.publish();
                }
                Err(error) => result = Err(OpenError::Version(error)),
            }
        }
    })
    .map_err(OpenError::Log)?;
    *conf_state = tracker.conf_state();
    result
}

/// Cuts an append message to size: raft batches what waits for one member into one message.
fn split_append(mut message: Message) -> Vec<Message> {
    let octets = |message: &Message| message.entries.iter().map(|entry| entry.data.len() + 64).sum::<usize>();
    if message.get_msg_type() != MessageType::MsgAppend || octets(&message) <= MESSAGE_OCTETS {
        return vec![message];
    }
    let entries = message.take_entries().into_vec();
    let mut messages = Vec::new();
    let mut part = message.clone();
    let mut part_entries = Vec::new();
    let mut part_octets = 0;
    for entry in entries {
        let more = entry.data.len() + 64;
        if part_octets + more > MESSAGE_OCTETS && !part_entries.is_empty() {
            let (index, term) = (entry.index - 1, last_term(&part_entries));
            part.set_entries(core::mem::take(&mut part_entries).into());
            messages.push(part);
            part = message.clone();
            part.index = index;
            part.log_term = term;
            part_octets = 0;
        }
        part_octets += more;
        part_entries.push(entry);
    }
    part.set_entries(part_entries.into());
    messages.push(part);
    messages
}

fn last_term(entries: &[raft::eraftpb::Entry]) -> u64 {
    entries.last().map_or(0, |entry| entry.term)
}
