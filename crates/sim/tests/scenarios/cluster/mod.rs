//! A cluster in one thread: lists of frames, disks that answer immediately, and a manual clock.

mod client;
mod disks;
mod links;
mod records;

pub(super) use links::is_append_response;
pub(super) use records::{SECRET, add, address, large_zone, name, records, roll_key, sign, zone_id};

use catamaran_sim::disk::{DiskConfig, Pending, SimDisk};
use catamaran_sim::rng::Rng;
use policy::DaemonAnswers;
use replica::disk::{DiskJob, DiskOp, DiskQueue, ReadFile};
use replica::io::{
    AdminError, AdminReply, FatalReason, Input, Member, NodeId, Now, Output, ReadIndexError, Serving, SuspectedLoss,
    Verdict,
};
use replica::log::LogConfig;
use replica::testing::MemoryDisk;
use replica::{DataKey, Replica, ReplicaConfig};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use zone::set::StoreConfig;

const START_WALL_MS: u64 = 1_700_000_000_000;
/// Time between two ticks.
const TICK_MS: u64 = 10;

/// Sender, receiver, and frame.
type Sent = (NodeId, NodeId, Vec<u8>);

/// One machine. Its disk persists when its process dies.
pub(super) struct Machine {
    pub(super) disk: SimDisk,
    /// Disk operations in progress.
    pub(super) pending: Vec<Pending>,
    pub(super) replica: Option<Replica>,
    pub(super) boot_id: u64,
    /// Jobs of a hung log disk.
    pub(super) hung: Option<Vec<DiskJob>>,
    /// Jobs of a hung bulk queue.
    pub(super) bulk_hung: Option<Vec<DiskJob>>,
    /// Whether the machine is never idle.
    pub(super) is_busy: bool,
    /// Hung jobs that write the member's own checkpoint.
    pub(super) writing_hung: Option<Vec<DiskJob>>,
    /// Hung reads.
    pub(super) reads_hung: Option<Vec<ReadFile>>,
    pub(super) serving: Option<Serving>,
    /// Whether it has left Raft's configuration, once it knows that it was removed.
    pub(super) removed: Option<bool>,
    pub(super) fatal: Option<FatalReason>,
    /// The suspected loss for the next start.
    pub(super) suspected_loss: Option<SuspectedLoss>,
    /// The voters that the member waits for because of a torn record, as last reported.
    pub(super) unreported_voters: Vec<NodeId>,
    pub(super) is_stopped: bool,
    /// The lines of the member's audit log.
    pub(super) audited: Vec<Audited>,
    pub(super) zones_replaced: usize,
    pub(super) lease_until_ms: u64,
    /// Milliseconds by which its wall clock is ahead.
    pub(super) wall_error_ms: i64,
    /// The last all-live index of the rotation, and then that of all live members.
    pub(super) shown_by_rotation: u64,
    pub(super) shown_by_heard: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self::with_disk(MemoryDisk::default())
    }
}

impl Machine {
    /// A machine whose disk has these contents and completes everything immediately.
    pub(super) fn with_disk(contents: MemoryDisk) -> Self {
        let mut disk = SimDisk::new(DiskConfig::immediate(TICK_MS * 1_000), Rng::new(0));
        *disk.contents_mut() = contents;
        Self {
            disk,
            pending: Vec::new(),
            replica: None,
            boot_id: 0,
            hung: None,
            bulk_hung: None,
            is_busy: false,
            writing_hung: None,
            reads_hung: None,
            serving: None,
            removed: None,
            fatal: None,
            suspected_loss: None,
            unreported_voters: Vec::new(),
            is_stopped: false,
            audited: Vec::new(),
            zones_replaced: 0,
            lease_until_ms: 0,
            wall_error_ms: 0,
            shown_by_rotation: 0,
            shown_by_heard: 0,
        }
    }
}

pub(super) struct Cluster {
    pub(super) machines: BTreeMap<NodeId, Machine>,
    pub(super) now: Now,
    /// The arrival time of each frame, in the order of sending.
    frames: VecDeque<(u64, Sent)>,
    /// Delay of a frame.
    pub(super) way_ms: u64,
    /// Directions that lose all frames.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    /// Decides whether a frame is lost.
    pub(super) lose: fn(&[u8]) -> bool,
    pub(super) verdicts: BTreeMap<u64, Verdict>,
    pub(super) admin: BTreeMap<u64, Result<AdminReply, AdminError>>,
    pub(super) reads: BTreeMap<u64, Result<u64, ReadIndexError>>,
    next_request: u64,
    next_id: u16,
    pub(super) log: LogConfig,
    pub(super) session_count_max: usize,
    /// The answers of the external daemons at each receiving member.
    pub(super) external: DaemonAnswers,
}

/// One line of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audited {
    Update(replica::io::AuditRecord),
    Gap(u64, u64),
}

impl Audited {
    pub(super) const fn last_index(&self) -> u64 {
        match self {
            Self::Update(record) => record.index(),
            Self::Gap(_, to) => *to,
        }
    }
}

impl Cluster {
    /// Starts founders 1 to `count`. There is no leader yet.
    pub(super) fn new(count: u64) -> Self {
        Self::with_log(count, LogConfig { segment_bytes: 1 << 18, ..LogConfig::default() })
    }

    pub(super) fn with_log(count: u64, log: LogConfig) -> Self {
        let mut cluster = Self {
            machines: BTreeMap::new(),
            now: Now { monotonic_ms: 1_000, wall_ms: START_WALL_MS },
            frames: VecDeque::new(),
            way_ms: 0,
            cut: BTreeSet::new(),
            lose: |_| false,
            verdicts: BTreeMap::new(),
            admin: BTreeMap::new(),
            reads: BTreeMap::new(),
            next_request: 0,
            next_id: 0,
            log,
            session_count_max: 1_000,
            external: DaemonAnswers::default(),
        };
        let members: Vec<_> = (1..=count).map(|id| Member { id, address: format!("[::1]:{}", 7_000 + id) }).collect();
        for id in 1..=count {
            let mut machine = Machine::default();
            for op in Replica::init(&cluster.config(id), &members).unwrap() {
                machine.disk.contents_mut().execute(&op);
            }
            cluster.machines.insert(id, machine);
            cluster.start(id);
        }
        cluster
    }

    pub(super) fn config(&self, id: NodeId) -> ReplicaConfig {
        let boot_id = self.machines.get(&id).map_or(0, |machine| machine.boot_id);
        let mut config = ReplicaConfig::new([7; 16], id, id << 32 | boot_id << 16, 5, DataKey::new(1, &[9; 32]));
        config.log = self.log.clone();
        config.store = StoreConfig { reserve_bytes: 64 << 20, huge_pages: false };
        config.session_count_max = self.session_count_max;
        let last = self.machines.get(&id).and_then(|machine| machine.audited.last()).map_or(0, Audited::last_index);
        config.audit_after = last;
        config.suspected_loss = self.machines.get(&id).and_then(|machine| machine.suspected_loss);
        config
    }

    pub(super) fn start(&mut self, id: NodeId) {
        let config = self.config(id);
        self.start_with(id, config);
    }

    pub(super) fn start_with(&mut self, id: NodeId, mut config: ReplicaConfig) {
        let boot_id = self.machines[&id].boot_id + 1;
        self.machines.get_mut(&id).unwrap().boot_id = boot_id;
        config.boot_id = id << 32 | boot_id << 16;
        let now = self.now_of(id);
        let machine = self.machines.get_mut(&id).unwrap();
        let replica = Replica::open(&machine.disk, config, now).unwrap();
        machine.suspected_loss = replica.suspected_loss();
        machine.replica = Some(replica);
        machine.serving = None;
        machine.is_stopped = false;
        let boot_id = machine.boot_id;
        for (&other, machine) in &mut self.machines {
            if let (true, Some(replica)) = (other != id, &mut machine.replica) {
                replica.handle(Input::PeerConnected { id, boot_id }, self.now);
            }
        }
        self.settle();
    }

    /// Kills the process, as with kill -9. Peers see ended and refused connections.
    pub(super) fn kill(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).unwrap();
        machine.replica = None;
        machine.disk.kill();
        machine.pending.clear();
        self.frames.retain(|&(_, (from, to, _))| from != id && to != id);
        let now = self.now;
        for machine in self.machines.values_mut() {
            if let Some(replica) = &mut machine.replica {
                replica.handle(Input::PeerGone { id, refused: true }, now);
            }
        }
    }

    /// Cuts the power. A part of the unsynced data is written, the same part each time.
    pub(super) fn lose_power(&mut self, id: NodeId) {
        self.kill(id);
        let mut state = 88_172_645_463_325_252u64;
        self.machines.get_mut(&id).unwrap().disk.contents_mut().crash(&mut |count| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % count.max(1)
        });
    }

    pub(super) fn replica(&self, id: NodeId) -> &Replica {
        self.machines[&id].replica.as_ref().unwrap()
    }

    pub(super) fn replica_mut(&mut self, id: NodeId) -> &mut Replica {
        self.machines.get_mut(&id).unwrap().replica.as_mut().unwrap()
    }

    pub(super) fn alive(&self) -> Vec<NodeId> {
        self.machines.iter().filter(|(_, machine)| machine.replica.is_some()).map(|(&id, _)| id).collect()
    }

    pub(super) fn input(&mut self, id: NodeId, input: Input) {
        let now = self.now_of(id);
        self.replica_mut(id).handle(input, now);
    }

    fn now_of(&self, id: NodeId) -> Now {
        Now { wall_ms: self.now.wall_ms.saturating_add_signed(self.machines[&id].wall_error_ms), ..self.now }
    }

    /// Executes all outputs until there are none.
    pub(super) fn settle(&mut self) {
        for _ in 0..100_000 {
            let mut moved = false;
            for id in self.alive() {
                while let Some(output) = self.machines.get_mut(&id).and_then(|m| m.replica.as_mut()?.poll()) {
                    moved = true;
                    self.carry_out(id, output);
                }
            }
            let now_ms = self.now.monotonic_ms;
            while let Some((_, (from, to, frame))) = self.frames.pop_front_if(|&mut (at_ms, _)| at_ms <= now_ms) {
                moved = true;
                if self.alive().contains(&to) && !self.cut.contains(&(from, to)) && !(self.lose)(&frame) {
                    self.confirm(to, from);
                    self.input(to, Input::Peer { from, frame });
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the outputs never end");
    }

    fn carry_out(&mut self, id: NodeId, output: Output) {
        let machine = self.machines.get_mut(&id).unwrap();
        match output {
            Output::Send { to, frame, .. } => {
                self.frames.push_back((self.now.monotonic_ms + self.way_ms, (id, to, frame)));
            }
            Output::Disk(job) if machine.writing_hung.is_some() && writes_checkpoint(&job) => {
                machine.writing_hung.as_mut().unwrap().push(job);
            }
            Output::Disk(job) => {
                let hung = if job.queue == DiskQueue::Log { &mut machine.hung } else { &mut machine.bulk_hung };
                match hung {
                    Some(hung) => hung.push(job),
                    None => self.execute(id, &job),
                }
            }
            Output::ReadFile(read) => match &mut machine.reads_hung {
                Some(hung) => hung.push(read),
                None => self.read(id, &read),
            },
            Output::AwaitIdle if machine.is_busy => {}
            Output::AwaitIdle => self.input(id, Input::Idle),
            Output::UpdateDone { request_id, verdict } => {
                assert!(self.verdicts.insert(request_id, verdict).is_none(), "one verdict for each request");
            }
            Output::AdminDone { request_id, result } => {
                assert!(self.admin.insert(request_id, result).is_none(), "one reply for each request");
            }
            Output::ReadIndexDone { request_id, result } => {
                self.reads.insert(request_id, result);
            }
            Output::Audited { records } => machine.audited.extend(records.into_iter().map(Audited::Update)),
            Output::AuditGap { after, to } => machine.audited.push(Audited::Gap(after, to)),
            Output::ServingChanged { serving } => machine.serving = Some(serving),
            Output::Fatal { reason } => {
                machine.fatal = Some(reason);
                if let FatalReason::LogLost(contradicted) | FatalReason::LogDiverged(contradicted) = reason {
                    machine.suspected_loss = Some(contradicted.loss);
                }
            }
            Output::LossResolved => machine.suspected_loss = None,
            Output::LossUnresolved { unreported_voters } => machine.unreported_voters = unreported_voters,
            Output::Stopped => machine.is_stopped = true,
            Output::Removed { is_out } => machine.removed = Some(is_out),
            Output::ZonesReplaced => machine.zones_replaced += 1,
            Output::LeaseChanged { until_ms } => machine.lease_until_ms = until_ms,
            Output::AllLiveIndex { index, of_rotation: true } => machine.shown_by_rotation = index,
            Output::AllLiveIndex { index, of_rotation: false } => machine.shown_by_heard = index,
            Output::Published { .. }
            | Output::RoleChanged { .. }
            | Output::PeersChanged { .. }
            | Output::KeysChanged { .. }
            | Output::PoliciesChanged
            | Output::TrustChanged
            | Output::ZonesChanged { .. } => {}
        }
    }

    /// Advances time.
    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms / TICK_MS {
            self.now.monotonic_ms += TICK_MS;
            self.now.wall_ms += TICK_MS;
            for id in self.alive() {
                self.work_off(id);
                self.input(id, Input::Tick);
            }
            self.settle();
        }
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        let leads = |id: &NodeId| self.replica(*id).brief_status().role == replica::io::Role::Leader;
        let term = |id: &NodeId| self.replica(*id).brief_status().term;
        self.alive().into_iter().filter(leads).max_by_key(term)
    }

    /// Runs until a member leads and has applied its first entry.
    pub(super) fn elect(&mut self) -> NodeId {
        for _ in 0..500 {
            if let Some(leader) = self.leader()
                && self.replica(leader).has_applied_own_term()
            {
                return leader;
            }
            self.run(10);
        }
        panic!("there is no leader");
    }
}

fn writes_checkpoint(job: &DiskJob) -> bool {
    let is_it = |file: &str| file == replica::checkpoint::WRITING_FILE;
    job.ops.iter().any(|op| match op {
        DiskOp::Create { file, .. }
        | DiskOp::Write { file, .. }
        | DiskOp::Zero { file, .. }
        | DiskOp::Sync { file } => is_it(file),
        _ => false,
    })
}
