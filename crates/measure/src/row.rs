//! A second as stored. Runs may last for hours.

use super::{CheckCounts, Distribution, Second};
use std::collections::BTreeMap;
use wire::number::Rcode;

/// One interval (a second in our runs): the outcome of queries sent in it, and messages received in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// Start, in seconds from the start of the run.
    pub start_seconds: f64,
    /// Length in seconds.
    pub span_seconds: f64,
    /// Queries sent.
    pub sent: u64,
    /// Of these: answered in time.
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
    pub rcodes: BTreeMap<String, u64>,
    /// Bytes of the queries.
    pub bytes_sent: u64,
    /// Queries that the kernel did not accept.
    pub send_errors: u64,
    /// Answers received in this interval, whenever their queries were sent.
    pub arrived: u64,
    /// Bytes received in this interval.
    pub bytes_received: u64,
    /// Answers received after the timeout of their query.
    pub late: u64,
    /// Second answers to the same query.
    pub duplicate: u64,
    /// Messages with the ID of a query in flight, but another question or without QR.
    pub mismatched: u64,
    /// Messages with an unused ID, and invalid messages.
    pub stray: u64,
    /// Messages from another address or port than the queried one.
    pub other_address: u64,
    /// Time from planned sending to the answer, including timeouts, in nanoseconds.
    pub latency: Distribution,
    /// Time from actual sending to the answer, including timeouts, in nanoseconds.
    pub service: Distribution,
    /// Time from planned to actual sending, in nanoseconds.
    pub send_lag: Distribution,
}

impl Row {
    /// The second `index` of a run.
    #[must_use]
    pub fn new(index: u64, second: &Second) -> Self {
        let rcodes = second.rcodes.iter().enumerate().filter(|&(_, &count)| count > 0);
        Self {
            start_seconds: index as f64,
            span_seconds: 1.0,
            sent: second.sent,
            answered: second.answered,
            timed_out: second.timed_out,
            interrupted: second.interrupted,
            connection_lost: second.connection_lost,
            truncated: second.truncated,
            unexpected: second.unexpected,
            checked: second.checked,
            rcodes: rcodes.map(|(rcode, &count)| (format!("{:?}", Rcode(rcode as u16)), count)).collect(),
            bytes_sent: second.bytes_sent,
            send_errors: second.send_errors,
            arrived: second.arrived,
            bytes_received: second.bytes_received,
            late: second.late,
            duplicate: second.duplicate,
            mismatched: second.mismatched,
            stray: second.stray,
            other_address: second.other_address,
            latency: Distribution::from(&second.latency),
            service: Distribution::from(&second.service),
            send_lag: Distribution::from(&second.send_lag),
        }
    }

    /// Number of correct answers: with an expected RCODE, and with the expected contents if checked.
    #[must_use]
    pub fn right(&self) -> u64 {
        self.checked.right_of(self.answered.saturating_sub(self.unexpected))
    }

    /// The sum of these intervals.
    #[must_use]
    pub fn sum(rows: &[Self]) -> Self {
        let start = rows.first().map_or(0.0, |row| row.start_seconds);
        let end = rows.last().map_or(0.0, |row| row.start_seconds + row.span_seconds);
        let of = |count: fn(&Self) -> u64| rows.iter().map(count).sum();
        let mut rcodes = BTreeMap::new();
        for (rcode, count) in rows.iter().flat_map(|row| &row.rcodes) {
            *rcodes.entry(rcode.clone()).or_default() += count;
        }
        Self {
            start_seconds: start,
            span_seconds: end - start,
            sent: of(|row| row.sent),
            answered: of(|row| row.answered),
            timed_out: of(|row| row.timed_out),
            interrupted: of(|row| row.interrupted),
            connection_lost: of(|row| row.connection_lost),
            truncated: of(|row| row.truncated),
            unexpected: of(|row| row.unexpected),
            checked: rows.iter().map(|row| &row.checked).sum(),
            rcodes,
            bytes_sent: of(|row| row.bytes_sent),
            send_errors: of(|row| row.send_errors),
            arrived: of(|row| row.arrived),
            bytes_received: of(|row| row.bytes_received),
            late: of(|row| row.late),
            duplicate: of(|row| row.duplicate),
            mismatched: of(|row| row.mismatched),
            stray: of(|row| row.stray),
            other_address: of(|row| row.other_address),
            latency: Distribution::sum(rows.iter().map(|row| &row.latency)),
            service: Distribution::sum(rows.iter().map(|row| &row.service)),
            send_lag: Distribution::sum(rows.iter().map(|row| &row.send_lag)),
        }
    }
}
