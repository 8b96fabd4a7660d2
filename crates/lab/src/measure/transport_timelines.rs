//! The statistics of all transports of a worker, second by second.

use super::{ConnectionSecond, Second, Timeline, TransportSecond, recycle};
use crate::engine::Transport;

/// Histograms of a second of one transport.
const HISTOGRAM_COUNT: usize = 7;

/// One timeline for each transport of a run.
#[derive(Debug)]
pub struct TransportTimelines {
    timelines: Vec<(Transport, Timeline)>,
    timeout_ns: u64,
}

/// When a query was to be sent, and when it was.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sent {
    /// When the plan wanted it.
    pub planned_ns: u64,
    /// When the sender turned to it: the second that it is charged to.
    pub sent_ns: u64,
    /// Whose it is.
    pub client: u32,
    /// Its row, where each query has one; zero otherwise.
    pub row: u32,
}

impl TransportTimelines {
    /// An empty account of these transports; a query times out after `timeout_ns`.
    #[must_use]
    pub fn new(transports: impl IntoIterator<Item = Transport>, timeout_ns: u64) -> Self {
        let timelines: Vec<_> = transports.into_iter().map(|transport| (transport, Timeline::default())).collect();
        // As many seconds as may still change, the one that begins, and those that are being added up meanwhile.
        let second_count = (timeout_ns / 1_000_000_000) as usize + 4;
        recycle::prepare(timelines.len() * second_count * HISTOGRAM_COUNT);
        Self { timelines, timeout_ns }
    }

    fn timeline(&mut self, transport: Transport) -> &mut Timeline {
        let index = self.timelines.iter().position(|(own, _)| *own == transport);
        let index = index.unwrap_or_else(|| {
            self.timelines.push((transport, Timeline::default()));
            self.timelines.len() - 1
        });
        &mut self.timelines[index].1
    }

    /// Has a second of every transport at hand.
    pub fn begin(&mut self, at_ns: u64) {
        for (_, timeline) in &mut self.timelines {
            timeline.at(at_ns);
        }
    }

    /// The queries of a second.
    pub fn at(&mut self, transport: Transport, at_ns: u64) -> &mut Second {
        &mut self.timeline(transport).at(at_ns).queries
    }

    /// The connections of a second.
    pub fn connections(&mut self, transport: Transport, at_ns: u64) -> &mut ConnectionSecond {
        &mut self.timeline(transport).at(at_ns).connections
    }

    /// After how long a query has timed out.
    #[must_use]
    pub const fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    /// A time-out stands in the distributions, in the second in which its query was sent.
    pub fn time_out(&mut self, transport: Transport, sent: Sent, is_first: bool) {
        self.at(transport, sent.sent_ns).timed_out += 1;
        self.unanswered(transport, sent, is_first);
    }

    /// So does a query that lost its connection.
    pub fn lose(&mut self, transport: Transport, sent: Sent, is_first: bool) {
        self.at(transport, sent.sent_ns).connection_lost += 1;
        self.unanswered(transport, sent, is_first);
    }

    fn unanswered(&mut self, transport: Transport, sent: Sent, is_first: bool) {
        let timeout_ns = self.timeout_ns;
        let latency_ns = sent.sent_ns - sent.planned_ns + timeout_ns;
        self.at(transport, sent.sent_ns).record_latency(latency_ns, timeout_ns);
        if is_first {
            self.connections(transport, sent.sent_ns).record_first_latency(latency_ns);
        }
    }

    /// Gives the next second that ended before `before_ns`, with its index, of every transport.
    pub fn retire(&mut self, before_ns: u64) -> Option<(u64, Vec<(Transport, TransportSecond)>)> {
        let mut index = None;
        let mut seconds = Vec::new();
        for (transport, timeline) in &mut self.timelines {
            let (own, second) = timeline.retire(before_ns)?;
            debug_assert!(index.is_none_or(|index| index == own));
            index = Some(own);
            seconds.push((*transport, *second));
        }
        index.map(|index| (index, seconds))
    }

    /// What is left, at the end of the run.
    pub fn finish(mut self) -> impl Iterator<Item = (u64, Vec<(Transport, TransportSecond)>)> {
        std::iter::from_fn(move || {
            let is_left = self.timelines.iter().any(|(_, timeline)| !timeline.is_empty());
            is_left.then(|| self.retire(u64::MAX)).flatten()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_retire_the_same_second() {
        let mut timelines = TransportTimelines::new([Transport::Udp, Transport::Dot], 500_000_000);
        timelines.time_out(Transport::Dot, Sent { planned_ns: 1_000, sent_ns: 2_000, client: 0, row: 0 }, true);
        timelines.at(Transport::Udp, 1_200_000_000).answered += 1;
        let (index, seconds) = timelines.retire(1_000_000_000).unwrap();
        let timed_out: Vec<_> = seconds.iter().map(|(transport, at)| (*transport, at.queries.timed_out)).collect();
        assert_eq!((index, timed_out), (0, vec![(Transport::Udp, 0), (Transport::Dot, 1)]));
        let first = &seconds[1].1.connections.first_query;
        assert_eq!((first.len(), first.value_at_quantile(1.0) / 1_000_000), (1, 500));
        assert!(timelines.retire(1_999_999_999).is_none());
        let rest: Vec<_> = timelines.finish().map(|(index, seconds)| (index, seconds.len())).collect();
        assert_eq!(rest, [(1, 2)]);
    }
}
