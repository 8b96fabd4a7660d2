//! The statistics of all transports of a worker, second by second.

use super::{ConnectionSecond, Second, Timeline, Transport, TransportSecond, recycle};

/// Number of histograms in a second of one transport.
const HISTOGRAM_COUNT: usize = 7;

/// One timeline for each transport of a run.
#[derive(Debug)]
pub struct TransportTimelines {
    timelines: Vec<(Transport, Timeline)>,
    timeout_ns: u64,
}

/// When a query was planned and sent.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sent {
    /// The planned time.
    pub planned_ns: u64,
    /// When the sender started sending it. It counts in this second.
    pub sent_ns: u64,
    /// Its client.
    pub client: u32,
    /// Its row, if queries are recorded one by one. Otherwise zero.
    pub row: u32,
}

impl TransportTimelines {
    /// Empty timelines for these transports. Queries time out after `timeout_ns`.
    #[must_use]
    pub fn new(transports: impl IntoIterator<Item = Transport>, timeout_ns: u64) -> Self {
        let timelines: Vec<_> = transports.into_iter().map(|transport| (transport, Timeline::default())).collect();
        // All seconds that may still change, the current one, and those being merged.
        let second_count = (timeout_ns / 1_000_000_000) as usize + 4;
        recycle::prepare(timelines.len() * second_count * HISTOGRAM_COUNT);
        Self { timelines, timeout_ns }
    }

    fn timeline(&mut self, transport: Transport) -> &mut Timeline {
        let index = self.timelines.iter().position(|(other, _)| *other == transport);
        let index = index.unwrap_or_else(|| {
            self.timelines.push((transport, Timeline::default()));
            self.timelines.len() - 1
        });
        &mut self.timelines[index].1
    }

    /// Prepares a second of every transport.
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

    /// Timeout of a query.
    #[must_use]
    pub const fn timeout_ns(&self) -> u64 {
        self.timeout_ns
    }

    /// Counts a timeout in the distributions, in the second of sending.
    pub fn record_timeout(&mut self, transport: Transport, sent: Sent, is_first: bool) {
        self.at(transport, sent.sent_ns).timed_out += 1;
        self.unanswered(transport, sent, is_first);
    }

    /// Counts a query that lost its connection in the same way.
    pub fn record_lost(&mut self, transport: Transport, sent: Sent, is_first: bool) {
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

    /// Removes the next second of every transport that ended before `before_ns`, with its index.
    pub fn retire(&mut self, before_ns: u64) -> Option<(u64, Vec<(Transport, TransportSecond)>)> {
        let mut index = None;
        let mut seconds = Vec::new();
        for (transport, timeline) in &mut self.timelines {
            let (own_index, second) = timeline.retire(before_ns)?;
            debug_assert!(index.is_none_or(|index| index == own_index));
            index = Some(own_index);
            seconds.push((*transport, *second));
        }
        index.map(|index| (index, seconds))
    }

    /// The remaining seconds at the end of the run.
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
        timelines.record_timeout(Transport::Dot, Sent { planned_ns: 1_000, sent_ns: 2_000, client: 0, row: 0 }, true);
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
