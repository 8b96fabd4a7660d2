//! Chooses the messages of a trace to send, and their times.
//!
//! Both readings of a trace use this code in the same order, so rules with random choices give the same result both
//! times.

use super::timeline::Timeline;
use crate::limits::QUERY_BYTES_MAX;
use ::trace::Message;
use ::trace::mutate::{Mutator, Plan, PlanError};
use measure::Transport;
use std::net::IpAddr;
use std::time::Duration;

/// The replayed part of a trace, its speed and its transport.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Selection {
    /// Skip messages before this time after the first message.
    pub from: Duration,
    /// Skip messages from this time on.
    pub until: Option<Duration>,
    /// Maximum number of queries.
    pub limit: Option<u64>,
    /// Seconds of the trace per second.
    pub speed: f64,
    /// The transport of all queries. By default each keeps its own.
    pub transport: Option<Transport>,
    /// Set if the trace is the partition of one of several processes.
    pub partition: Option<Partition>,
}

/// One of several processes that replay a trace together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The common time in the trace at which the run begins. A partition may begin later.
    pub origin_ns: u64,
    /// Its index, from 0.
    pub index: u32,
    /// The number of processes.
    pub count: u32,
}

impl Default for Selection {
    fn default() -> Self {
        Self { from: Duration::ZERO, until: None, limit: None, speed: 1.0, transport: None, partition: None }
    }
}

/// A query to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Query<'m> {
    /// Time from the start of the run. Never before the previous query.
    pub(super) planned_ns: u64,
    pub(super) source: IpAddr,
    pub(super) transport: Transport,
    pub(super) bytes: &'m [u8],
}

/// What to do with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick<'m> {
    Query(Query<'m>),
    Nothing,
    /// No later message is needed.
    End,
}

/// Chooses messages and their times.
#[derive(Debug)]
pub(super) struct Picker {
    selection: Selection,
    /// Changes messages first.
    mutator: Option<Mutator>,
    pub(super) timeline: Timeline,
    /// The time of the first query that is sent.
    first_ns: Option<u64>,
    picked: u64,
    /// Skipped responses.
    pub(super) responses: u64,
    /// Queries that are too long for the engine.
    pub(super) too_long: u64,
}

impl Picker {
    pub(super) fn new(selection: Selection) -> Self {
        let mut timeline = Timeline::default();
        let first_ns = selection.partition.map(|partition| timeline.advance(partition.origin_ns));
        Self { selection, mutator: None, timeline, first_ns, picked: 0, responses: 0, too_long: 0 }
    }

    /// Adds rules, if there are any.
    ///
    /// # Errors
    /// If the rules are invalid.
    pub(super) fn after(self, rules: Option<&Plan>) -> Result<Self, PlanError> {
        Ok(Self { mutator: rules.cloned().map(Mutator::new).transpose()?, ..self })
    }

    /// Whether the limit of queries is reached. Then no further input is needed.
    pub(super) fn is_done(&self) -> bool {
        self.selection.limit.is_some_and(|limit| self.picked >= limit)
    }

    /// Decides about the next message.
    pub(super) fn pick<'m>(&'m mut self, message: &Message<'m>) -> Pick<'m> {
        let Self { selection, mutator, timeline, first_ns, picked, responses, too_long } = self;
        let message = match mutator {
            None => Some(*message),
            Some(mutator) => mutator.apply(message),
        };
        let Some(message) = message else { return Pick::Nothing };
        let Selection { from, until, limit, speed, transport, .. } = *selection;
        if limit.is_some_and(|limit| *picked >= limit) {
            return Pick::End;
        }
        let elapsed_ns = timeline.advance(message.at_ns);
        if until.is_some_and(|until| u128::from(elapsed_ns) >= until.as_nanos()) {
            return Pick::End;
        }
        if u128::from(elapsed_ns) < from.as_nanos() {
            return Pick::Nothing;
        }
        if message.is_response() {
            *responses += 1;
            return Pick::Nothing;
        }
        if message.bytes.len() > QUERY_BYTES_MAX {
            *too_long += 1;
            return Pick::Nothing;
        }
        *picked += 1;
        // The run begins with its first query, not with earlier messages of the trace.
        let since_ns = elapsed_ns - *first_ns.get_or_insert(elapsed_ns);
        Pick::Query(Query {
            planned_ns: (since_ns as f64 / speed) as u64,
            source: message.source.ip().to_canonical(),
            transport: transport.unwrap_or_else(|| transport_of(message.transport)),
            bytes: message.bytes,
        })
    }
}

/// The transport of the engine for a recorded one.
#[must_use]
pub const fn transport_of(recorded: ::trace::Transport) -> Transport {
    match recorded {
        ::trace::Transport::Udp => Transport::Udp,
        ::trace::Transport::Tcp => Transport::Tcp,
        ::trace::Transport::Dot => Transport::Dot,
        ::trace::Transport::Doh => Transport::Doh,
        ::trace::Transport::Doq => Transport::Doq,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    const SECOND: u64 = 1_000_000_000;

    fn picked(selection: Selection, messages: &[(u64, Vec<u8>)]) -> (Vec<(u64, usize)>, Picker) {
        let mut picker = Picker::new(selection);
        let mut queries = Vec::new();
        for (at_ns, bytes) in messages {
            let address = SocketAddr::from(([192, 0, 2, 1], 53));
            let transport = ::trace::Transport::Udp;
            let message = Message { at_ns: *at_ns, source: address, destination: address, transport, bytes };
            match picker.pick(&message) {
                Pick::Query(query) => queries.push((query.planned_ns, query.bytes.len())),
                Pick::Nothing => {}
                Pick::End => break,
            }
        }
        (queries, picker)
    }

    /// One query per second, and a response half a second before the first.
    fn messages() -> Vec<(u64, Vec<u8>)> {
        let query = |second: u64| (second * SECOND, vec![0; 12 + second as usize]);
        let response = |second: u64| (second * SECOND - SECOND / 2, vec![0x80; 12]);
        (1..=5).flat_map(|second| [response(second), query(second)]).collect()
    }

    #[test]
    fn queries_start_at_zero_and_keep_their_intervals() {
        let (queries, picker) = picked(Selection::default(), &messages());
        assert_eq!(queries, [(0, 13), (SECOND, 14), (2 * SECOND, 15), (3 * SECOND, 16), (4 * SECOND, 17)]);
        assert_eq!((picker.responses, picker.too_long), (5, 0));
    }

    #[test]
    fn a_selection_keeps_its_duration() {
        // The first message is the response, half a second before the first query.
        let from = Duration::from_millis(1_500);
        let until = Some(Duration::from_millis(3_500));
        let (queries, _) = picked(Selection { from, until, ..Selection::default() }, &messages());
        assert_eq!(queries, [(0, 14), (SECOND, 15)]);
        let (queries, _) = picked(Selection { limit: Some(2), speed: 4.0, ..Selection::default() }, &messages());
        assert_eq!(queries, [(0, 13), (SECOND / 4, 14)]);
    }

    #[test]
    fn a_partition_starts_with_the_run() {
        let partition = Some(Partition { origin_ns: SECOND / 4, index: 1, count: 2 });
        let (queries, _) = picked(Selection { partition, limit: Some(2), ..Selection::default() }, &messages());
        assert_eq!(queries, [(SECOND * 3 / 4, 13), (SECOND * 7 / 4, 14)]);
    }

    #[test]
    fn too_long_queries_are_counted() {
        let (queries, picker) =
            picked(Selection::default(), &[(0, vec![0; QUERY_BYTES_MAX]), (1, vec![0; QUERY_BYTES_MAX + 1])]);
        assert_eq!((queries, picker.too_long), (vec![(0, QUERY_BYTES_MAX)], 1));
    }
}
