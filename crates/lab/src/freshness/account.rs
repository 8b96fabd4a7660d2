//! Combines updates and sightings.

use super::watcher::Observations;
use super::writer::Acknowledged;
use hdrhistogram::Histogram;
use measure::Quantiles;
use serde::Serialize;
use std::net::SocketAddr;
use std::time::Instant;

/// `freshness.json`: the time from an acknowledged update until it is visible on each server.
#[derive(Clone, Debug, Serialize)]
pub struct Freshness {
    /// Sent updates.
    pub sent: u64,
    /// Updates acknowledged with NOERROR.
    pub acknowledged: u64,
    /// Updates with another RCODE.
    pub refused: u64,
    /// Updates without an answer.
    pub unanswered: u64,
    /// Time from sending to acknowledgement, in microseconds.
    pub acknowledged_us: Quantiles,
    /// Each watched server.
    pub servers: Vec<ServerFreshness>,
    /// Each update on each server, in order.
    #[serde(skip)]
    pub lines: Vec<Line>,
}

/// The results of one server.
#[derive(Clone, Debug, Serialize)]
pub struct ServerFreshness {
    /// Its address.
    pub server: SocketAddr,
    /// Time from the acknowledgement to the first answer with this or a later value, in microseconds. Zero if it was
    /// visible before.
    pub visible_us: Quantiles,
    /// Acknowledged updates that never became visible.
    pub unseen: u64,
    /// Resolution: mean time between two queries, in microseconds.
    pub resolution_us: f64,
}

/// A line of `freshness.jsonl`.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Time of the acknowledgement in seconds from the start of the run.
    pub at: f64,
    /// The watched server.
    pub server: SocketAddr,
    /// Microseconds from the acknowledgement until it was visible. Negative if it was visible before, none if never.
    pub visible_us: Option<f64>,
}

impl Freshness {
    /// Whether updates were sent but none was acknowledged.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.sent > 0 && self.acknowledged == 0
    }
}

pub(super) fn account(start: Instant, rounds: &[Acknowledged], seen: &[(SocketAddr, Observations)]) -> Freshness {
    let answered = |wanted: fn(u8) -> bool| {
        rounds.iter().filter(|round| round.answer.is_some_and(|(_, rcode)| wanted(rcode))).count() as u64
    };
    let mut to_ack = histogram();
    let mut lines = Vec::new();
    let mut servers: Vec<_> = seen.iter().map(|_| (histogram(), 0u64)).collect();
    for round in rounds {
        let Some((when, 0)) = round.answer else { continue };
        record(&mut to_ack, when.duration_since(round.sent).as_nanos());
        for ((server, Observations { seen: sightings, .. }), (visible, unseen)) in seen.iter().zip(&mut servers) {
            // Values increase, so the first one that is not smaller shows this update or a later one.
            let index = sightings.partition_point(|seen| seen.value < round.value);
            let visible_us = sightings.get(index).map(|seen| signed_us(when, seen.when));
            match visible_us {
                Some(us) => record(visible, (us.max(0.0) * 1e3) as u128),
                None => *unseen += 1,
            }
            lines.push(Line { at: signed_us(start, when) / 1e6, server: *server, visible_us });
        }
    }
    Freshness {
        sent: rounds.len() as u64,
        acknowledged: answered(|rcode| rcode == 0),
        refused: answered(|rcode| rcode != 0),
        unanswered: rounds.iter().filter(|round| round.answer.is_none()).count() as u64,
        acknowledged_us: Quantiles::of(&to_ack),
        servers: seen
            .iter()
            .zip(servers)
            .map(|((server, watched), (visible, unseen))| ServerFreshness {
                server: *server,
                visible_us: Quantiles::of(&visible),
                unseen,
                resolution_us: watched.watched_for.as_secs_f64() * 1e6 / (watched.query_count as f64).max(1.0),
            })
            .collect(),
        lines,
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

fn record(histogram: &mut Histogram<u64>, nanoseconds: u128) {
    // The histogram resizes itself.
    histogram.record(nanoseconds as u64).expect("a histogram that grows takes any value");
}

fn signed_us(from: Instant, to: Instant) -> f64 {
    match to.checked_duration_since(from) {
        Some(after) => after.as_nanos() as f64 / 1e3,
        None => -(from.duration_since(to).as_nanos() as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::watcher::Sighting;
    use std::time::Duration;

    #[test]
    fn visibility_counts_from_the_acknowledgement() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let rounds = [
            Acknowledged { value: 5, sent: at(0), answer: Some((at(10), 0)) },
            Acknowledged { value: 6, sent: at(20), answer: Some((at(30), 0)) },
            Acknowledged { value: 7, sent: at(40), answer: Some((at(41), 5)) },
            Acknowledged { value: 8, sent: at(50), answer: None },
            Acknowledged { value: 9, sent: at(60), answer: Some((at(70), 0)) },
        ];
        let near = vec![
            Sighting { value: 5, when: at(8) },
            Sighting { value: 6, when: at(34) },
            Sighting { value: 9, when: at(71) },
        ];
        let far = vec![Sighting { value: 6, when: at(90) }];
        let watched = |seen| Observations { seen, query_count: 200, watched_for: Duration::from_millis(100) };
        let (near, far) = (watched(near), watched(far));
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let freshness = account(start, &rounds, &[(address(1), near), (address(2), far)]);
        assert_eq!((freshness.sent, freshness.acknowledged, freshness.refused, freshness.unanswered), (5, 3, 1, 1));
        let us: Vec<_> = freshness.lines.iter().map(|line| line.visible_us.map(|us| us as i64)).collect();
        assert_eq!(us, [Some(-2_000), Some(80_000), Some(4_000), Some(60_000), Some(1_000), None]);
        assert_eq!((freshness.servers[0].unseen, freshness.servers[1].unseen), (0, 1));
        assert!((freshness.servers[0].visible_us.max - 4_000.0).abs() < 10.0, "{freshness:?}");
        assert!((freshness.servers[0].resolution_us - 500.0).abs() < 1e-6, "{freshness:?}");
        assert!((freshness.acknowledged_us.p50 - 10_000.0).abs() < 20.0, "{freshness:?}");
    }
}
