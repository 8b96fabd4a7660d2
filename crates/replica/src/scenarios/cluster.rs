//! A whole cluster in one thread, by hand: lists of frames, disks that answer at once, a clock that is told.

use crate::disk::{DiskJob, DiskOp, DiskQueue, DiskRead, ReadFile};
use crate::io::{
    AdminCommand, AdminError, AdminReply, Contents, Doubt, FatalReason, Input, KeyAlgorithm, Member, MemberState,
    NodeId, Now, Output, ReadIndexError, Right, Serving, Transport, UpdateRequest, Verdict, ZoneOptions,
};
use crate::log::LogConfig;
use crate::peer::Frame;
use crate::policy::External;
use crate::testing::MemoryDisk;
use crate::update::client::{ClientKey, UpdateBuilder};
use crate::update::{Authenticated, authenticate};
use crate::{DataKey, Replica, ReplicaConfig};
use core::net::SocketAddr;
use raft::eraftpb::MessageType;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Parsed, parse_request};
use zone::set::StoreConfig;
use zone::{Record, ZoneId};

pub(super) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Another secret for the key that a cluster begins with.
pub(super) fn roll_key(secret: &[u8], nonce: u8) -> AdminCommand {
    let (algorithm, secret) = (KeyAlgorithm::HmacSha256, secret.to_vec());
    AdminCommand::RollKey { name: name("key."), algorithm, secret, nonce: [nonce; 12] }
}
const START_WALL_MS: u64 = 1_700_000_000_000;

/// One machine: its disk stays when its process dies.
#[derive(Default)]
pub(super) struct Machine {
    pub(super) disk: MemoryDisk,
    pub(super) replica: Option<Replica>,
    pub(super) boot_id: u64,
    /// Jobs of a log disk that hangs.
    pub(super) hung: Option<Vec<DiskJob>>,
    /// Jobs that wait for room on the disk, and those behind them, by queue.
    pub(super) waiting: BTreeMap<DiskQueue, VecDeque<DiskJob>>,
    /// Queues that were reported to have no room.
    pub(super) full: BTreeSet<DiskQueue>,
    /// Jobs of a bulk queue that hangs.
    pub(super) bulk_hung: Option<Vec<DiskJob>>,
    /// It never has leisure.
    pub(super) is_busy: bool,
    /// Jobs that write a checkpoint of its own, while they hang.
    pub(super) writing_hung: Option<Vec<DiskJob>>,
    /// Reads, while they hang.
    pub(super) reads_hung: Option<Vec<ReadFile>>,
    pub(super) serving: Option<Serving>,
    /// Whether raft has ceased to count it, once it knows that it was removed.
    pub(super) removed: Option<bool>,
    pub(super) fatal: Option<FatalReason>,
    /// What the next start is told of the log.
    pub(super) doubt: Option<Doubt>,
    /// The voters that the member last reported it waits for because of a torn record.
    pub(super) waits_for: Vec<NodeId>,
    pub(super) is_stopped: bool,
    /// What the audit log of the member holds.
    pub(super) audited: Vec<Audited>,
    pub(super) zones_replaced: usize,
    pub(super) lease_until_ms: u64,
    /// Milliseconds by which its wall clock is ahead.
    pub(super) wall_error_ms: i64,
    /// How far it was told that all in the rotation show everything, and that all do that are heard.
    pub(super) shown_by_rotation: u64,
    pub(super) shown_by_heard: u64,
}

/// From whom, to whom, and what.
type Sent = (NodeId, NodeId, Vec<u8>);

pub(super) struct Cluster {
    pub(super) machines: BTreeMap<NodeId, Machine>,
    pub(super) now: Now,
    /// When each arrives, in the order in which they were sent.
    frames: VecDeque<(u64, Sent)>,
    /// How long a frame is on its way.
    pub(super) way_ms: u64,
    /// Directions that lose everything.
    pub(super) cut: BTreeSet<(NodeId, NodeId)>,
    /// Says which frames are lost.
    pub(super) lose: fn(&[u8]) -> bool,
    pub(super) verdicts: BTreeMap<u64, Verdict>,
    pub(super) admin: BTreeMap<u64, Result<AdminReply, AdminError>>,
    pub(super) reads: BTreeMap<u64, Result<u64, ReadIndexError>>,
    next_request: u64,
    next_id: u16,
    pub(super) log: LogConfig,
    pub(super) session_count_max: usize,
    /// What the daemons of whoever takes an update say.
    pub(super) external: External,
}

pub(super) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

pub(super) fn zone_id(apex: &str) -> ZoneId {
    ZoneId { view: 0, apex: name(apex) }
}

pub(super) fn soa(apex: &str, serial: u32) -> Record {
    let mut rdata = [name("ns.invalid.").octets(), name("root.invalid.").octets()].concat();
    for number in [serial, 3_600, 600, 86_400, 300] {
        rdata.extend_from_slice(&number.to_be_bytes());
    }
    Record { owner: name(apex), rtype: Rtype::SOA, ttl: 300, rdata: rdata.into() }
}

/// A zone with so many hosts, each with a text.
pub(super) fn large_zone(apex: &str, serial: u32, hosts: u32) -> Vec<Record> {
    let mut all = records(apex, serial);
    all.extend((0..hosts).map(|number| Record {
        owner: name(&format!("host-{number}.{apex}")),
        rtype: Rtype::TXT,
        ttl: 60,
        rdata: [20; 21].into(),
    }));
    all
}

/// The smallest zone.
pub(super) fn records(apex: &str, serial: u32) -> Vec<Record> {
    let ns = Record { owner: name(apex), rtype: Rtype::NS, ttl: 300, rdata: name("ns.invalid.").octets().into() };
    vec![soa(apex, serial), ns]
}

pub(super) fn address(last: u8) -> Record {
    let owner = name(&format!("a{last}.example.test."));
    Record { owner, rtype: Rtype::A, ttl: 60, rdata: [192, 0, 2, last].into() }
}

/// A signed UPDATE that adds a record.
pub(super) fn add(record: &Record, id: u16, wall_ms: u64) -> Vec<u8> {
    let builder = UpdateBuilder::new(id, name("example.test.").as_ref());
    let message = builder.add(record.owner.as_ref(), record.ttl, record.rtype, &record.rdata).finish();
    sign(message, wall_ms)
}

pub(super) fn sign(message: Vec<u8>, wall_ms: u64) -> Vec<u8> {
    let key = ClientKey::new(name("key.").as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap();
    key.sign(message, wall_ms / 1_000).unwrap()
}

/// One line of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Audited {
    Update(crate::io::AuditRecord),
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
    /// Founders 1 to `count`, started, none elected.
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
            external: External::default(),
        };
        let members: Vec<_> = (1..=count).map(|id| Member { id, address: format!("[::1]:{}", 7_000 + id) }).collect();
        for id in 1..=count {
            let mut machine = Machine::default();
            for op in Replica::init(&cluster.config(id), &members).unwrap() {
                machine.disk.execute(&op);
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
        config.doubt = self.machines.get(&id).and_then(|machine| machine.doubt);
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
        machine.doubt = replica.doubt();
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

    /// kill -9: the process is gone, its peers see the connections end and nobody listening.
    pub(super) fn kill(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).unwrap();
        machine.replica = None;
        machine.waiting.clear();
        machine.full.clear();
        self.frames.retain(|&(_, (from, to, _))| from != id && to != id);
        let now = self.now;
        for machine in self.machines.values_mut() {
            if let Some(replica) = &mut machine.replica {
                replica.handle(Input::PeerGone { id, refused: true }, now);
            }
        }
    }

    /// Nothing reaches this one any more, nor comes from it, and nobody is told.
    pub(super) fn cut_off(&mut self, id: NodeId) {
        for other in self.machines.keys().copied().filter(|&other| other != id) {
            self.cut.extend([(id, other), (other, id)]);
        }
    }

    /// Power is lost: what was not synced arrives in part, the same part each time.
    pub(super) fn lose_power(&mut self, id: NodeId) {
        self.kill(id);
        let mut state = 88_172_645_463_325_252u64;
        self.machines.get_mut(&id).unwrap().disk.crash(&mut |count| {
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

    /// Carries out everything until nothing moves.
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
                    self.vouch(to, from);
                    self.input(to, Input::Peer { from, frame });
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the cluster never comes to rest");
    }

    /// What is on its way from one to the other.
    pub(super) fn on_the_way(&self, from: NodeId, to: NodeId) -> Vec<Frame> {
        let sent = self.frames.iter().filter(|(_, sent)| (sent.0, sent.1) == (from, to));
        sent.map(|(_, sent)| Frame::decode(&sent.2).unwrap().1).collect()
    }

    /// What a shell does before it takes frames from an id that its replica does not know: it asks a member that the
    /// replica knows; one that knows nobody asks the node that it joined through.
    pub(super) fn vouch(&mut self, to: NodeId, from: NodeId) {
        if self.replica(to).admits(from) {
            return;
        }
        let membership = self.replica(to).membership();
        let is_asked = |&id: &NodeId| {
            let is_reached = !self.cut.contains(&(id, to)) && !self.cut.contains(&(to, id));
            let is_known = membership.is_member(id) || membership.members().next().is_none();
            ![from, to].contains(&id) && is_reached && is_known
        };
        let knows = |id: NodeId| self.replica(id).membership().is_member(from);
        if membership.standing(from) == MemberState::Unknown && self.alive().into_iter().filter(is_asked).any(knows) {
            self.input(to, Input::PeerVouched { id: from });
        }
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
            Output::AwaitLeisure if machine.is_busy => {}
            Output::AwaitLeisure => self.input(id, Input::Leisure),
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
                if let FatalReason::LogLost(said) | FatalReason::LogDiverged(said) = reason {
                    machine.doubt = Some(said.doubt);
                }
            }
            Output::DoubtCleared => machine.doubt = None,
            Output::DoubtWaits { waits_for } => machine.waits_for = waits_for,
            Output::Stopped => machine.is_stopped = true,
            Output::Removed { is_out } => machine.removed = Some(is_out),
            Output::ZonesReplaced => machine.zones_replaced += 1,
            Output::LeaseChanged { until_ms } => machine.lease_until_ms = until_ms,
            Output::Everywhere { index, of_rotation: true } => machine.shown_by_rotation = index,
            Output::Everywhere { index, of_rotation: false } => machine.shown_by_heard = index,
            Output::Published { .. }
            | Output::RoleChanged { .. }
            | Output::PeersChanged { .. }
            | Output::KeysChanged { .. }
            | Output::PoliciesChanged
            | Output::TrustChanged
            | Output::ZonesChanged { .. } => {}
        }
    }

    fn execute(&mut self, id: NodeId, job: &DiskJob) {
        let machine = self.machines.get_mut(&id).unwrap();
        machine.waiting.entry(job.queue).or_default().push_back(job.clone());
        if !machine.full.contains(&job.queue) {
            self.work_off(id, job.queue);
        }
    }

    /// Executes the jobs of a queue as far as the disk has room.
    fn work_off(&mut self, id: NodeId, queue: DiskQueue) {
        loop {
            let machine = self.machines.get_mut(&id).unwrap();
            let Some(mut job) = machine.waiting.get_mut(&queue).and_then(VecDeque::pop_front) else { return };
            while let Some(op) = job.ops.first().filter(|op| machine.disk.has_room(op)) {
                machine.disk.execute(op);
                job.ops.remove(0);
            }
            if !job.ops.is_empty() {
                machine.waiting.entry(queue).or_default().push_front(job);
                if machine.full.insert(queue) {
                    self.input(id, Input::DiskFull { queue });
                }
                return;
            }
            if machine.full.remove(&queue) {
                self.input(id, Input::DiskRoom { queue });
            }
            self.input(id, Input::Persisted { queue, ticket: job.ticket });
        }
    }

    /// Has the disk full from now on, or not any more.
    pub(super) fn fill_disk(&mut self, id: NodeId, is_full: bool) {
        let disk = &mut self.machines.get_mut(&id).unwrap().disk;
        disk.set_capacity(is_full.then_some(0));
    }

    fn read(&mut self, id: NodeId, read: &ReadFile) {
        let octets = self.machines[&id].disk.read(&read.file, read.offset, read.len).unwrap();
        self.input(id, Input::FileRead { ticket: read.ticket, octets });
    }

    /// What it reads comes again.
    pub(super) fn unhang_reads(&mut self, id: NodeId) {
        for read in self.machines.get_mut(&id).unwrap().reads_hung.take().unwrap() {
            self.read(id, &read);
        }
        self.settle();
    }

    /// Connections between the two end and are made anew: what was on its way is lost.
    pub(super) fn reconnect(&mut self, one: NodeId, other: NodeId) {
        self.frames.retain(|&(_, (from, to, _))| [(one, other), (other, one)].iter().all(|pair| (from, to) != *pair));
        for (id, peer) in [(one, other), (other, one)] {
            let boot_id = self.machines[&peer].boot_id;
            self.input(id, Input::PeerGone { id: peer, refused: false });
            self.input(id, Input::PeerConnected { id: peer, boot_id });
        }
        self.settle();
    }

    /// Its own checkpoint is written on.
    pub(super) fn unhang_writing(&mut self, id: NodeId) {
        for job in self.machines.get_mut(&id).unwrap().writing_hung.take().unwrap() {
            self.execute(id, &job);
        }
    }

    /// What hung of its bulk queue until now is done; what follows from it hangs again.
    pub(super) fn step_bulk(&mut self, id: NodeId) {
        let hung = self.machines.get_mut(&id).unwrap().bulk_hung.replace(Vec::new());
        for job in hung.into_iter().flatten() {
            self.execute(id, &job);
        }
        self.settle();
    }

    /// The hung disk works again.
    pub(super) fn unhang(&mut self, id: NodeId) {
        let machine = self.machines.get_mut(&id).unwrap();
        let hung = [machine.hung.take(), machine.bulk_hung.take()];
        for job in hung.into_iter().flatten().flatten() {
            self.execute(id, &job);
        }
        self.settle();
    }

    /// Time passes.
    pub(super) fn run(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.now.monotonic_ms += 10;
            self.now.wall_ms += 10;
            for id in self.alive() {
                for queue in self.machines[&id].full.clone() {
                    self.work_off(id, queue);
                }
                self.input(id, Input::Tick);
            }
            self.settle();
        }
    }

    pub(super) fn leader(&self) -> Option<NodeId> {
        let leads = |id: &NodeId| self.replica(*id).status().role == crate::io::Role::Leader;
        let term = |id: &NodeId| self.replica(*id).status().term;
        self.alive().into_iter().filter(leads).max_by_key(term)
    }

    /// Runs until somebody leads and has applied its first entry.
    pub(super) fn elect(&mut self) -> NodeId {
        for _ in 0..500 {
            if let Some(leader) = self.leader()
                && self.replica(leader).driver.has_applied_own_term()
            {
                return leader;
            }
            self.run(10);
        }
        panic!("nobody leads");
    }

    pub(super) fn admin(&mut self, id: NodeId, command: AdminCommand) -> u64 {
        let request_id = self.next_request;
        self.next_request += 1;
        self.input(id, Input::Admin { request_id, command });
        self.settle();
        request_id
    }

    /// A command that must be done within a second.
    pub(super) fn admin_ok(&mut self, id: NodeId, command: AdminCommand) -> AdminReply {
        let request = self.admin(id, command);
        self.run(1_000);
        self.admin[&request].clone().unwrap()
    }

    /// Elected, with `example.test.`, and `key.` that may update and transfer everything.
    pub(super) fn with_zone(count: u64) -> Self {
        let mut cluster = Self::new(count);
        cluster.prepare();
        cluster
    }

    pub(super) fn prepare(&mut self) {
        let leader = self.elect();
        let other = self.alive().into_iter().rfind(|&id| id != leader).unwrap_or(leader);
        let zone = AdminCommand::AddZone {
            zone: zone_id("example.test."),
            options: ZoneOptions::default(),
            contents: Contents::new(&zone_id("example.test."), records("example.test.", 1)).unwrap(),
        };
        assert_eq!(self.admin_ok(other, zone), AdminReply::Done);
        let (name, secret) = (name("key."), SECRET.to_vec());
        let key = AdminCommand::AddKey { name, algorithm: KeyAlgorithm::HmacSha256, secret, nonce: [1; 12] };
        assert_eq!(self.admin_ok(leader, key), AdminReply::Done);
        let grant = AdminCommand::Grant { key: "key.".parse().unwrap(), zone: None, right: Right::Update };
        assert_eq!(self.admin_ok(other, grant), AdminReply::Done);
    }

    /// An UPDATE as a client's octets, as a shell would hand it over whose zones and grants say nothing against it.
    pub(super) fn update_octets(&mut self, id: NodeId, message: Vec<u8>, source: &str) -> u64 {
        self.update_octets_over(Transport::Udp, id, message, source)
    }

    pub(super) fn update_octets_over(
        &mut self,
        transport: Transport,
        id: NodeId,
        message: Vec<u8>,
        source: &str,
    ) -> u64 {
        self.update_through(transport, id, message, source, None)
    }

    /// The same through a shell that looks at the zones and the grants of its node first.
    pub(super) fn update_looked_at(&mut self, id: NodeId, message: Vec<u8>, source: &str) -> u64 {
        let zone = zone_id("example.test.");
        let replica = self.replica(id);
        let is_open = replica.serving() != Serving::No && replica.zones().published().zone(&zone).is_some();
        let is_granted = replica.is_granted(&name("key."), &zone, Right::Update);
        self.update_through(Transport::Udp, id, message, source, (!is_open || !is_granted).then_some(zone))
    }

    fn update_through(
        &mut self,
        transport: Transport,
        id: NodeId,
        message: Vec<u8>,
        source: &str,
        refused_for: Option<ZoneId>,
    ) -> u64 {
        let request_id = self.next_request;
        self.next_request += 1;
        let keys = self.replica(id).key_table();
        let Parsed::Request(request) = parse_request(&message) else { panic!("no request") };
        let now_s = self.now.wall_ms / 1_000;
        let Authenticated::Verified { verified, .. } = authenticate(&request, &keys, now_s) else {
            panic!("not verified")
        };
        let source: SocketAddr = source.parse().unwrap();
        let external = self.external.clone();
        let request = UpdateRequest { request_id, source, transport, message, verified, refused_for, external };
        self.input(id, Input::Update(request));
        request_id
    }

    /// Sends an UPDATE that adds a record, and lets the cluster come to rest.
    pub(super) fn add(&mut self, id: NodeId, record: &Record) -> u64 {
        self.next_id += 1;
        let message = add(record, self.next_id, self.now.wall_ms);
        let request = self.update_octets(id, message, "192.0.2.200:4000");
        self.settle();
        request
    }

    pub(super) fn has(&self, id: NodeId, record: &Record) -> bool {
        let published = self.replica(id).zones().published();
        let zone = published.zone(&zone_id("example.test.")).unwrap();
        let rrset = zone.rrset(record.owner.as_ref(), record.rtype);
        rrset.is_some_and(|rrset| rrset.rdatas().any(|rdata| *rdata == *record.rdata))
    }

    pub(super) fn serial(&self, id: NodeId) -> u32 {
        let published = self.replica(id).zones().published();
        published.zone(&zone_id("example.test.")).unwrap().serial().unwrap().0
    }

    /// All that are alive and at rest hold the same, without an alarm.
    pub(super) fn assert_same(&self) {
        let hashes: BTreeSet<_> = self.alive().into_iter().map(|id| self.replica(id).state_hash()).collect();
        assert_eq!(hashes.len(), 1, "{hashes:?}");
        for id in self.alive() {
            let status = self.replica(id).status();
            assert_eq!(status.alarms, crate::Alarms::default(), "{id}");
            assert_eq!(status.fatal, None);
        }
    }

    pub(super) fn verdict(&self, request: u64) -> Option<Verdict> {
        self.verdicts.get(&request).copied()
    }

    pub(super) fn assert_done(&self, request: u64) {
        assert_eq!(self.verdict(request), Some(Verdict::Answer(Rcode::NOERROR)));
    }
}

/// Frames that tell a leader what its followers have.
pub(super) fn is_append_response(frame: &[u8]) -> bool {
    let is_it = |message: &raft::eraftpb::Message| message.get_msg_type() == MessageType::MsgAppendResponse;
    matches!(Frame::decode(frame), Ok((_, Frame::Raft(message))) if is_it(&message))
}

fn writes_checkpoint(job: &DiskJob) -> bool {
    let is_it = |file: &str| file == crate::checkpoint::WRITING_FILE;
    job.ops.iter().any(|op| match op {
        DiskOp::Create { file, .. }
        | DiskOp::Write { file, .. }
        | DiskOp::Zero { file, .. }
        | DiskOp::Sync { file } => is_it(file),
        _ => false,
    })
}
