//! The statistics of one second.

use super::histogram::{record, record_n};
use super::{CheckCounts, recycle};
use hdrhistogram::Histogram;

/// Number of RCODEs counted separately: up to BADCOOKIE (RFC 6895 2.3, RFC 7873 8).
pub const RCODE_COUNT: usize = 24;

/// The outcome of the queries sent in one second, and separately the messages received in it.
///
/// Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Second {
    /// Queries sent.
    pub sent: u64,
    /// Of these: answered in time, with the correct ID and question.
    pub answered: u64,
    /// Of these: timed out.
    pub timed_out: u64,
    /// Of these: unanswered when the run was interrupted.
    pub interrupted: u64,
    /// Of these: their connection failed or closed before the answer.
    pub connection_lost: u64,
    /// Answered queries with TC.
    pub truncated: u64,
    /// Answered queries with an unexpected RCODE.
    pub unexpected: u64,
    /// Results of checking the other answers.
    pub checked: CheckCounts,
    /// Answered queries by RCODE.
    pub rcodes: [u64; RCODE_COUNT],
    /// Bytes of the queries.
    pub bytes_sent: u64,
    /// Queries that the kernel did not accept.
    pub send_errors: u64,
    /// Answers received in this second, whenever their queries were sent.
    pub arrived: u64,
    /// Bytes received in this second.
    pub bytes_received: u64,
    /// Received in this second: answers after the timeout of their query.
    pub late: u64,
    /// Received in this second: second answers to a query.
    pub duplicate: u64,
    /// Received in this second: messages with the ID of a query in flight, but another question or without QR.
    pub mismatched: u64,
    /// Received in this second: messages with an unused ID, and invalid messages.
    pub stray: u64,
    /// Received in this second: messages from another address or port than the queried one.
    pub other_address: u64,
    /// Time from planned sending to the answer, including timeouts.
    pub latency: Histogram<u64>,
    /// Time from actual sending to the answer, including timeouts.
    pub service: Histogram<u64>,
    /// Time from planned to actual sending.
    pub send_lag: Histogram<u64>,
}

impl Default for Second {
    fn default() -> Self {
        Self {
            sent: 0,
            answered: 0,
            timed_out: 0,
            interrupted: 0,
            connection_lost: 0,
            truncated: 0,
            unexpected: 0,
            checked: CheckCounts::default(),
            rcodes: [0; RCODE_COUNT],
            bytes_sent: 0,
            send_errors: 0,
            arrived: 0,
            bytes_received: 0,
            late: 0,
            duplicate: 0,
            mismatched: 0,
            stray: 0,
            other_address: 0,
            latency: recycle::take(),
            service: recycle::take(),
            send_lag: recycle::take(),
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        recycle::give_back([&mut self.latency, &mut self.service, &mut self.send_lag]);
    }
}

impl Second {
    /// Counts a sent query.
    pub fn sent(&mut self, lag_ns: u64, bytes: usize) {
        self.record_sent_batch(lag_ns, 1, bytes);
    }

    /// Counts `count` queries with the same send lag. `bytes` is their total size.
    pub fn record_sent_batch(&mut self, lag_ns: u64, count: usize, bytes: usize) {
        self.sent += count as u64;
        self.bytes_sent += bytes as u64;
        record_n(&mut self.send_lag, lag_ns, count as u64);
    }

    /// Records the latency of a query, or its timeout.
    pub fn record_latency(&mut self, latency_ns: u64, service_ns: u64) {
        record(&mut self.latency, latency_ns);
        record(&mut self.service, service_ns);
    }

    /// Adds the statistics of another second or worker.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.timed_out += other.timed_out;
        self.interrupted += other.interrupted;
        self.connection_lost += other.connection_lost;
        self.truncated += other.truncated;
        self.unexpected += other.unexpected;
        self.checked.add(&other.checked);
        for (sum, more) in self.rcodes.iter_mut().zip(other.rcodes) {
            *sum += more;
        }
        self.bytes_sent += other.bytes_sent;
        self.send_errors += other.send_errors;
        self.arrived += other.arrived;
        self.bytes_received += other.bytes_received;
        self.late += other.late;
        self.duplicate += other.duplicate;
        self.mismatched += other.mismatched;
        self.stray += other.stray;
        self.other_address += other.other_address;
        for (sum, more) in [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.send_lag, &other.send_lag),
        ] {
            sum.add(more).expect("histograms that grow take any value");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_from_a_microsecond_on() {
        let mut second = Second::default();
        for nanoseconds in [1_000, 1_234, 56_789, 7_654_321, 5_000_000_000] {
            second.record_latency(nanoseconds, nanoseconds);
        }
        for (quantile, exact) in [(0.2, 1_000.0), (0.4, 1_234.0), (0.6, 56_789.0), (0.8, 7_654_321.0), (1.0, 5e9)] {
            let seen = second.latency.value_at_quantile(quantile) as f64;
            assert!((seen / exact - 1.0).abs() <= 0.001, "{seen} {exact}");
        }
    }

    #[test]
    fn seconds_add_up() {
        let mut first = Second::default();
        first.sent(10, 40);
        let mut second = Second::default();
        second.sent(30, 40);
        second.record_latency(5_000, 4_000);
        first.merge(&second);
        assert_eq!((first.sent, first.bytes_sent, first.send_lag.max(), first.latency.len()), (2, 80, 30, 1));
    }
}
