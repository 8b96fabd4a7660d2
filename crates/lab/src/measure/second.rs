//! The statistics of one second.

use super::{Checked, recycle};
use crate::limits::LATENCY_MAX_NS;
use hdrhistogram::Histogram;

/// RCODEs that are told apart: up to BADCOOKIE (RFC 6895 2.3, RFC 7873 8).
pub const RCODE_COUNT: usize = 24;

/// Significant digits of every histogram.
const DIGITS: u8 = 3;

/// What happened to the queries that were sent in one second; what arrived in it stands apart.
///
/// Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Second {
    /// Queries sent.
    pub sent: u64,
    /// Of these: answered in time, with the right ID and question.
    pub answered: u64,
    /// Of these: not answered within the time-out.
    pub timed_out: u64,
    /// Of these: not answered when the run was broken off.
    pub interrupted: u64,
    /// Of these: their connection could not be opened, or ended before the answer came.
    pub connection_lost: u64,
    /// Of the answered: with TC.
    pub truncated: u64,
    /// Of the answered: with an RCODE that was not expected.
    pub unexpected: u64,
    /// Of the others that were answered: what a look at the answers showed.
    pub checked: Checked,
    /// Of the answered, by RCODE.
    pub rcodes: [u64; RCODE_COUNT],
    /// Bytes of the queries.
    pub bytes_sent: u64,
    /// Queries that the kernel did not take.
    pub send_errors: u64,
    /// Answers that arrived in this second, whenever their queries were sent.
    pub arrived: u64,
    /// Bytes that arrived in this second.
    pub bytes_received: u64,
    /// Arrived in this second: after the time-out of their query.
    pub late: u64,
    /// Arrived in this second: a second answer to the same query.
    pub duplicate: u64,
    /// Arrived in this second: an ID that waits, with another question or without QR.
    pub mismatched: u64,
    /// Arrived in this second: an ID that was never sent, or bytes that are no message.
    pub stray: u64,
    /// Arrived in this second: from another address or port than the one that was asked.
    pub other_address: u64,
    /// From the planned time of each query to its answer; time-outs among them.
    pub latency: Histogram<u64>,
    /// From the actual sending of each query to its answer; time-outs among them.
    pub service: Histogram<u64>,
    /// From the planned time of each query to its sending.
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
            checked: Checked::default(),
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
    /// Notes one query that was sent.
    pub fn sent(&mut self, lag_ns: u64, bytes: usize) {
        self.record_sent_batch(lag_ns, 1, bytes);
    }

    /// Notes as many that were sent with the same lag, of so many bytes together.
    pub fn record_sent_batch(&mut self, lag_ns: u64, count: usize, bytes: usize) {
        self.sent += count as u64;
        self.bytes_sent += bytes as u64;
        record_alike(&mut self.send_lag, lag_ns, count as u64);
    }

    /// Notes how long one query took, or its time-out.
    pub fn record_latency(&mut self, latency_ns: u64, service_ns: u64) {
        record(&mut self.latency, latency_ns);
        record(&mut self.service, service_ns);
    }

    /// Adds another second's statistics, or another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.timed_out += other.timed_out;
        self.interrupted += other.interrupted;
        self.connection_lost += other.connection_lost;
        self.truncated += other.truncated;
        self.unexpected += other.unexpected;
        self.checked.add(&other.checked);
        for (own, more) in self.rcodes.iter_mut().zip(other.rcodes) {
            *own += more;
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
        for (own, more) in [
            (&mut self.latency, &other.latency),
            (&mut self.service, &other.service),
            (&mut self.send_lag, &other.send_lag),
        ] {
            own.add(more).expect("histograms that grow take any value");
        }
    }
}

/// A new one, empty, that grows; nanoseconds.
pub(crate) fn fresh() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(1, 1_000_000, DIGITS).expect("bounds that fit");
    histogram.auto(true);
    histogram
}

pub(crate) fn record(histogram: &mut Histogram<u64>, nanoseconds: u64) {
    record_alike(histogram, nanoseconds, 1);
}

/// The same value as often as that.
fn record_alike(histogram: &mut Histogram<u64>, nanoseconds: u64, count: u64) {
    // It grows by itself; a value beyond the bound, hours of latency, is kept at the bound.
    let value = nanoseconds.clamp(1, LATENCY_MAX_NS);
    histogram.record_n(value, count).expect("histograms that grow take any value");
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
