//! Counts the allocations for one update on three members, from the receiving node to the last member that applies
//! it: forwarding, evaluation, encoding, log, replication, decoding, application and response. Only allocations in
//! the members count, not those of this test's disks and network.

use catamaran_replica::disk::{DiskJob, DiskRead};
use catamaran_replica::io::{
    AdminCommand, Contents, Input, Member, NodeId, Now, Output, Right, Role, Transport, UpdateRequest, Verdict,
    ZoneOptions,
};
use catamaran_replica::testing::MemoryDisk;
use catamaran_replica::{DataKey, Replica, ReplicaConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use tsig::client::{ClientKey, UpdateBuilder};
use tsig::{Authenticated, KeyAlgorithm, authenticate};
use wire::name::Name;
use wire::number::{Rcode, Rtype};
use wire::parse::{Parsed, parse_request};
use zone::set::StoreConfig;
use zone::{Record, ZoneId};

/// Allocations of all three members for a single update.
const ALONE_MAX: u64 = 420;
/// Allocations per update for several updates at once.
const TOGETHER_MAX: u64 = 300;
/// Number of updates at once.
const TOGETHER: u64 = 64;

thread_local! {
    /// Number of allocations, and their bytes.
    static COUNT: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
    static IS_ON: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: every call is passed unchanged to the system's allocator. The counters are thread-local cells without
// destructor, and access to them does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if IS_ON.get() {
            let (count, bytes) = COUNT.get();
            COUNT.set((count + 1, bytes + layout.size() as u64));
        }
        // SAFETY: the caller keeps to the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a function with the counters on.
fn counted<T>(run: impl FnOnce() -> T) -> T {
    IS_ON.set(true);
    let result = run();
    IS_ON.set(false);
    result
}

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const WALL_MS: u64 = 1_700_000_000_000;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

struct Cluster {
    members: Vec<(Replica, MemoryDisk)>,
    frames: VecDeque<(NodeId, NodeId, Vec<u8>)>,
    now: Now,
    verdicts: Vec<Verdict>,
    admins: usize,
    updates: u64,
}

impl Cluster {
    fn new() -> Self {
        let founders: Vec<_> = (1..=3).map(|id| Member { id, address: format!("[::1]:{}", 7_000 + id) }).collect();
        let now = Now { monotonic_ms: 1_000, wall_ms: WALL_MS };
        let member = |id: u64| {
            let config = || {
                let mut config = ReplicaConfig::new([7; 16], id, id << 32, 5, DataKey::new(1, &[9; 32]));
                config.store = StoreConfig { reserve_bytes: 64 << 20, huge_pages: false };
                config
            };
            let mut disk = MemoryDisk::default();
            Replica::init(&config(), &founders).unwrap().iter().for_each(|op| disk.execute(op));
            let replica = Replica::open(&disk, config(), now).unwrap();
            (replica, disk)
        };
        let members = (1..=3).map(member).collect();
        let mut cluster = Self { members, frames: VecDeque::new(), now, verdicts: Vec::new(), admins: 0, updates: 0 };
        cluster.wait(|cluster| cluster.leader().is_some());
        cluster.prepare();
        cluster
    }

    fn leader(&self) -> Option<usize> {
        self.members.iter().position(|(replica, _)| replica.brief_status().role == Role::Leader)
    }

    fn prepare(&mut self) {
        let zone = ZoneId { view: 0, apex: name("example.test.") };
        let mut soa = [name("ns.invalid.").as_bytes(), name("root.invalid.").as_bytes()].concat();
        [1u32, 3_600, 600, 86_400, 300].iter().for_each(|number| soa.extend_from_slice(&number.to_be_bytes()));
        let record = |rtype, rdata: &[u8]| Record { owner: zone.apex.clone(), rtype, ttl: 300, rdata: rdata.into() };
        let records = vec![record(Rtype::SOA, &soa), record(Rtype::NS, name("ns.invalid.").as_bytes())];
        let contents = Contents::new(&zone, records).unwrap();
        let (key, algorithm, secret) = (name("key."), KeyAlgorithm::HmacSha256, SECRET.to_vec());
        for command in [
            AdminCommand::AddZone { zone, options: ZoneOptions::default(), contents },
            AdminCommand::AddKey { name: key.clone(), algorithm, secret, nonce: [1; 12] },
            AdminCommand::Grant { key, zone: None, right: Right::Update },
        ] {
            let done = self.admins + 1;
            let leader = self.leader().unwrap();
            self.handle(leader, Input::Admin { request_id: done as u64, command });
            self.wait(|cluster| cluster.admins == done);
        }
        self.wait(|cluster| {
            let mut hashes: Vec<_> = cluster.members.iter().map(|(replica, _)| replica.state_hash()).collect();
            hashes.dedup();
            hashes.len() == 1
        });
    }

    fn wait(&mut self, is_done: impl Fn(&Self) -> bool) {
        for _ in 0..2_000 {
            if is_done(self) {
                return;
            }
            self.now.monotonic_ms += 10;
            self.now.wall_ms += 10;
            (0..self.members.len()).for_each(|at| self.handle(at, Input::Tick));
            self.settle();
        }
        panic!("the cluster does not get there");
    }

    fn handle(&mut self, at: usize, input: Input) {
        let now = self.now;
        counted(|| self.members[at].0.handle(input, now));
    }

    /// Executes all outputs until there are none.
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            for at in 0..self.members.len() {
                while let Some(output) = counted(|| self.members[at].0.poll()) {
                    moved = true;
                    self.carry_out(at, output);
                }
            }
            while let Some((from, to, frame)) = self.frames.pop_front() {
                moved = true;
                self.handle(to as usize - 1, Input::Peer { from, frame });
            }
            if !moved {
                return;
            }
        }
    }

    fn carry_out(&mut self, at: usize, output: Output) {
        match output {
            Output::Send { to, frame, .. } => self.frames.push_back((at as u64 + 1, to, frame)),
            Output::Disk(DiskJob { queue, ticket, ops }) => {
                ops.iter().for_each(|op| self.members[at].1.execute(op));
                self.handle(at, Input::Persisted { queue, ticket });
            }
            Output::ReadFile(read) => {
                let bytes = self.members[at].1.read(&read.file, read.offset, read.len).unwrap();
                self.handle(at, Input::FileRead { ticket: read.ticket, bytes });
            }
            Output::UpdateDone { verdict, .. } => self.verdicts.push(verdict),
            Output::AdminDone { result, .. } => {
                result.unwrap();
                self.admins += 1;
            }
            Output::Fatal { reason } => panic!("{reason:?}"),
            _ => {}
        }
    }

    /// A signed update that replaces one record, as a node's shell passes it on.
    fn request(&mut self, at: usize) -> UpdateRequest {
        self.updates += 1;
        let owner = name(&format!("host-{}.example.test.", self.updates % 100));
        let number = self.updates.to_be_bytes();
        let message = UpdateBuilder::new(self.updates as u16, name("example.test.").as_ref())
            .delete_rrset(owner.as_ref(), Rtype::A)
            .add(owner.as_ref(), 60, Rtype::A, &number[4..])
            .finish();
        let key = ClientKey::new(name("key.").as_ref(), KeyAlgorithm::HmacSha256, SECRET).unwrap();
        let now_s = self.now.wall_ms / 1_000;
        let message = key.sign(message, now_s).unwrap();
        let keys = self.members[at].0.key_table();
        let Parsed::Request(request) = parse_request(&message) else { panic!("no request") };
        let Authenticated::Verified { verified, .. } = authenticate(&request, &keys, now_s) else {
            panic!("not verified")
        };
        UpdateRequest {
            request_id: self.updates,
            source: "192.0.2.1:4000".parse().unwrap(),
            transport: Transport::Udp,
            message,
            verified,
            refused_for: None,
            external: Default::default(),
        }
    }

    /// Allocations and bytes per update, for `count` updates at once at one member.
    fn measure(&mut self, at: usize, count: u64) -> (u64, u64) {
        let requests: Vec<_> = (0..count).map(|_| self.request(at)).collect();
        self.verdicts.clear();
        COUNT.set((0, 0));
        for request in requests {
            self.handle(at, Input::Update(request));
        }
        self.settle();
        let (allocations, bytes) = COUNT.get();
        assert_eq!(self.verdicts, vec![Verdict::Answer(Rcode::NOERROR); count as usize]);
        (allocations / count, bytes / count)
    }
}

#[test]
fn an_update_allocates_no_more_than_a_bounded_number_of_times() {
    let mut cluster = Cluster::new();
    let leader = cluster.leader().unwrap();
    let follower = (leader + 1) % 3;
    // Warm-up: tables and queues have their size, and all owners exist.
    for _ in 0..4 {
        cluster.measure(follower, TOGETHER);
    }
    let runs = |cluster: &mut Cluster, at, count| {
        let mut runs: Vec<_> = (0..20).map(|_| cluster.measure(at, count)).collect();
        runs.sort_unstable();
        runs[10]
    };
    for at in [leader, follower] {
        let (alone, together) = (runs(&mut cluster, at, 1), runs(&mut cluster, at, TOGETHER));
        let through = if at == leader { "the leader" } else { "a follower" };
        println!("allocations and bytes per update through {through}: alone {alone:?}, together {together:?}");
        assert!(alone.0 > 0 && together.0 > 0, "the allocator counts nothing");
        assert!(alone.0 <= ALONE_MAX, "a single update allocates {} times", alone.0);
        assert!(together.0 <= TOGETHER_MAX, "one of {TOGETHER} simultaneous updates allocates {} times", together.0);
    }
}
