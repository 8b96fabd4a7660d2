//! Which messages of a trace are sent, and when.
//!
//! Both readings of a trace go through here and nowhere else, in the same order, so that rules which change messages on
//! the way change the same both times.

use super::timeline::Timeline;
use crate::engine::Transport;
use crate::limits::QUERY_BYTES_MAX;
use ::trace::Message;
use ::trace::mutate::{Mutator, Plan, PlanError};
use std::net::IpAddr;
use std::time::Duration;

/// Which part of a trace is sent, how fast, and over what.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Selection {
    /// What was seen earlier than so long after the first message is left out.
    pub from: Duration,
    /// So is what was seen then or later.
    pub until: Option<Duration>,
    /// No more queries than this.
    pub limit: Option<u64>,
    /// So many seconds of the trace in one second.
    pub speed: f64,
    /// All of them over this transport; otherwise each over its own.
    pub transport: Option<Transport>,
    /// Where the trace is the share of one process of several that send it together.
    pub partition: Option<Partition>,
}

/// What one process of several that send a trace together knows of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Partition {
    /// The time of the trace at which the run begins, for all of them; a share begins later.
    pub origin_ns: u64,
    /// Which of them it is, from 0.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

impl Default for Selection {
    fn default() -> Self {
        Self { from: Duration::ZERO, until: None, limit: None, speed: 1.0, transport: None, partition: None }
    }
}

/// A query that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Query<'m> {
    /// From the start of the run; not earlier than the one before.
    pub(super) planned_ns: u64,
    pub(super) source: IpAddr,
    pub(super) transport: Transport,
    pub(super) bytes: &'m [u8],
}

/// What becomes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pick<'m> {
    Query(Query<'m>),
    Nothing,
    /// Nothing that follows is wanted.
    End,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Picker {
    selection: Selection,
    /// What changes messages before they are looked at.
    mutator: Option<Mutator>,
    pub(super) timeline: Timeline,
    /// When the first query that is sent was seen.
    first_ns: Option<u64>,
    picked: u64,
    /// Messages that are responses.
    pub(super) responses: u64,
    /// Queries with more bytes than the engine sends.
    pub(super) too_long: u64,
}

impl Picker {
    pub(super) fn new(selection: Selection) -> Self {
        let mut timeline = Timeline::default();
        let first_ns = selection.partition.map(|partition| timeline.advance(partition.origin_ns));
        Self { selection, mutator: None, timeline, first_ns, picked: 0, responses: 0, too_long: 0 }
    }

    /// The same, after rules, if there are any.
    ///
    /// # Errors
    /// When these cannot be carried out.
    pub(super) fn after(self, rules: Option<&Plan>) -> Result<Self, PlanError> {
        Ok(Self { mutator: rules.cloned().map(Mutator::new).transpose()?, ..self })
    }

    /// Whether there are as many queries as are wanted: whoever writes the next message need not be waited for.
    pub(super) fn is_done(&self) -> bool {
        self.selection.limit.is_some_and(|limit| self.picked >= limit)
    }

    /// Says what becomes of the next message.
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
        // The run begins with its first query, not with what the trace has before it.
        let since_ns = elapsed_ns - *first_ns.get_or_insert(elapsed_ns);
        Pick::Query(Query {
            planned_ns: (since_ns as f64 / speed) as u64,
            source: message.source.ip().to_canonical(),
            transport: transport.unwrap_or_else(|| transport_of(message.transport)),
            bytes: message.bytes,
        })
    }
}

/// The engine's word for it.
const fn transport_of(recorded: ::trace::Transport) -> Transport {
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
            let place = SocketAddr::from(([192, 0, 2, 1], 53));
            let transport = ::trace::Transport::Udp;
            let message = Message { at_ns: *at_ns, source: place, destination: place, transport, bytes };
            match picker.pick(&message) {
                Pick::Query(query) => queries.push((query.planned_ns, query.bytes.len())),
                Pick::Nothing => {}
                Pick::End => break,
            }
        }
        (queries, picker)
    }

    /// A query each second, and before it, half a second earlier, a response.
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
