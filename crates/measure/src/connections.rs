//! Connection statistics of one second.

use super::histogram::record;
use super::recycle;
use hdrhistogram::Histogram;

/// Connections of one second. Events count in the second in which they happened. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct ConnectionSecond {
    /// Completed handshakes.
    pub opened: u64,
    /// Failed connections: refused, handshake failed, or timed out.
    pub failed: u64,
    /// Opened connections that resumed a TLS session (RFC 8446 2.2).
    pub resumed: u64,
    /// Opened connections whose early data the server accepted (RFC 8446 2.3).
    pub early_data: u64,
    /// Queries sent as early data, over QUIC.
    pub early_queries: u64,
    /// Of these: answered, if the server accepted the early data. Counted in the second of the answer.
    pub early_answers: u64,
    /// Opened connections that the server closed.
    pub closed_by_peer: u64,
    /// Opened connections that this side closed: idle for too long, or after their last query.
    pub closed_by_us: u64,
    /// Queries that were due on a connection that was open or being opened.
    pub reused_queries: u64,
    /// Open connections at the end of the second.
    pub open: u64,
    /// Peak number of open connections. With several workers, the sum of their peaks.
    pub open_max: u64,
    /// Peak increase of open connections since the start of the second.
    peak: u64,
    /// Time from the first packet of each connection until it was open.
    pub handshake: Histogram<u64>,
    /// The part of it until TCP was connected.
    pub tcp_connect: Histogram<u64>,
    /// Lifetime of closed connections.
    pub lifetime: Histogram<u64>,
    /// Latency of the first query of each connection, and of queries without a connection, including timeouts. Counted
    /// in the second of sending, as in [`super::Second`].
    pub first_query: Histogram<u64>,
}

impl Default for ConnectionSecond {
    fn default() -> Self {
        Self {
            opened: 0,
            failed: 0,
            resumed: 0,
            early_data: 0,
            early_queries: 0,
            early_answers: 0,
            closed_by_peer: 0,
            closed_by_us: 0,
            reused_queries: 0,
            open: 0,
            open_max: 0,
            peak: 0,
            handshake: recycle::take(),
            tcp_connect: recycle::take(),
            lifetime: recycle::take(),
            first_query: recycle::take(),
        }
    }
}

impl Drop for ConnectionSecond {
    fn drop(&mut self) {
        recycle::give_back([&mut self.handshake, &mut self.tcp_connect, &mut self.lifetime, &mut self.first_query]);
    }
}

impl ConnectionSecond {
    /// Counts an opened connection and its handshake time.
    pub fn opened(&mut self, handshake_ns: u64) {
        self.opened += 1;
        self.peak = self.peak.max(self.opened.saturating_sub(self.closed_by_peer + self.closed_by_us));
        record(&mut self.handshake, handshake_ns);
    }

    /// Records the time until TCP was connected.
    pub fn tcp_connected(&mut self, connect_ns: u64) {
        record(&mut self.tcp_connect, connect_ns);
    }

    /// Counts the end of an opened connection.
    pub fn closed(&mut self, is_by_peer: bool, lifetime_ns: u64) {
        *(if is_by_peer { &mut self.closed_by_peer } else { &mut self.closed_by_us }) += 1;
        record(&mut self.lifetime, lifetime_ns);
    }

    /// Records the latency of the first query of a connection, or its timeout.
    pub fn record_first_latency(&mut self, latency_ns: u64) {
        record(&mut self.first_query, latency_ns);
    }

    /// The latency of all other queries, computed from that of all queries.
    #[must_use]
    pub fn reused_query(&self, latency: &Histogram<u64>) -> Histogram<u64> {
        let mut others = latency.clone();
        let rest = others.subtract(&self.first_query);
        debug_assert!(rest.is_ok(), "the first queries are among all: {rest:?}");
        others
    }

    /// Adds another worker's connections of the same second. Leaves `open` to [`ConnectionSecond::follow`].
    pub fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.failed += other.failed;
        self.resumed += other.resumed;
        self.early_data += other.early_data;
        self.early_queries += other.early_queries;
        self.early_answers += other.early_answers;
        self.closed_by_peer += other.closed_by_peer;
        self.closed_by_us += other.closed_by_us;
        self.reused_queries += other.reused_queries;
        self.peak += other.peak;
        for (sum, more) in [
            (&mut self.handshake, &other.handshake),
            (&mut self.tcp_connect, &other.tcp_connect),
            (&mut self.lifetime, &other.lifetime),
            (&mut self.first_query, &other.first_query),
        ] {
            sum.add(more).expect("histograms that grow take any value");
        }
    }

    /// Computes the number of open connections at the end and the peak from the number at the start.
    pub fn follow(&mut self, open_before: u64) {
        self.open_max = open_before + self.peak;
        self.open = (open_before + self.opened).saturating_sub(self.closed_by_peer + self.closed_by_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_reused_queries_are_separate() {
        let mut queries = super::super::Second::default();
        let mut connections = ConnectionSecond::default();
        for (latency_ns, is_first) in [(30_000_000, true), (40_000_000, true), (200_000, false), (30_000_000, false)] {
            queries.record_latency(latency_ns, latency_ns);
            if is_first {
                connections.record_first_latency(latency_ns);
            }
        }
        let reused = connections.reused_query(&queries.latency);
        let quantiles = super::super::Quantiles::of;
        assert_eq!(quantiles(&connections.first_query).n, 2);
        assert!(quantiles(&connections.first_query).min >= 29_900.0);
        assert_eq!((quantiles(&reused).n, quantiles(&reused).min.round()), (2, 200.0));
        assert!(quantiles(&reused).max < 30_100.0, "{:?}", quantiles(&reused));
    }

    #[test]
    fn open_connections_follow_from_opened_and_closed() {
        let mut first = ConnectionSecond::default();
        first.opened(300_000);
        first.opened(400_000);
        first.follow(1);
        // Eight connections that open and close within a second count in the peak.
        let mut short = ConnectionSecond::default();
        for _ in 0..3 {
            (0..8).for_each(|_| short.opened(1_000));
            (0..8).for_each(|_| short.closed(true, 1_000_000));
        }
        short.follow(0);
        assert_eq!((short.open, short.open_max, short.opened), (0, 8, 24));
        let mut second = ConnectionSecond::default();
        second.closed(true, 1_000_000_000);
        second.closed(false, 2_000_000_000);
        second.follow(first.open);
        assert_eq!((first.open, second.open, first.open_max, second.open_max), (3, 1, 3, 3));
        first.merge(&second);
        assert_eq!((first.opened, first.closed_by_peer, first.handshake.len(), first.lifetime.len()), (2, 1, 2, 2));
    }
}
