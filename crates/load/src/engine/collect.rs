//! Starts the workers and merges their results.

use super::plan::Plan;
use super::port_count;
use super::start_barrier::StartBarrier;
use super::traffic::{self, SecondReading, StartedTraffic};
use super::worker::{GO_ON, STOP_AT_ONCE, STOP_SENDING, Worker};
use super::worker_report::{WorkerReport, WorkerTotals};
use crate::limits::REPORTS_WAITING_MAX;
use measure::limits::WRONG_ANSWERS_TOLD_MAX;
use measure::{
    ClientClasses, ClientTally, ConnectionRow, ConnectionSecond, Row, Second, Transport, TransportSecond, WrongAnswer,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

/// Progress of a run.
pub enum Progress<'a> {
    /// A second of all workers together, in order.
    Second {
        /// Counted from 0.
        index: u64,
        /// This second.
        second: &'a Second,
        /// All seconds so far, including this one.
        total: &'a Second,
    },
    /// Nothing new for a while.
    Idle,
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When the run started.
    pub started: SystemTime,
    /// The same moment on the clock of the run.
    pub start: Instant,
    /// The sum of all seconds.
    pub total: Second,
    /// The number of seconds, counted from 0.
    pub second_count: u64,
    /// The results of each transport used.
    pub transports: BTreeMap<Transport, TransportResults>,
    /// The totals of each worker.
    pub workers: Vec<WorkerTotals>,
    /// The maximum number of connections in TIME-WAIT on this machine, sampled once per second.
    pub time_wait_max: u64,
    /// Whether the run was stopped early.
    pub is_interrupted: bool,
    /// Why the run failed: no server was reached.
    pub failure: Option<String>,
    /// The outcome of the second reading of a trace.
    pub second_reading: SecondReading,
    /// The results of each client of a population.
    pub clients: Vec<ClientTally>,
    /// Latency by class of clients, for a population or a trace.
    pub client_classes: Option<ClientClasses>,
    /// The first wrong answers, if answers are checked.
    pub wrong_answers: Vec<WrongAnswer>,
}

/// The results of one transport.
#[derive(Clone, Debug, Default)]
pub struct TransportResults {
    /// Its queries by second, in order, from 0.
    pub seconds: Vec<Row>,
    /// The sum of all seconds.
    pub total: Second,
    /// Its connections by second. All are zero without connections, as over UDP.
    pub connections: Vec<ConnectionRow>,
    /// The sum of all seconds. `open` is the number at the end.
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

/// Executes a plan. Calls `progress` with each second, and otherwise a few times per second. It returns how often the
/// user asked to stop: after the first time, no queries are sent, and after the second, no answers are awaited.
///
/// # Errors
/// If sockets cannot be opened, or fail.
pub fn run(plan: &Plan, mut progress: impl FnMut(Progress<'_>) -> u8) -> io::Result<Outcome> {
    let (reports, inbox) = sync_channel(REPORTS_WAITING_MAX);
    let stop = Arc::new(AtomicU8::new(GO_ON));
    let start = Arc::new(StartBarrier::new(plan.worker_count, plan.start));
    let StartedTraffic { workers, finish } = traffic::start(plan)?;
    let mut threads = Vec::new();
    for (index, create_queries) in workers.into_iter().enumerate() {
        let (plan, start, stop, reports) = (plan.clone(), Arc::clone(&start), Arc::clone(&stop), reports.clone());
        let work = move || {
            let worker = Worker::new(&plan, index, create_queries(), stop, reports);
            let prepared = worker.and_then(|mut worker| worker.prepare().map(|()| worker));
            // The other workers wait for this one, even if it failed.
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
        second_reading: finish(),
        clients: collector.tallies,
        client_classes: collector.client_classes,
        wrong_answers: earliest(collector.wrong_answers),
    })
}

/// The earliest wrong answers of all workers.
fn earliest(mut wrong: Vec<WrongAnswer>) -> Vec<WrongAnswer> {
    wrong.sort_by(|one, other| one.at.total_cmp(&other.at));
    wrong.truncate(WRONG_ANSWERS_TOLD_MAX);
    wrong
}

#[derive(Default)]
struct Collector {
    worker_count: usize,
    /// Seconds that some workers have not reported: the number of reports, and the sums of the reported ones.
    open: BTreeMap<u64, (usize, BTreeMap<Transport, TransportSecond>)>,
    transports: BTreeMap<Transport, TransportResults>,
    next: u64,
    total: Second,
    worker_totals: Vec<WorkerTotals>,
    time_wait_max: u64,
    failure: Option<String>,
    tallies: Vec<ClientTally>,
    client_classes: Option<ClientClasses>,
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
                Ok(WorkerReport::Done { totals, failure, mut tallies, client_classes, mut wrong_answers }) => {
                    self.worker_totals.push(*totals);
                    self.tallies.append(&mut tallies);
                    match (&mut self.client_classes, client_classes) {
                        (Some(all), Some(more)) => all.merge(&more),
                        (all, more) => *all = more.map(|more| *more).or(all.take()),
                    }
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
        // Workers end in different seconds, so the last seconds are complete without some workers.
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
                // A transport that starts late was unused before.
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
