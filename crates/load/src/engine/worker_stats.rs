//! The statistics of a worker: the outcome of each query, in the second in which it was sent.

use super::client_latencies::ClientLatencies;
use super::clock::Clock;
use super::matching::{Arrival, Unanswered};
use super::plan::{Pace, Plan};
use super::worker_report::WorkerTotals;
use crate::limits::HANDSHAKE_WAIT_MAX;
use crate::per_query::{Fate, Parties, QueryRecorder};
use measure::{
    AnswerCheck, AnswerChecker, ClassTally, ClientClasses, ConnectionSecond, RCODE_COUNT, Second, Sent, Transport,
    TransportTimelines, WrongAnswer,
};
use std::net::SocketAddr;
use std::time::Duration;

/// The statistics of one worker, and the state that follows from them.
pub(super) struct WorkerStats {
    pub(super) clock: Clock,
    pub(super) totals: WorkerTotals,
    timelines: TransportTimelines,
    timeout_ns: u64,
    expected: Option<[bool; RCODE_COUNT]>,
    /// Records one row for each query, if requested.
    recorder: Option<Box<QueryRecorder>>,
    checker: Option<Box<dyn AnswerChecker>>,
    /// Latency by client, if there are clients.
    client_latencies: Option<ClientLatencies>,
    /// Outcomes for the clients, if their next query depends on them.
    pub(super) client_events: Option<Vec<ClientEvent>>,
    /// Whether the last handshake message waited for this thread.
    pub(super) is_behind: bool,
    /// The last reason why no server could be reached.
    pub(super) failure: Option<String>,
    /// Whether the run must end early.
    pub(super) must_abort: bool,
}

/// What a worker has measured.
pub(super) struct WorkerResults {
    /// The seconds that were not reported yet.
    pub(super) timelines: TransportTimelines,
    pub(super) totals: WorkerTotals,
    pub(super) client_classes: Option<Box<ClientClasses>>,
    pub(super) wrong_answers: Vec<WrongAnswer>,
}

/// The outcome of a query for its client.
pub(super) enum ClientEvent {
    /// The query was answered or is lost. For a lost query, the latency is its timeout.
    QueryDone { client: u32, at_ns: u64, is_answered: bool, latency_ns: u64 },
    /// The answer was truncated. Has the message.
    Truncated { client: u32, at_ns: u64, message: Vec<u8> },
}

impl WorkerStats {
    /// The statistics of worker `index`.
    pub(super) fn new(plan: &Plan, index: usize, clock: Clock, transports: &[Transport]) -> Self {
        let timeout_ns = plan.timeout.as_nanos() as u64;
        let expected = (!plan.expected_rcodes.is_empty())
            .then(|| std::array::from_fn(|rcode| plan.expected_rcodes.contains(&(rcode as u8))));
        let recorder = plan.per_query.as_ref().map(|spool| spool.recorder(index, plan.worker_count, plan.timeout));
        Self {
            clock,
            totals: WorkerTotals::default(),
            timelines: TransportTimelines::new(transports.iter().copied(), timeout_ns),
            timeout_ns,
            expected,
            recorder: recorder.map(Box::new),
            checker: plan.checking.as_ref().map(|checking| checking.checker(plan.seed ^ index as u64)),
            client_latencies: matches!(plan.pace, Pace::Traffic(_))
                .then(|| ClientLatencies::new(plan.busy_queries as usize, ClassTally::default())),
            client_events: plan.pace.depends_on_answers().then(Vec::new),
            is_behind: false,
            failure: None,
            must_abort: false,
        }
    }

    pub(super) const fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    pub(super) fn queries(&mut self, transport: Transport, at_ns: u64) -> &mut Second {
        self.timelines.at(transport, at_ns)
    }

    pub(super) fn connections(&mut self, transport: Transport, at_ns: u64) -> &mut ConnectionSecond {
        self.timelines.connections(transport, at_ns)
    }

    /// Prepares the second of this time.
    pub(super) fn begin_second(&mut self, at_ns: u64) {
        self.timelines.begin(at_ns);
    }

    pub(super) fn timelines(&mut self) -> &mut TransportTimelines {
        &mut self.timelines
    }

    pub(super) fn into_results(self) -> WorkerResults {
        if let Some(recorder) = self.recorder {
            recorder.finish();
        }
        WorkerResults {
            timelines: self.timelines,
            totals: self.totals,
            client_classes: self.client_latencies.map(|latencies| Box::new(latencies.finish())),
            wrong_answers: self.checker.map(|checker| checker.into_wrong()).unwrap_or_default(),
        }
    }

    /// Adds a query. Returns its row for [`Sent`].
    pub(super) fn begin(&mut self, sent: Sent, parties: Parties, message: &[u8]) -> u32 {
        self.recorder.as_mut().map_or(0, |recorder| recorder.begin(sent, parties, message))
    }

    /// The kernel did not accept a query.
    pub(super) fn unsent(&mut self, sent: Sent) {
        if let Some(recorder) = &mut self.recorder {
            recorder.take_back(sent);
        }
        self.notify_unanswered(sent, sent.sent_ns);
    }

    /// Finishes the rows of queries that timed out long ago.
    pub(super) fn finish_old_rows(&mut self, now: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.finish_old_rows(now);
        }
    }

    /// A message arrived at `at_ns`. If it answers a query, that query was written at `written_ns`.
    pub(super) fn arrived(
        &mut self,
        transport: Transport,
        at_ns: u64,
        message: &[u8],
        arrival: Arrival,
        written_ns: u64,
    ) {
        let second = self.timelines.at(transport, at_ns);
        second.bytes_received += message.len() as u64;
        match arrival {
            Arrival::Late { sent } => {
                second.late += 1;
                self.note_answer(sent, at_ns, written_ns, message, None);
            }
            Arrival::Duplicate => second.duplicate += 1,
            Arrival::Mismatch => second.mismatched += 1,
            Arrival::Stray => second.stray += 1,
            Arrival::Answer { sent, is_first, .. } if at_ns.saturating_sub(sent.sent_ns) > self.timeout_ns => {
                second.late += 1;
                self.timed_out(transport, Unanswered { sent, is_first });
                self.note_answer(sent, at_ns, written_ns, message, None);
            }
            Arrival::Answer { sent, rcode, is_truncated, is_first } => {
                let second = self.timelines.at(transport, at_ns);
                second.arrived += 1;
                let second = self.timelines.at(transport, sent.sent_ns);
                second.answered += 1;
                second.rcodes[usize::from(rcode)] += 1;
                second.truncated += u64::from(is_truncated);
                let check = if self.expected.is_some_and(|right| !right[usize::from(rcode)]) {
                    second.unexpected += 1;
                    Some(AnswerCheck::UnexpectedRcode)
                } else {
                    let checker = self.checker.as_mut();
                    checker.and_then(|checker| checker.check(sent.sent_ns, message, &mut second.checked))
                };
                let latency_ns = at_ns.saturating_sub(sent.planned_ns);
                second.record_latency(latency_ns, at_ns.saturating_sub(written_ns));
                if is_first {
                    self.timelines.connections(transport, sent.sent_ns).record_first_latency(latency_ns);
                }
                self.note_answer(sent, at_ns, written_ns, message, check);
                self.note_client_latency(sent, latency_ns);
                if let Some(client_events) = &mut self.client_events {
                    let client = sent.client;
                    if is_truncated {
                        client_events.push(ClientEvent::Truncated { client, at_ns, message: message.to_vec() });
                    }
                    client_events.push(ClientEvent::QueryDone { client, at_ns, is_answered: true, latency_ns });
                }
            }
        }
    }

    /// The buffer was too short for this many bytes of a datagram.
    pub(super) fn count_cut_bytes(&mut self, transport: Transport, at_ns: u64, bytes: usize) {
        if bytes > 0 {
            self.timelines.at(transport, at_ns).bytes_received += bytes as u64;
        }
    }

    /// Counts a local port to a server that is used for the whole run.
    pub(super) fn count_port(&mut self, transport: Transport, server: SocketAddr) {
        *self.totals.ports.entry((transport, server)).or_default() += 1;
    }

    /// A handshake message arrived at `arrived_ns` and was handled at `handled_ns`.
    pub(super) fn handshake_step(&mut self, arrived_ns: u64, handled_ns: u64) {
        let waited = Duration::from_nanos(handled_ns.saturating_sub(arrived_ns));
        self.totals.handshake_steps += 1;
        self.is_behind = waited > HANDSHAKE_WAIT_MAX;
        self.totals.handshake_steps_behind += u64::from(self.is_behind);
        self.totals.handshake_wait = self.totals.handshake_wait.max(waited);
    }

    /// A query was not answered in time.
    pub(super) fn timed_out(&mut self, transport: Transport, query: impl Into<Unanswered>) {
        let Unanswered { sent, is_first } = query.into();
        self.timelines.record_timeout(transport, sent, is_first);
        self.note_client_latency(sent, sent.sent_ns - sent.planned_ns + self.timeout_ns);
        if let Some(recorder) = &mut self.recorder {
            recorder.timed_out(sent);
        }
        self.notify_unanswered(sent, sent.sent_ns + self.timeout_ns);
    }

    /// A query lost its connection. It counts as a timeout in the distributions, because its client has no answer.
    pub(super) fn lost(&mut self, transport: Transport, query: Unanswered, at_ns: u64) {
        let Unanswered { sent, is_first } = query;
        self.timelines.record_lost(transport, sent, is_first);
        self.note_client_latency(sent, sent.sent_ns - sent.planned_ns + self.timeout_ns);
        self.note_end(sent, Fate::ConnectionLost);
        self.notify_unanswered(sent, at_ns);
    }

    /// A query is unanswered at the end of the run: interrupted, or overdue.
    pub(super) fn unanswered_at_end(
        &mut self,
        transport: Transport,
        query: impl Into<Unanswered>,
        is_broken_off: bool,
    ) {
        let query = query.into();
        if is_broken_off {
            self.timelines.at(transport, query.sent.sent_ns).interrupted += 1;
            self.note_end(query.sent, Fate::Interrupted);
        } else {
            self.timed_out(transport, query);
        }
    }

    fn note_client_latency(&mut self, sent: Sent, latency_ns: u64) {
        if let Some(latencies) = &mut self.client_latencies {
            latencies.record(sent.client, latency_ns);
        }
    }

    fn note_answer(&mut self, sent: Sent, at_ns: u64, written_ns: u64, message: &[u8], check: Option<AnswerCheck>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.answered(sent, at_ns, written_ns, message, check);
        }
    }

    fn note_end(&mut self, sent: Sent, fate: Fate) {
        if let Some(recorder) = &mut self.recorder {
            recorder.mark_ended(sent, fate);
        }
    }

    /// Tells the client that its query will not be answered.
    fn notify_unanswered(&mut self, sent: Sent, at_ns: u64) {
        if let Some(client_events) = &mut self.client_events {
            let latency_ns = sent.sent_ns - sent.planned_ns + self.timeout_ns;
            client_events.push(ClientEvent::QueryDone { client: sent.client, at_ns, is_answered: false, latency_ns });
        }
    }
}
