//! One worker: sends due queries, receives answers, times out overdue queries, and waits for the next one.

use super::clock::Clock;
use super::endpoint::{ConnectionPolicy, Endpoint};
use super::plan::Plan;
use super::traffic::{DueQuery, QuerySource, SourceResults, WorkerQueries};
use super::transport_driver::{RECEIVE_NS, TransportDriver};
use super::transports::Transports;
use super::usage::ThreadCpu;
use super::worker_report::WorkerReport;
use super::worker_stats::{ClientEvent, WorkerResults, WorkerStats};
use crate::limits::QUERY_BYTES_MAX;
use crate::per_query::Parties;
use crate::workload::Workload;
use measure::{Sent, Transport};
use sockets::limits::BATCH_COUNT;
use sockets::system;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// A sleeping thread wakes up this late, so the last part before a planned time is spun.
const SPIN_NS: u64 = 60_000;

/// A batch is sent after this time, even if it is not full.
const SEND_NS_MAX: u64 = 100_000;
/// Connections are served at least this long, even when queries are overdue.
const RECEIVE_NS_MIN: u64 = 100_000;
/// The same while handshakes fall behind. Finishing a handshake costs more than starting one. With the normal time, the
/// number of pending handshakes would grow.
const RECEIVE_NS_BEHIND: u64 = 300_000;
/// The longest time for which a busy worker postpones receiving.
const RECEIVE_PAUSE_NS_MAX: u64 = 200_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Interval of the check for timeouts, and the longest sleep.
const TICK_NS: u64 = 5_000_000;

/// The run continues.
pub(super) const GO_ON: u8 = 0;
/// No more queries are sent, but answers are awaited.
pub(super) const STOP_SENDING: u8 = 1;
/// The run ends at once.
pub(super) const STOP_AT_ONCE: u8 = 2;

pub(super) struct Worker {
    stats: WorkerStats,
    source: Box<dyn QuerySource>,
    workload: Workload,
    clients: Arc<[Endpoint]>,
    policies: Arc<[ConnectionPolicy]>,
    /// No queries are sent after this time.
    give_up_ns: u64,
    transports: Transports,
    last_receive_ns: u64,
    next_tick_ns: u64,
    watched: Vec<libc::pollfd>,
    scratch: Vec<u8>,
    stop: Arc<AtomicU8>,
    reports: SyncSender<WorkerReport>,
}

impl Worker {
    /// Opens the sockets of worker `index`, which sends these queries.
    ///
    /// # Errors
    /// If a socket cannot be opened, or a file of the plan cannot be read.
    pub(super) fn new(
        plan: &Plan,
        index: usize,
        queries: WorkerQueries,
        stop: Arc<AtomicU8>,
        reports: SyncSender<WorkerReport>,
    ) -> io::Result<Self> {
        let clock = Clock::provisional();
        let (position, worker_count) = plan.worker_position(index);
        let WorkerQueries { source, clients, policies } = queries;
        let used = transports_of(plan, &clients, &policies);
        let mut transports = Transports::open(plan, index, (&clients, &policies), &used, clock)?;
        let mut watched = Vec::new();
        transports.all().for_each(|driver| driver.watch(&mut watched));
        Ok(Self {
            stats: WorkerStats::new(plan, index, clock, &used),
            source,
            workload: plan.workload.for_worker(position, worker_count),
            clients,
            policies,
            give_up_ns: plan.pace.give_up_after().as_nanos() as u64,
            transports,
            last_receive_ns: 0,
            next_tick_ns: TICK_NS,
            watched,
            scratch: system::memory(QUERY_BYTES_MAX),
            stop,
            reports,
        })
    }

    /// Executes the whole run, from the common start of all workers.
    ///
    /// # Errors
    /// If the drop counters of a socket cannot be read. A broken socket ends the run with a failure instead.
    pub(super) fn run(mut self, clock: Clock) -> io::Result<()> {
        self.stats.clock = clock;
        self.transports.all().for_each(|driver| driver.restart(clock));
        // Reading it takes as long as about ten queries.
        let cpu = ThreadCpu::of_this();
        let cpu_before = cpu.now();
        self.stats.totals.spun += clock.wait_for_start();
        let (last_send_ns, result) = self.send_and_receive();
        if let Err(error) = result {
            // Earlier results are kept.
            self.stats.failure = Some(error.to_string());
            self.stats.must_abort = true;
        }
        self.stats.totals.sending = Duration::from_nanos(last_send_ns);
        self.finish(cpu.now().saturating_sub(cpu_before))
    }

    /// Runs until everything is sent and answered. Returns when a query was last due, and the error that ended the run.
    fn send_and_receive(&mut self) -> (u64, io::Result<()>) {
        let mut last_send_ns = 0;
        while !self.stats.must_abort {
            let now = self.stats.clock.now_ns();
            let stop = self.stop.load(Ordering::Relaxed);
            let is_sending = stop == GO_ON && now < self.give_up_ns && self.source.has_more(now);
            if is_sending {
                last_send_ns = now;
            }
            let has_worked = match self.step(now, is_sending) {
                Ok(has_worked) => has_worked,
                Err(error) => return (last_send_ns, Err(error)),
            };
            let is_over = self.waiting() == 0 || now > last_send_ns + self.stats.timeout_ns() + TICK_NS;
            if stop == STOP_AT_ONCE || (!is_sending && is_over) {
                break;
            }
            if !has_worked {
                self.wait(is_sending);
            }
        }
        (last_send_ns, Ok(()))
    }

    /// Sends, receives and times out queries once. Returns whether there was anything to do.
    fn step(&mut self, now: u64, is_sending: bool) -> io::Result<bool> {
        let mut has_worked = is_sending && self.send_due(now)?;
        has_worked |= self.receive_if_time(now)?;
        if now >= self.next_tick_ns {
            self.tick()?;
        }
        Ok(has_worked)
    }

    /// Opens the connections before the clock starts, if all clients are equal. In a population or a replay, each
    /// client opens its connection with its first query. Reads the first part of a trace.
    ///
    /// # Errors
    /// If a limit of this machine is reached.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        system::tighten_timers();
        self.warm_up()?;
        if self.source.opens_with_first_query() {
            while !self.source.is_ready() && self.stop.load(Ordering::Relaxed) == GO_ON {
                std::thread::sleep(Duration::from_millis(1));
            }
            return Ok(());
        }
        if let Some(streams) = &mut self.transports.streams {
            streams.open_all(&mut self.stats)?;
        }
        if let Some(quic) = &mut self.transports.quic {
            quic.open_all(&mut self.stats)?;
        }
        while !self.stats.must_abort && self.stop.load(Ordering::Relaxed) == GO_ON {
            let mut is_opening = false;
            let now = self.stats.clock.now_ns();
            for driver in self.transports.all() {
                driver.receive(&mut self.stats, u64::MAX)?;
                driver.tick(&mut self.stats, now)?;
                is_opening |= driver.is_opening();
            }
            if !is_opening {
                break;
            }
            system::wait(&mut self.watched, Duration::from_millis(1));
        }
        // Nothing has been sent, so the run can fail at once.
        self.stats.must_abort |= self.transports.all().any(|driver| driver.has_only_failed());
        Ok(())
    }

    /// Touches the memory and code of the send path once, so that the first query is not slower.
    fn warm_up(&mut self) -> io::Result<()> {
        self.stats.begin_second(0);
        // Uses a copy, so that the queries of the run do not change.
        self.workload.clone().fill(&mut self.scratch);
        self.transports.all().try_for_each(|driver| driver.warm_up())
    }

    fn waiting(&mut self) -> usize {
        self.transports.all().map(|driver| driver.waiting()).sum()
    }

    /// Sends up to one batch of due queries. Returns whether any was due.
    fn send_due(&mut self, began: u64) -> io::Result<bool> {
        let waiting = self.waiting();
        let opens = self.source.may_open(self.transports.are_datagrams());
        let (mut count, mut now) = (0, began);
        while count < BATCH_COUNT {
            if opens && count > 0 {
                // A query may have opened a connection, which takes as long as many queries. A batch belongs to one
                // second.
                let later = self.stats.clock.now_ns();
                if later - began > SEND_NS_MAX || later / SECOND_NS != began / SECOND_NS {
                    break;
                }
                now = later;
            }
            let Some(query) = self.source.peek(now, waiting + count) else { break };
            if self.source.is_too_late(query, now) {
                self.stop.fetch_max(STOP_SENDING, Ordering::Relaxed);
                break;
            }
            if !self.send(query, now)? {
                // There is no free ID or room, or handshakes have priority. The queries stay due, and the send lag
                // shows it.
                let is_first = u64::from(count == 0);
                if self.stats.is_behind {
                    self.stats.totals.handshake_pauses += is_first;
                } else {
                    self.stats.totals.id_shortages += is_first;
                }
                break;
            }
            self.source.advance(now);
            count += 1;
        }
        if count > 0 {
            for driver in self.transports.all() {
                driver.flush(&mut self.stats, now)?;
            }
        }
        Ok(count > 0)
    }

    /// Sends one query. Returns `false` if there is no room.
    fn send(&mut self, query: DueQuery, now: u64) -> io::Result<bool> {
        let mut sent =
            Sent { planned_ns: query.planned_ns, sent_ns: now, client: query.client.unwrap_or_default(), row: 0 };
        let transport = query.client.map_or_else(
            || self.clients.first().map_or(Transport::Udp, |client| client.transport),
            |client| self.clients[client as usize].transport,
        );
        match (transport, &mut self.transports.streams, &mut self.transports.quic) {
            (Transport::Udp, ..) => return self.send_datagram(sent, query),
            (Transport::Doq, _, Some(quic)) => {
                let Some(client) = query.client.or_else(|| quic.next_with_room()) else { return Ok(false) };
                if self.stats.is_behind && quic.would_overload(client) {
                    return Ok(false);
                }
                sent.client = client;
                let length = fill(&*self.source, &mut self.workload, &mut self.scratch, &[]);
                let message = &mut self.scratch[..length];
                sent.row = self.stats.begin(sent, parties(&self.clients, client, transport), message);
                quic.send(&mut self.stats, sent, message);
            }
            (_, Some(streams), _) => {
                let Some(client) = query.client.or_else(|| streams.next_with_room()) else { return Ok(false) };
                if self.stats.is_behind && streams.would_overload(client) {
                    return Ok(false);
                }
                sent.client = client;
                let length = fill(&*self.source, &mut self.workload, &mut self.scratch, &[]);
                let message = &mut self.scratch[..length];
                sent.row = self.stats.begin(sent, parties(&self.clients, client, transport), message);
                streams.send(&mut self.stats, sent, transport, message)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sends a query over UDP. Returns `false` if there is no room.
    fn send_datagram(&mut self, sent: Sent, query: DueQuery) -> io::Result<bool> {
        let Self { transports, stats, source, workload, clients, .. } = self;
        let endpoint = query.client.map(|client| clients[client as usize]);
        if let (Some(pktinfo), Some(endpoint)) = (&mut transports.pktinfo, endpoint) {
            return Ok(pktinfo.push(stats, sent, endpoint, |slot| fill(&**source, workload, slot, &[])));
        }
        if let Some(per_source) = &mut transports.per_source {
            return per_source.send(stats, sent, |slot| fill(&**source, workload, slot, &[]));
        }
        let Some(datagrams) = &mut transports.datagrams else { return Ok(false) };
        let server = endpoint.map(|endpoint| endpoint.server);
        if !datagrams.has_room(server) {
            datagrams.flush(stats, sent.sent_ns)?;
            if !datagrams.has_room(server) {
                return Ok(false);
            }
        }
        datagrams.push(stats, sent, query.client, |slot, cookie| fill(&**source, workload, slot, cookie));
        Ok(true)
    }

    /// Receives answers, unless that would delay the next query. Only datagrams may wait: the kernel timestamps them.
    fn receive_if_time(&mut self, now: u64) -> io::Result<bool> {
        if self.transports.are_datagrams()
            && let Some(planned) = self.source.next_ns(now)
            && planned < now + RECEIVE_NS
            && now < self.last_receive_ns + RECEIVE_PAUSE_NS_MAX
        {
            return Ok(planned <= now);
        }
        self.last_receive_ns = now;
        let planned = self.source.next_ns(now);
        let mut has_received = false;
        for driver in self.transports.all() {
            // Due queries come before answers and handshakes. Overdue queries leave some time for them.
            let part = if self.stats.is_behind { RECEIVE_NS_BEHIND } else { RECEIVE_NS_MIN };
            let until = planned.map_or(u64::MAX, |planned| planned.max(self.stats.clock.now_ns() + part));
            has_received |= driver.receive(&mut self.stats, until)?;
        }
        self.stats.is_behind &= has_received;
        self.notify_clients()?;
        Ok(has_received)
    }

    /// Tells clients the outcome of their queries, where their next query depends on it.
    fn notify_clients(&mut self) -> io::Result<()> {
        let Some(client_events) = self.stats.client_events.as_mut().filter(|client_events| !client_events.is_empty())
        else {
            return Ok(());
        };
        let follows_truncation = self.source.follows_truncation();
        let mut truncated = Vec::new();
        for event in client_events.drain(..) {
            match event {
                ClientEvent::QueryDone { client, at_ns, is_answered, latency_ns } => {
                    self.source.query_done(client, at_ns, is_answered, latency_ns);
                }
                ClientEvent::Truncated { client, at_ns, message } if follows_truncation => {
                    truncated.push((client, at_ns, message));
                }
                ClientEvent::Truncated { .. } => {}
            }
        }
        for (client, at_ns, message) in truncated {
            self.follow_truncation(client, at_ns, &message)?;
        }
        Ok(())
    }

    /// Repeats the question over TCP (RFC 7766 5).
    fn follow_truncation(&mut self, client: u32, at_ns: u64, answer: &[u8]) -> io::Result<()> {
        let endpoint = self.clients[client as usize];
        let (true, Some(streams)) =
            (self.policies[usize::from(endpoint.policy)].follows_truncation, &mut self.transports.streams)
        else {
            return Ok(());
        };
        let Some(mut query) = self.workload.ask_again(answer) else { return Ok(()) };
        let sent_ns = self.stats.clock.now_ns().max(at_ns);
        let mut sent = Sent { planned_ns: at_ns, sent_ns, client, row: 0 };
        sent.row = self.stats.begin(sent, parties(&self.clients, client, Transport::Tcp), &query);
        streams.send(&mut self.stats, sent, Transport::Tcp, &mut query)?;
        streams.flush(&mut self.stats, sent.sent_ns)
    }

    /// Times out overdue queries, then reports the seconds that can no longer change.
    fn tick(&mut self) -> io::Result<()> {
        let now = self.stats.clock.now_ns();
        self.next_tick_ns = now + TICK_NS;
        for driver in self.transports.all() {
            driver.tick(&mut self.stats, now)?;
        }
        self.notify_clients()?;
        self.stats.finish_old_rows(now);
        let before = now.saturating_sub(self.stats.timeout_ns());
        while let Some((index, seconds)) = self.stats.timelines().retire(before) {
            // The collector only closes when the run has ended.
            let _sent = self.reports.send(WorkerReport::Second(index, seconds));
        }
        Ok(())
    }

    fn wait(&mut self, is_sending: bool) {
        let now = self.stats.clock.now_ns();
        let mut until = self.next_tick_ns;
        for due in self.transports.all().filter_map(|driver| driver.next_timer()).collect::<Vec<_>>() {
            until = until.min(self.stats.clock.ns_of(due)).max(now + 1);
        }
        let planned = if is_sending { self.source.next_ns(now) } else { None };
        let wake = planned.map_or(until, |planned| until.min(planned.saturating_sub(SPIN_NS)));
        if wake > now {
            system::wait(&mut self.watched, Duration::from_nanos(wake - now));
            return;
        }
        let until = now.max(planned.unwrap_or(now)).min(now + SPIN_NS);
        let mut later = now;
        while later < until {
            std::hint::spin_loop();
            later = self.stats.clock.now_ns();
        }
        self.stats.totals.spun += Duration::from_nanos(later - now);
    }

    fn finish(mut self, cpu: Duration) -> io::Result<()> {
        let is_broken_off = self.stop.load(Ordering::Relaxed) == STOP_AT_ONCE || self.stats.must_abort;
        for driver in self.transports.all() {
            driver.finish(&mut self.stats, is_broken_off)?;
        }
        self.notify_clients()?;
        self.stats.totals.cpu = cpu;
        self.stats.totals.wall = Duration::from_nanos(self.stats.clock.now_ns());
        let until_ns = match self.stop.load(Ordering::Relaxed) {
            GO_ON => u64::MAX,
            _ => self.stats.totals.sending.as_nanos() as u64,
        };
        let failure = self.stats.failure.take().filter(|_| self.stats.must_abort);
        let SourceResults { tallies, pacing } = self.source.finish(until_ns);
        self.stats.totals.pacing = pacing;
        let WorkerResults { timelines, totals, client_classes, wrong_answers } = self.stats.into_results();
        for (index, seconds) in timelines.finish() {
            let _sent = self.reports.send(WorkerReport::Second(index, seconds));
        }
        let totals = Box::new(totals);
        let _sent = self.reports.send(WorkerReport::Done { totals, failure, tallies, client_classes, wrong_answers });
        Ok(())
    }
}

/// Writes the message of the due query, with the learned cookie if there is one. Returns its length.
fn fill(source: &dyn QuerySource, workload: &mut Workload, out: &mut [u8], cookie: &[u8]) -> usize {
    source.message(out).unwrap_or_else(|| workload.fill_with(out, cookie))
}

/// Transport, server and client of a query.
fn parties(clients: &[Endpoint], client: u32, transport: Transport) -> Parties {
    Parties { transport, server: clients[client as usize].server, client: Some(client) }
}

/// The transports of the clients, including TCP for truncated answers.
fn transports_of(plan: &Plan, clients: &[Endpoint], policies: &[ConnectionPolicy]) -> Vec<Transport> {
    let mut used: Vec<_> = clients.iter().map(|client| client.transport).collect();
    if clients.is_empty() {
        used.push(plan.transport);
    }
    used.sort_unstable();
    used.dedup();
    let follows = |client: &Endpoint| policies[usize::from(client.policy)].follows_truncation;
    if clients.iter().any(|client| client.transport == Transport::Udp && follows(client))
        && !used.contains(&Transport::Tcp)
    {
        used.push(Transport::Tcp);
    }
    used
}
