//! Starts the workers and merges their results.

use super::port_count;
use super::start_barrier::StartBarrier;
use super::worker::{GO_ON, STOP_AT_ONCE, STOP_SENDING, Worker};
use super::{Pace, Plan, Transport};
use crate::answers::WrongAnswer;
use crate::limits::{REPORTS_WAITING_MAX, WRONG_ANSWERS_TOLD_MAX};
use crate::measure::{ConnectionRow, ConnectionSecond, Row, Second, TransportSecond};
use crate::population::ClientTally;
use crate::replay::{Pacing, Reading, SecondReading};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// From a worker to the collector.
pub(super) enum WorkerReport {
    /// A second of each transport that changes no more.
    Second(u64, Vec<(Transport, TransportSecond)>),
    /// The worker has ended.
    Done {
        /// What it counted.
        totals: Box<WorkerTotals>,
        /// Why it could not go on.
        failure: Option<String>,
        /// What its clients saw, in a population.
        tallies: Vec<ClientTally>,
        /// The first wrong answers, where answers are checked.
        wrong_answers: Vec<WrongAnswer>,
    },
}

/// What a worker counted over the whole run.
#[derive(Clone, Default, Debug)]
pub struct WorkerTotals {
    /// How often no ID was free for a query that was due.
    pub id_shortages: u64,
    /// ICMP messages that nobody listens there.
    pub refusals: u64,
    /// Datagrams without a stamp of the kernel: the time of reading counted.
    pub unstamped: u64,
    /// Datagrams that the kernel threw away because they were read too late.
    pub dropped: u64,
    /// The first who sent something from another address than the one that was asked: the latter, then the former.
    pub other_address: Option<(SocketAddr, SocketAddr)>,
    /// The most local ports that were held at once, by transport and server.
    pub ports: BTreeMap<(Transport, SocketAddr), u64>,
    /// Messages of servers in handshakes.
    pub handshake_steps: u64,
    /// Of these: waited here for longer than [`crate::limits::HANDSHAKE_WAIT_MAX`] before they were dealt with.
    pub handshake_steps_behind: u64,
    /// How often queries had to wait since handshakes had fallen behind.
    pub handshake_pauses: u64,
    /// The longest of these waits.
    pub handshake_wait: Duration,
    /// CPU time of the thread.
    pub cpu: Duration,
    /// Of it, waiting in a spin for a planned time.
    pub spun: Duration,
    /// How long the thread ran.
    pub wall: Duration,
    /// How long it had queries to send, those that were overdue among them.
    pub sending: Duration,
    /// How near to the plan they went out, where that is a trace.
    pub pacing: Option<Box<Pacing>>,
}

/// What the caller is told while the run goes on.
pub enum Progress<'a> {
    /// A second of all workers together, in order.
    Second {
        /// Counted from 0.
        index: u64,
        /// It alone.
        second: &'a Second,
        /// All so far, with it.
        total: &'a Second,
    },
    /// Nothing new for a while.
    Idle,
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When it began.
    pub started: SystemTime,
    /// The same moment, on the clock of the run.
    pub start: Instant,
    /// All seconds together.
    pub total: Second,
    /// How many seconds there are, from 0.
    pub second_count: u64,
    /// Each transport that was used.
    pub transports: BTreeMap<Transport, TransportResults>,
    /// What each worker counted.
    pub workers: Vec<WorkerTotals>,
    /// The most connections that this machine had in TIME-WAIT, by a look each second.
    pub time_wait_max: u64,
    /// Whether it was broken off.
    pub is_interrupted: bool,
    /// Why it could not go on: no server was reached.
    pub failure: Option<String>,
    /// What became of the second reading of a trace.
    pub second_reading: SecondReading,
    /// What each client of a population saw.
    pub clients: Vec<ClientTally>,
    /// The first wrong answers, where answers are checked.
    pub wrong_answers: Vec<WrongAnswer>,
}

/// One transport's part of a run.
#[derive(Clone, Debug, Default)]
pub struct TransportResults {
    /// Its queries, each second on its own, in order, from 0.
    pub seconds: Vec<Row>,
    /// All seconds together.
    pub total: Second,
    /// Its connections, each second on its own; without any, as over UDP, all are zero.
    pub connections: Vec<ConnectionRow>,
    /// All seconds together; `open` is that of the end.
    pub connection_total: ConnectionSecond,
    /// Peak number of open connections.
    pub open_max: u64,
}

impl TransportResults {
    /// Adds the next second.
    fn push(&mut self, transport: Transport, mut second: TransportSecond) {
        let index = self.seconds.len() as u64;
        second.connections.follow(self.connection_total.open);
        self.total.merge(&second.queries);
        self.connection_total.merge(&second.connections);
        self.connection_total.open = second.connections.open;
        self.open_max = self.open_max.max(second.connections.open_max);
        self.seconds.push(Row::new(index, &second.queries));
        self.connections.push(ConnectionRow::new(index, transport.label(), &second));
    }
}

/// The collector yields for this long, so that a worker on the same core is not delayed: the kernel's scheduler checks
/// only a few hundred times a second.
const YIELD_FOR: Duration = Duration::from_micros(300);
/// It yields after this much work.
const WORK_MAX: Duration = Duration::from_micros(100);

/// Splits long work into short slices.
struct WorkLimiter {
    began: Instant,
}

impl WorkLimiter {
    fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// Call this between two slices.
    fn yield_if_due(&mut self) {
        if self.began.elapsed() > WORK_MAX {
            std::thread::sleep(YIELD_FOR);
            self.began = Instant::now();
        }
    }
}

/// How often `progress` is called without a new second.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Carries a plan out. `progress` is called with each second and otherwise a few times a second; it says how often the
/// user has asked to stop: once and nothing more is sent, twice and nothing more is waited for.
///
/// # Errors
/// When sockets cannot be opened, or fail.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress<'_>) -> u8) -> io::Result<Outcome> {
    let (reports, inbox) = sync_channel(REPORTS_WAITING_MAX);
    let stop = Arc::new(AtomicU8::new(GO_ON));
    let start = Arc::new(StartBarrier::new(plan.worker_count, plan.start));
    let mut reading = match &plan.pace {
        Pace::Traced(replay) => Some(Reading::start(replay, plan.worker_count)?),
        _ => None,
    };
    let mut threads = Vec::new();
    for index in 0..plan.worker_count {
        let feed = reading.as_mut().and_then(Reading::next_feed);
        let (plan, start, stop, reports) = (plan.clone(), Arc::clone(&start), Arc::clone(&stop), reports.clone());
        let work = move || {
            let worker = Worker::new(&plan, index, feed, stop, reports);
            let prepared = worker.and_then(|mut worker| worker.prepare().map(|()| worker));
            // The others wait for this one, whatever has become of it.
            let clock = start.wait();
            prepared?.run(clock)
        };
        threads.push(std::thread::Builder::new().name(format!("load-{index}")).spawn(work)?);
    }
    drop(reports);
    let mut collector = Collector { worker_count: plan.worker_count, ..Collector::default() };
    collector.collect(&inbox, &stop, &mut progress);
    for thread in threads {
        thread.join().map_err(|_| io::Error::other("a worker panicked"))??;
    }
    let is_interrupted = stop.load(Ordering::Relaxed) != GO_ON;
    let start = start.clock().start();
    Ok(Outcome {
        started: SystemTime::now() - start.elapsed(),
        start,
        total: collector.total,
        second_count: collector.next,
        transports: collector.transports,
        workers: collector.worker_totals,
        time_wait_max: collector.time_wait_max,
        is_interrupted,
        failure: collector.failure,
        second_reading: reading.map(Reading::finish).unwrap_or_default(),
        clients: collector.tallies,
        wrong_answers: earliest(collector.wrong_answers),
    })
}

/// The first of all workers together.
fn earliest(mut wrong: Vec<WrongAnswer>) -> Vec<WrongAnswer> {
    wrong.sort_by(|one, other| one.at.total_cmp(&other.at));
    wrong.truncate(WRONG_ANSWERS_TOLD_MAX);
    wrong
}

#[derive(Default)]
struct Collector {
    worker_count: usize,
    /// Seconds that not every worker has reported: how many have, and their sums.
    open: BTreeMap<u64, (usize, BTreeMap<Transport, TransportSecond>)>,
    transports: BTreeMap<Transport, TransportResults>,
    next: u64,
    total: Second,
    worker_totals: Vec<WorkerTotals>,
    time_wait_max: u64,
    failure: Option<String>,
    tallies: Vec<ClientTally>,
    wrong_answers: Vec<WrongAnswer>,
}

impl Collector {
    fn collect(
        &mut self,
        inbox: &Receiver<WorkerReport>,
        stop: &AtomicU8,
        progress: &mut impl FnMut(Progress<'_>) -> u8,
    ) {
        loop {
            let stop_level = match inbox.recv_timeout(PROGRESS_INTERVAL) {
                Ok(WorkerReport::Second(index, seconds)) => {
                    let mut limiter = WorkLimiter::start();
                    let (count, sums) = self.open.entry(index).or_default();
                    *count += 1;
                    for (transport, second) in seconds {
                        let sum = sums.entry(transport).or_default();
                        sum.queries.merge(&second.queries);
                        sum.connections.merge(&second.connections);
                        limiter.yield_if_due();
                    }
                    self.close(false, progress)
                }
                Ok(WorkerReport::Done { totals, failure, mut tallies, mut wrong_answers }) => {
                    self.worker_totals.push(*totals);
                    self.tallies.append(&mut tallies);
                    self.wrong_answers.append(&mut wrong_answers);
                    let has_failed = failure.is_some();
                    self.failure = self.failure.take().or(failure);
                    has_failed.then_some(STOP_AT_ONCE)
                }
                Err(RecvTimeoutError::Timeout) => Some(progress(Progress::Idle)),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(stop_level) = stop_level {
                stop.store(stop_level.min(STOP_AT_ONCE).max(stop.load(Ordering::Relaxed)), Ordering::Relaxed);
            }
        }
        // Workers end in different seconds: the last ones are whole without all of them.
        let _last = self.close(true, progress);
    }

    fn close(&mut self, is_end: bool, progress: &mut impl FnMut(Progress<'_>) -> u8) -> Option<u8> {
        let mut stop_level = None;
        let mut limiter = WorkLimiter::start();
        while let Some(entry) = self.open.first_entry() {
            if !is_end && (*entry.key() != self.next || entry.get().0 < self.worker_count) {
                break;
            }
            let (index, (_, seconds)) = entry.remove_entry();
            let mut second = Second::default();
            for (transport, of_transport) in seconds {
                second.merge(&of_transport.queries);
                limiter.yield_if_due();
                let results = self.transports.entry(transport).or_default();
                // A transport that joins late was not used before.
                while (results.seconds.len() as u64) < index {
                    results.push(transport, TransportSecond::default());
                }
                results.push(transport, of_transport);
                limiter.yield_if_due();
            }
            self.total.merge(&second);
            limiter.yield_if_due();
            self.next = index + 1;
            self.time_wait_max = self.time_wait_max.max(port_count::time_wait_count());
            limiter.yield_if_due();
            stop_level = Some(progress(Progress::Second { index, second: &second, total: &self.total }));
            limiter.yield_if_due();
        }
        stop_level
    }
}

/// Names of the three values of `progress`.
const _: () = assert!(GO_ON < STOP_SENDING && STOP_SENDING < STOP_AT_ONCE);
