//! The thread of the replica: events in, outputs carried out in their order. See [`crate::combiner`].

use super::audit_log::AuditQueue;
use super::cluster_clock::ClockWatch;
use super::disk::DiskWork;
use super::ending::Ending;
use super::expiry::ExpiryClock;
use super::handle::{Event, ReplicaHandle, Secrets, Shared, WithZones};
use super::leisure;
use super::readers::Readers;
use super::rights::Rights;
use super::rounds::Rounds;
use super::system;
use crate::combiner::Dispatch;
use crate::limits::{REPLICA_BATCH_COUNT, REPLICA_OUTPUTS_COUNT, TICK_MS, ZONES_QUIET_BYTES};
use crate::metrics::{Counter, DurationHistogram};
use crate::peer::links::Links;
use crate::service::serving::ServingState;
use crate::service::update_thread::UpdateQueue;
use crate::stop::Stop;
use replica::Replica;
use replica::disk::DiskQueue;
use replica::io::{AdminError, AdminReply, Input, Output, ReadIndexError, Serving};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use wire::Name;

/// How long no zone must have come or gone before unused memory is given back.
const GIVE_BACK_AFTER: Duration = Duration::from_millis(500);

/// What the replica thread counts.
#[derive(Default, Debug)]
pub(crate) struct ReplicaCounters {
    pub(crate) ticks: Counter,
    pub(crate) events: Counter,
    /// Of them, those that another thread carried out in its turn.
    pub(crate) brought: Counter,
    pub(crate) published: Counter,
    pub(crate) role_changes: Counter,
    /// Time that one round of events and outputs took.
    pub(crate) round_time: DurationHistogram,
}

/// Where disk work goes.
pub(crate) struct DiskQueues {
    pub(crate) log: Sender<DiskWork>,
    pub(crate) bulk: Sender<DiskWork>,
    pub(crate) reads: Sender<DiskWork>,
    /// To the thread that gives way to all others, and says so when it runs.
    pub(super) leisure: Sender<leisure::Word>,
}

/// The thread's possessions, which whoever has a turn works with.
pub(crate) struct ReplicaThread {
    pub(crate) replica: Replica,
    pub(crate) audit: AuditQueue,
    pub(crate) shared: Arc<Shared>,
    pub(crate) links: Links<ReplicaHandle>,
    pub(crate) disks: DiskQueues,
    pub(crate) update_queue: UpdateQueue,
    pub(crate) serving: Arc<ServingState>,
    pub(crate) counters: Arc<ReplicaCounters>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) expiry: ExpiryClock,
    /// Ends those who answer clients.
    pub(crate) stop_workers: Stop,
    /// Ends the process.
    pub(crate) ending: Ending,
    pub(crate) asking: Asking,
    pub(crate) clock_watch: ClockWatch,
    /// When this thread began, zones last came, went or were replaced, or a checkpoint took entries out of memory,
    /// until the memory that this left is given back.
    pub(crate) zones_changed: Option<Instant>,
    /// What zones had copied when they were last seen busy.
    pub(crate) zones_taken: u64,
    /// Checkpoints that the replica has written.
    pub(crate) checkpoints_written: u64,
    /// Outputs of this round that wait for others: for the disk, for the audit log.
    pub(crate) put_off: [Vec<Output>; 3],
    /// What was published in this round: the audit log is told when it has the records up to there.
    pub(crate) audited_through: Option<u64>,
    /// The replica has stopped.
    pub(crate) is_over: bool,
}

/// Those who asked the replica for something and wait.
#[derive(Default)]
pub(crate) struct Asking {
    admins: HashMap<u64, oneshot::Sender<Result<AdminReply, AdminError>>>,
    /// Readers that wait for an index; their number is bounded by the replica.
    reads: HashMap<u64, oneshot::Sender<Result<u64, ReadIndexError>>>,
    /// The last number given to a command or a reader.
    last_request: u64,
}

/// What the replica still has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    None,
    More,
}

impl ReplicaThread {
    /// Works until the replica has stopped, as [`Input::Stop`] asked it to.
    pub(crate) fn run(self, events: &Receiver<Event>) {
        self.publish_keys();
        self.publish_policies();
        self.tell_memory();
        let shared = self.shared.clone();
        shared.combiner.open(self);
        let mut rounds = Rounds::new(Duration::from_millis(TICK_MS), Instant::now());
        let mut work = Work::None;
        loop {
            let wait = if work == Work::More { Duration::ZERO } else { rounds.wait(Instant::now()) };
            let event = events.recv_timeout(wait);
            let mut turn = shared.combiner.lock();
            let Some(thread) = turn.as_mut() else { return };
            thread.is_over |= matches!(event, Err(RecvTimeoutError::Disconnected));
            if !thread.is_over {
                // The panic is caught here, so that no other thread can use a replica that panicked.
                let round = catch_unwind(AssertUnwindSafe(|| thread.round(event.ok(), events, &mut rounds)));
                work = round.unwrap_or_else(|_| super::threads::replica_panicked());
            }
            if thread.is_over {
                // What it possesses ends with it, when nobody waits for its turn any more.
                let over = turn.take();
                drop(turn);
                return drop(over);
            }
        }
    }

    fn round(&mut self, event: Option<Event>, events: &Receiver<Event>, rounds: &mut Rounds) -> Work {
        let start = Instant::now();
        // What else waits shares the round: proposals become one batch.
        let mut taken = 0;
        if let Some(event) = event {
            for event in std::iter::once(event).chain(events.try_iter().take(REPLICA_BATCH_COUNT)) {
                self.shared.waiting.leave();
                self.take(event);
                taken += 1;
            }
        }
        if rounds.is_tick_due(Instant::now(), taken, self.shared.waiting.get() as usize) {
            self.counters.ticks.one();
            self.replica.handle(Input::Tick, system::now());
            self.expiry.tick(&self.replica);
            self.give_back_when_quiet();
            self.clock_watch.tick(&self.replica, &self.shared.clock);
            self.shared.zone_memory.set(&self.replica.zones().stats(), self.replica.memory_figures());
        }
        let work = self.carry_out_some();
        self.counters.round_time.record(start.elapsed());
        work
    }

    /// Carries out one event in the turn of another thread; says what is left for this one.
    pub(super) fn work_off(&mut self, event: Event) -> Work {
        let start = Instant::now();
        self.counters.brought.one();
        // A panic ends the process, whichever thread meets it.
        let carried_out = catch_unwind(AssertUnwindSafe(|| {
            self.take(event);
            self.carry_out_some()
        }));
        let work = carried_out.unwrap_or_else(|_| super::threads::replica_panicked());
        self.counters.round_time.record(start.elapsed());
        if self.is_over { Work::More } else { work }
    }

    /// A zone that was imported leaves as much memory unused in this thread as it passed through it. Where zones come
    /// one after another it is used again, so the last one is waited for.
    fn give_back_when_quiet(&mut self) {
        let written = self.replica.checkpoints_written();
        if written != self.checkpoints_written {
            self.checkpoints_written = written;
            self.zones_changed = Some(Instant::now());
        }
        // What changes leave free in the memory of zones: waited for as well, since the next ones would use it again.
        let taken = self.replica.zones().allocated_bytes();
        if taken >= self.zones_taken.saturating_add(ZONES_QUIET_BYTES) || taken < self.zones_taken {
            self.zones_taken = taken;
            self.zones_changed = self.zones_changed.map(|_| Instant::now());
        } else if self.replica.zones().is_release_due() {
            self.zones_changed.get_or_insert_with(Instant::now);
        }
        if self.zones_changed.is_some_and(|at| at.elapsed() >= GIVE_BACK_AFTER) {
            self.zones_changed = None;
            self.zones_taken = taken;
            self.replica.release_memory();
            crate::memory::trim();
        }
    }

    fn take(&mut self, event: Event) {
        self.counters.events.one();
        match event {
            Event::GoOn => {}
            Event::Input(input) => self.replica.handle(input, system::now()),
            Event::Vouched(member) => {
                self.links.add(&member);
                self.replica.handle(Input::PeerVouched { id: member.id }, system::now());
            }
            Event::Frame(from, frame, permit) => {
                self.replica.handle(Input::Peer { from, frame }, system::now());
                drop(permit);
            }
            Event::Admin(command, done) => {
                self.asking.last_request += 1;
                self.asking.admins.insert(self.asking.last_request, done);
                self.replica.handle(Input::Admin { request_id: self.asking.last_request, command }, system::now());
            }
            Event::ReadIndex(done) => {
                self.asking.last_request += 1;
                self.asking.reads.insert(self.asking.last_request, done);
                self.replica.handle(Input::ReadIndex { request_id: self.asking.last_request }, system::now());
            }
            // Who asked may have gone away meanwhile.
            Event::Status(WithZones::Yes, done) => drop(done.send(self.replica.status())),
            Event::Status(WithZones::No, done) => drop(done.send(self.replica.brief_status())),
            Event::Secrets(key, done) => drop(done.send(self.secrets(&key))),
            Event::ZoneOptions(id, done) => drop(done.send(self.replica.zone_options(&id))),
            Event::Freeze(then) => then(self.replica.zones().freeze()),
        }
    }

    /// Carries out what the replica asks for, until it asks for nothing; or until who came meanwhile gets a turn.
    ///
    /// Each thread that is woken may take this one's core at once, so those whom a client waits for come first: who
    /// answers it, then the peers, the log, the audit log, checkpoints. The order among the outputs of one kind stays;
    /// the replica lets nothing be sent before what it rests on is on the disk, so nothing else depends on it. All
    /// other outputs keep their place: one that hangs up on a peer comes after what that peer is to be told.
    fn carry_out_some(&mut self) -> Work {
        for _ in 0..REPLICA_OUTPUTS_COUNT {
            let Some(output) = self.replica.poll() else {
                self.carry_out_rest();
                return Work::None;
            };
            match output {
                Output::AwaitIdle => self.put_off[2].push(output),
                // A checkpoint waits for the audit log, which has to know first what it is about.
                Output::Disk(ref job) => self.put_off[if job.queue == DiskQueue::Log { 0 } else { 2 }].push(output),
                Output::Audited { .. } | Output::AuditGap { .. } => self.put_off[1].push(output),
                Output::Published { .. }
                | Output::UpdateDone { .. }
                | Output::ReadIndexDone { .. }
                // Sent with the rest.
                | Output::Send { .. } => self.carry_out(output),
                output => {
                    self.carry_out_rest();
                    self.is_over = matches!(output, Output::Stopped);
                    self.carry_out(output);
                    if self.is_over {
                        return Work::None;
                    }
                }
            }
        }
        self.carry_out_rest();
        Work::More
    }

    fn carry_out_rest(&mut self) {
        self.links.flush();
        for kind in 0..self.put_off.len() {
            let mut outputs = std::mem::take(&mut self.put_off[kind]);
            outputs.drain(..).for_each(|output| self.carry_out(output));
            self.put_off[kind] = outputs;
        }
        if let Some(index) = self.audited_through.take() {
            self.audit.through(index);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Send { to, lane, frame } => self.links.send(to, lane, frame),
            Output::Disk(job) => {
                let queue = if job.queue == DiskQueue::Log { &self.disks.log } else { &self.disks.bulk };
                // A writer ends only by aborting the process.
                let _ = queue.send(DiskWork::Job(job));
            }
            Output::AwaitIdle => drop(self.disks.leisure.send(leisure::Word::Asked(Instant::now()))),
            Output::ReadFile(read) => drop(self.disks.reads.send(DiskWork::Read(read))),
            Output::UpdateDone { request_id, verdict } => {
                self.shared.updates.leave();
                // It is the last that waits here, and nothing waits for the replica.
                let is_alone = self.shared.updates.get() == 0 && self.shared.waiting.get() == 0;
                self.update_queue.outcome(request_id, verdict, Dispatch::inline_if(is_alone));
            }
            Output::AdminDone { request_id, result } => {
                if let Some(done) = self.asking.admins.remove(&request_id) {
                    // Who asked may have gone away meanwhile; it is done all the same.
                    let _ = done.send(result);
                }
            }
            Output::ReadIndexDone { request_id, result } => {
                if let Some(done) = self.asking.reads.remove(&request_id) {
                    let _ = done.send(result);
                }
            }
            Output::Published { index } => self.published(index),
            Output::RoleChanged { role, term, leader } => {
                self.counters.role_changes.one();
                tracing::info!(?role, term, leader, "role changed");
            }
            Output::PeersChanged { members } => {
                // A node that joins knows its members from its configuration until it has a state of its own.
                if !members.is_empty() {
                    let membership = self.replica.membership();
                    self.links.set_members(&members, &membership);
                    self.shared.membership.send_replace(Arc::new(membership));
                }
            }
            Output::Removed { is_out } => {
                tracing::error!(is_out, "this node was removed from the cluster; it answers nobody any more");
                self.shared.removal.set(is_out);
                // On a port that others share, a socket that is left open swallows the queries of its share of clients.
                self.stop_workers.order();
            }
            Output::KeysChanged { keys: None } => self.publish_keys(),
            Output::KeysChanged { keys: Some(keys) } => self.publish_some_keys(&keys),
            Output::PoliciesChanged => self.publish_policies(),
            Output::TrustChanged => drop(self.shared.trust.send_replace(Arc::new(self.replica.trust()))),
            Output::Audited { records } => self.audit.put(records),
            Output::AuditGap { after, to } => self.audit.put_gap(after, to),
            Output::ZonesChanged { zones } => {
                self.expiry.zones_changed(&self.replica, zones);
                self.zones_changed = Some(Instant::now());
            }
            Output::ZonesReplaced => self.zones_replaced(),
            Output::ServingChanged { serving } => self.serving_changed(serving),
            Output::LeaseChanged { until_ms } => self.expiry.set_lease(until_ms),
            Output::AllLiveIndex { index, of_rotation } => self.shared.set_everywhere(index, of_rotation),
            // There is nothing to do but to end.
            Output::Stopped => {}
            Output::DoubtCleared => self.ending.doubt_cleared(),
            Output::DoubtWaits { waits_for } => self.ending.doubt_waits(&waits_for),
            Output::Fatal { reason } => self.ending.end(reason),
        }
    }

    fn serving_changed(&self, serving: Serving) {
        tracing::info!(?serving, "serving changed");
        if self.replica.serves_behind() {
            let applied = self.replica.brief_status().applied_index;
            tracing::warn!(
                applied,
                "this node knows no leader and answers with old data: its last changes before the restart cannot be \
                 confirmed until most of the nodes run"
            );
        }
        self.serving.set(serving);
    }

    fn published(&mut self, index: u64) {
        self.counters.published.one();
        self.shared.published.send_replace(index);
        self.audited_through = Some(index);
    }

    fn zones_replaced(&self) {
        self.readers.renew(|| self.replica.zone_reader());
        self.tell_memory();
    }

    /// The zones lie where they did not lie before.
    fn tell_memory(&self) {
        let memory = self.replica.zones().prefaulter();
        // That thread ends only when this one is gone.
        let _ = self.disks.leisure.send(leisure::Word::Zones(memory));
    }

    fn publish_keys(&self) {
        let rights = self.shared.rights().with_keys(self.replica.key_table(), self.replica.keys());
        self.shared.set_rights(rights);
    }

    /// Secrets in clear, and a line about it under way to the audit log.
    fn secrets(&self, key: &Name) -> Option<Secrets> {
        let secrets = self.replica.secrets(key)?;
        let (done, written) = oneshot::channel();
        // Without room for the line its sender is gone, and nothing is shown.
        self.audit.put_local(system::now().wall_ms, "key show", key.to_string(), done);
        Some(Secrets { secrets, written })
    }

    /// Those alone, whose secrets are opened: of 100,000 others nothing is touched.
    fn publish_some_keys(&self, keys: &[Name]) {
        let replica = &self.replica;
        let with = |rights: Rights, name| rights.with_key(name, replica.opened_key(name), replica.key(name));
        let before = self.shared.rights();
        self.shared.set_rights(keys.iter().fold((*before).clone(), with));
    }

    /// Apart from the keys, whose secrets cost time to open.
    fn publish_policies(&self) {
        let (policies, update_grant) = self.replica.policies();
        self.shared.set_rights(self.shared.rights().with_policies(policies, update_grant));
    }
}
