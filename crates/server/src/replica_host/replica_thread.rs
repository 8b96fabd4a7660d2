//! The thread of the replica: handles events and executes the outputs. See [`crate::combiner`].

use super::background;
use super::cluster_clock::ClockWatch;
use super::disk::DiskWork;
use super::event::{Event, Secrets, WithZones};
use super::expiry::ExpiryClock;
use super::fatal::FatalExit;
use super::peer_links::PeerLinks;
use super::shared::Shared;
use super::tick_schedule::TickSchedule;
use crate::audit_log::AuditQueue;
use crate::combiner::{Combiner, Dispatch};
use crate::limits::{REPLICA_BATCH_COUNT, REPLICA_OUTPUTS_COUNT, TICK_MS};
use crate::metrics::{Counter, DurationHistogram};
use crate::published::readers::Readers;
use crate::published::rights::Rights;
use crate::published::serving::ServingState;
use crate::sys::clock;
use crate::update_queue::UpdateQueue;
use process::stop::Stop;
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

/// Zones that copied this many bytes since the last check are busy.
const ZONES_QUIET_BYTES: u64 = 8 << 20;
/// Unused memory is given back when no zone was added or removed for this long.
const GIVE_BACK_AFTER: Duration = Duration::from_millis(500);

/// Counters of the replica thread.
#[derive(Default, Debug)]
pub(crate) struct ReplicaCounters {
    pub(crate) ticks: Counter,
    pub(crate) events: Counter,
    /// Events that another thread ran inline.
    pub(crate) inline_events: Counter,
    pub(crate) published: Counter,
    pub(crate) role_changes: Counter,
    /// Duration of one round of events and outputs.
    pub(crate) round_time: DurationHistogram,
}

/// The queues of the disk threads.
pub(crate) struct DiskQueues {
    pub(crate) log: Sender<DiskWork>,
    pub(crate) bulk: Sender<DiskWork>,
    pub(crate) reads: Sender<DiskWork>,
    /// The queue of the thread that reports idle time for background work.
    pub(crate) background: Sender<background::Message>,
}

/// The replica and everything that its outputs need. The thread that holds the lock runs it.
pub(crate) struct ReplicaThread {
    pub(crate) replica: Replica,
    pub(crate) audit: AuditQueue,
    pub(crate) shared: Arc<Shared>,
    pub(crate) links: Box<dyn PeerLinks>,
    pub(crate) disks: DiskQueues,
    pub(crate) update_queue: UpdateQueue,
    pub(crate) serving: Arc<ServingState>,
    pub(crate) counters: Arc<ReplicaCounters>,
    pub(crate) readers: Arc<Readers>,
    pub(crate) expiry: ExpiryClock,
    /// Stops the threads that answer clients.
    pub(crate) stop_workers: Stop,
    /// Ends the process after a fatal error.
    pub(crate) fatal_exit: FatalExit,
    pub(crate) pending: PendingRequests,
    pub(crate) clock_watch: ClockWatch,
    /// When the thread started, zones were last added, removed or replaced, or a checkpoint took entries out of memory.
    /// `None` once the memory that this left unused was given back.
    pub(crate) zones_changed: Option<Instant>,
    /// Bytes that zones had copied when they last changed much.
    pub(crate) zones_taken: u64,
    /// Checkpoints that the replica has written.
    pub(crate) checkpoints_written: u64,
    /// Outputs that run at the end of the round: for the log, the audit log, and the other queues.
    pub(crate) deferred: [Vec<Output>; 3],
    /// The index published in this round. The audit log gets it after its records up to that index.
    pub(crate) audited_through: Option<u64>,
    /// The replica has stopped.
    pub(crate) is_over: bool,
}

/// Pending requests of other threads.
#[derive(Default)]
pub(crate) struct PendingRequests {
    admins: HashMap<u64, oneshot::Sender<Result<AdminReply, AdminError>>>,
    /// Pending linearizable reads; the replica limits their number.
    reads: HashMap<u64, oneshot::Sender<Result<u64, ReadIndexError>>>,
    /// The last request id of a command or read.
    last_request: u64,
}

/// Whether the replica has more work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    None,
    More,
}

impl ReplicaThread {
    /// Runs until the replica has stopped after [`Input::Stop`]. Meanwhile `combiner` lets other threads run it.
    pub(crate) fn run(self, events: &Receiver<Event>, combiner: &Combiner<Self>) {
        self.publish_keys();
        self.publish_policies();
        self.send_zone_memory();
        combiner.open(self);
        let mut schedule = TickSchedule::new(Duration::from_millis(TICK_MS), Instant::now());
        let mut work = Work::None;
        loop {
            let wait = if work == Work::More { Duration::ZERO } else { schedule.wait(Instant::now()) };
            let event = events.recv_timeout(wait);
            let mut locked = combiner.lock();
            let Some(thread) = locked.as_mut() else { return };
            thread.is_over |= matches!(event, Err(RecvTimeoutError::Disconnected));
            if !thread.is_over {
                // The panic is caught here, so that no other thread can use a replica that panicked.
                let round = catch_unwind(AssertUnwindSafe(|| thread.round(event.ok(), events, &mut schedule)));
                work = round.unwrap_or_else(|_| replica_panicked());
            }
            if thread.is_over {
                // Drop the state after the lock is released.
                let over = locked.take();
                drop(locked);
                return drop(over);
            }
        }
    }

    fn round(&mut self, event: Option<Event>, events: &Receiver<Event>, schedule: &mut TickSchedule) -> Work {
        let start = Instant::now();
        // Waiting events join the round, so that proposals become one batch.
        let mut taken = 0;
        if let Some(event) = event {
            for event in std::iter::once(event).chain(events.try_iter().take(REPLICA_BATCH_COUNT)) {
                self.shared.waiting.leave();
                self.handle_event(event);
                taken += 1;
            }
        }
        if schedule.is_tick_due(Instant::now(), taken, self.shared.waiting.get() as usize) {
            self.counters.ticks.one();
            self.replica.handle(Input::Tick, clock::now());
            self.expiry.tick(&self.replica);
            self.give_back_when_quiet();
            self.clock_watch.tick(&self.replica, &self.shared.clock);
            self.shared.zone_memory.set(&self.replica.zones().stats(), self.replica.memory_figures());
        }
        let work = self.execute_outputs();
        self.counters.round_time.record(start.elapsed());
        work
    }

    /// Runs one event on another thread. Returns whether the replica thread has more work.
    pub(crate) fn run_inline(&mut self, event: Event) -> Work {
        let start = Instant::now();
        self.counters.inline_events.one();
        // A panic ends the process, on any thread.
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.handle_event(event);
            self.execute_outputs()
        }));
        let work = result.unwrap_or_else(|_| replica_panicked());
        self.counters.round_time.record(start.elapsed());
        if self.is_over { Work::More } else { work }
    }

    /// An import leaves as much unused memory in this thread as the size of the zone. Further imports use it again, so
    /// this waits until they end.
    fn give_back_when_quiet(&mut self) {
        let written = self.replica.checkpoints_written();
        if written != self.checkpoints_written {
            self.checkpoints_written = written;
            self.zones_changed = Some(Instant::now());
        }
        // Changes leave unused memory too. This waits until they end, because further changes would use it again.
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
            crate::sys::memory::trim();
        }
    }

    fn handle_event(&mut self, event: Event) {
        self.counters.events.one();
        match event {
            Event::Continue => {}
            Event::Input(input) => self.replica.handle(input, clock::now()),
            Event::Confirmed(member) => {
                self.links.add(&member);
                self.replica.handle(Input::PeerConfirmed { id: member.id }, clock::now());
            }
            Event::Frame(from, frame, permit) => {
                self.replica.handle(Input::Peer { from, frame }, clock::now());
                drop(permit);
            }
            Event::Admin(command, done) => {
                self.pending.last_request += 1;
                self.pending.admins.insert(self.pending.last_request, done);
                self.replica.handle(Input::Admin { request_id: self.pending.last_request, command }, clock::now());
            }
            Event::ReadIndex(done) => {
                self.pending.last_request += 1;
                self.pending.reads.insert(self.pending.last_request, done);
                self.replica.handle(Input::ReadIndex { request_id: self.pending.last_request }, clock::now());
            }
            // The receiver may be gone.
            Event::Status(WithZones::Yes, done) => drop(done.send(self.replica.status())),
            Event::Status(WithZones::No, done) => drop(done.send(self.replica.brief_status())),
            Event::Secrets(key, done) => drop(done.send(self.secrets(&key))),
            Event::ZoneOptions(id, done) => drop(done.send(self.replica.zone_options(&id))),
            Event::Freeze(done) => drop(done.send(self.replica.zones().freeze())),
        }
    }

    /// Executes the outputs of the replica. After many outputs, waiting events come first.
    ///
    /// A woken thread may take this core at once. So outputs that clients wait for come first: responses, then peers,
    /// the log, the audit log, checkpoints. Outputs of one kind keep their order. The replica sends nothing that
    /// depends on data that is not on disk yet, so the order between kinds does not matter. All other outputs keep
    /// their position: for example, a peer gets its last message before it is disconnected.
    fn execute_outputs(&mut self) -> Work {
        for _ in 0..REPLICA_OUTPUTS_COUNT {
            let Some(output) = self.replica.poll() else {
                self.execute_deferred();
                return Work::None;
            };
            match output {
                Output::AwaitIdle => self.deferred[2].push(output),
                // A checkpoint comes after the audit records of the entries that it contains.
                Output::Disk(ref job) => self.deferred[if job.queue == DiskQueue::Log { 0 } else { 2 }].push(output),
                Output::Audited { .. } | Output::AuditGap { .. } => self.deferred[1].push(output),
                Output::Published { .. }
                | Output::UpdateDone { .. }
                | Output::ReadIndexDone { .. }
                // Sent with the rest.
                | Output::Send { .. } => self.execute(output),
                output => {
                    self.execute_deferred();
                    self.is_over = matches!(output, Output::Stopped);
                    self.execute(output);
                    if self.is_over {
                        return Work::None;
                    }
                }
            }
        }
        self.execute_deferred();
        Work::More
    }

    fn execute_deferred(&mut self) {
        self.links.flush();
        for kind in 0..self.deferred.len() {
            let mut outputs = std::mem::take(&mut self.deferred[kind]);
            outputs.drain(..).for_each(|output| self.execute(output));
            self.deferred[kind] = outputs;
        }
        if let Some(index) = self.audited_through.take() {
            self.audit.through(index);
        }
    }

    fn execute(&mut self, output: Output) {
        match output {
            Output::Send { to, channel, frame } => self.links.send(to, channel, frame),
            Output::Disk(job) => {
                let queue = if job.queue == DiskQueue::Log { &self.disks.log } else { &self.disks.bulk };
                // A writer ends only by aborting the process.
                let _ = queue.send(DiskWork::Job(job));
            }
            Output::AwaitIdle => drop(self.disks.background.send(background::Message::Requested(Instant::now()))),
            Output::ReadFile(read) => drop(self.disks.reads.send(DiskWork::Read(read))),
            Output::UpdateDone { request_id, verdict } => {
                self.shared.updates.leave();
                // No other update or event is waiting.
                let is_alone = self.shared.updates.get() == 0 && self.shared.waiting.get() == 0;
                self.update_queue.outcome(request_id, verdict, Dispatch::inline_if(is_alone));
            }
            Output::AdminDone { request_id, result } => {
                if let Some(done) = self.pending.admins.remove(&request_id) {
                    // The receiver may be gone; the command is done in any case.
                    let _ = done.send(result);
                }
            }
            Output::ReadIndexDone { request_id, result } => {
                if let Some(done) = self.pending.reads.remove(&request_id) {
                    let _ = done.send(result);
                }
            }
            Output::Published { index } => self.published(index),
            Output::RoleChanged { role, term, leader } => {
                self.counters.role_changes.one();
                tracing::info!(?role, term, leader, "role changed");
            }
            Output::PeersChanged { members } => {
                // A joining node knows the members from its configuration until it has a state.
                if !members.is_empty() {
                    let membership = self.replica.membership();
                    self.links.set_members(&members, &membership);
                    self.shared.membership.send_replace(Arc::new(membership));
                }
            }
            Output::Removed { is_out } => {
                tracing::error!(is_out, "this node was removed from the cluster; it stops answering clients");
                self.shared.removal.set(is_out);
                // On a shared port, an open socket would swallow the queries of its share of clients.
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
            // Nothing to do: the loop ends.
            Output::Stopped => {}
            Output::LossResolved => self.fatal_exit.loss_resolved(),
            Output::LossUnresolved { unreported_voters } => self.fatal_exit.loss_unresolved(&unreported_voters),
            Output::Fatal { reason } => self.fatal_exit.exit(reason),
        }
    }

    fn serving_changed(&self, serving: Serving) {
        tracing::info!(?serving, "serving changed");
        if self.replica.serves_behind() {
            let applied = self.replica.brief_status().applied_index;
            tracing::warn!(
                applied,
                "this node knows no leader and answers with old data: it cannot confirm its last changes before the \
                 restart until a majority of the nodes runs"
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
        self.send_zone_memory();
    }

    /// Sends the new memory of the zones to the background thread.
    fn send_zone_memory(&self) {
        let memory = self.replica.zones().prefaulter();
        // The background thread outlives this one.
        let _ = self.disks.background.send(background::Message::Zones(memory));
    }

    fn publish_keys(&self) {
        let rights = self.shared.rights().with_keys(self.replica.key_table(), self.replica.keys());
        self.shared.set_rights(rights);
    }

    /// Returns the secrets of a key, and queues an audit record of that.
    fn secrets(&self, key: &Name) -> Option<Secrets> {
        let secrets = self.replica.secrets(key)?;
        let (done, written) = oneshot::channel();
        // If the audit queue is full, the sender is dropped, and nothing is shown.
        self.audit.put_local(clock::now().wall_ms, "key show", key.to_string(), done);
        Some(Secrets { secrets, written })
    }

    /// Publishes only these keys: opening the secrets of 100,000 keys takes long.
    fn publish_some_keys(&self, keys: &[Name]) {
        let replica = &self.replica;
        let with = |rights: Rights, name| rights.with_key(name, replica.opened_key(name), replica.key(name));
        let before = self.shared.rights();
        self.shared.set_rights(keys.iter().fold((*before).clone(), with));
    }

    /// Publishes policies without the keys, whose secrets take time to open.
    fn publish_policies(&self) {
        let (policies, update_grant) = self.replica.policies();
        self.shared.set_rights(self.shared.rights().with_policies(policies, update_grant));
    }
}

/// The state of the replica is unknown. Peers see the reset and continue without this node.
fn replica_panicked() -> ! {
    process::log::abort("catamaran: the replica panicked, which is a bug; aborting");
}
