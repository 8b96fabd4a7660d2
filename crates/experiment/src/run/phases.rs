//! Figures of the phases between the events of a cell.
//!
//! Phase 0 ends with the first event, phase 1 with the second, and so on. Events at the same time end one phase. Rows
//! count by the time at which their queries were sent.

use measure::Row;
use report::Recording;
use std::collections::BTreeMap;

/// Events closer than this are one.
const SAME_SECONDS: f64 = 0.5;

/// The figures of each phase, by name:
/// - `phase1.first_share`: share of the queries with a right answer, in the second of the event and the next one;
/// - `phase1.share`: in all later seconds of the phase;
/// - `phase1.worst_share`: in the worst of these later seconds;
/// - `phase1.rate`: right answers per second in them;
/// - `phase1.max_us`: the highest latency in them, in microseconds;
/// - `phase1.first_max_us`: the same in the second of the event and the next one.
///
/// An answer is right unless the load expects another one. Phase 0 has no event, and none of its seconds is left out.
/// Empty without events.
pub(super) fn figures(recording: &Recording) -> BTreeMap<String, f64> {
    let mut ends: Vec<f64> = Vec::new();
    for event in &recording.events {
        let seconds = event.at;
        if ends.last().is_none_or(|last| seconds - last > SAME_SECONDS) {
            ends.push(seconds);
        }
    }
    let mut figures = BTreeMap::new();
    if ends.is_empty() {
        return figures;
    }
    // The last row with queries is not a whole second, and later ones only wait for answers.
    let last = recording.rows.iter().rposition(|row| row.sent > 0).unwrap_or(0);
    let complete = &recording.rows[..last];
    for phase in 0..=ends.len() {
        let begin = phase.checked_sub(1).map(|before| ends[before]);
        let end = ends.get(phase).copied().unwrap_or(f64::INFINITY);
        let is_in = |row: &&Row| begin.is_none_or(|begin| row_end(row) > begin) && row_end(row) <= end;
        let rows: Vec<&Row> = complete.iter().filter(is_in).collect();
        let (first, later) = rows.split_at(if begin.is_some() { rows.len().min(2) } else { 0 });
        let mut add = |name: &str, value: Option<f64>| {
            figures.extend(value.map(|value| (format!("phase{phase}.{name}"), value)));
        };
        add("first_share", share(first));
        add("first_max_us", max_us(first));
        add("max_us", max_us(later));
        add("share", share(later));
        add("worst_share", later.iter().filter_map(|row| share(&[row])).min_by(f64::total_cmp));
        let seconds: f64 = later.iter().map(|row| row.span_seconds).sum();
        let right: u64 = later.iter().map(|row| row.right()).sum();
        add("rate", (seconds > 0.0).then(|| right as f64 / seconds));
    }
    figures
}

fn row_end(row: &Row) -> f64 {
    row.start_seconds + row.span_seconds
}

/// The highest latency, in microseconds.
fn max_us(rows: &[&Row]) -> Option<f64> {
    let answered = rows.iter().filter(|row| !row.latency.is_empty());
    answered.map(|row| row.latency.max()).max().map(|max_ns| max_ns as f64 / 1e3)
}

/// Share of the queries with a right answer.
fn share(rows: &[&Row]) -> Option<f64> {
    let sent: u64 = rows.iter().map(|row| row.sent).sum();
    let right: u64 = rows.iter().map(|row| row.right()).sum();
    (sent > 0).then(|| right as f64 / sent as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::Event;
    use std::time::{Duration, SystemTime};

    #[test]
    fn phases_begin_after_their_events() {
        let mut recording = Recording::new(SystemTime::UNIX_EPOCH, Duration::from_secs(1));
        assert!(figures(&recording).is_empty());
        let event = |at| Event { at, kind: "fault".into(), text: String::new() };
        // Two events at almost the same time are one.
        recording.events = vec![event(2.5), event(2.6), event(6.0)];
        let answered = [10, 10, 5, 0, 10, 8, 0, 10, 10, 3];
        recording.rows = (0..10)
            .map(|second| Row {
                start_seconds: f64::from(second),
                span_seconds: 1.0,
                sent: 10,
                answered: answered[second as usize],
                ..Row::default()
            })
            .collect();
        let found = figures(&recording);
        let expected = [
            ("phase0.rate", 10.0),
            ("phase0.share", 1.0),
            ("phase0.worst_share", 1.0),
            // The second of the event, and the next one.
            ("phase1.first_share", 0.25),
            ("phase1.rate", 9.0),
            ("phase1.share", 0.9),
            ("phase1.worst_share", 0.8),
            ("phase2.first_share", 0.5),
            // Without the last row.
            ("phase2.rate", 10.0),
            ("phase2.share", 1.0),
            ("phase2.worst_share", 1.0),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)).into());
    }

    #[test]
    fn the_highest_latency_of_a_phase_is_found() {
        let mut recording = Recording::new(SystemTime::UNIX_EPOCH, Duration::from_secs(1));
        recording.events = vec![Event { at: 1.5, kind: "fault".into(), text: String::new() }];
        recording.rows = [3, 100, 4, 5, 1]
            .into_iter()
            .zip(0..)
            .map(|(latency_us, second)| Row {
                start_seconds: f64::from(second),
                span_seconds: 1.0,
                sent: 1,
                answered: 1,
                latency: measure::Distribution::of([(latency_us * 1_000, 1)]),
                ..Row::default()
            })
            .collect();
        let found = figures(&recording);
        let of = |name: &str| found[name].round();
        assert_eq!([of("phase0.max_us"), of("phase1.first_max_us"), of("phase1.max_us")], [3.0, 100.0, 5.0]);
        assert!(!found.contains_key("phase0.first_max_us"));
    }

    #[test]
    fn seconds_without_queries_and_wrong_answers_count() {
        let mut recording = Recording::new(SystemTime::UNIX_EPOCH, Duration::from_secs(1));
        recording.events = vec![Event { at: 0.5, kind: "fault".into(), text: String::new() }];
        // The last row only waits for answers.
        let rows = [(10, 0), (10, 0), (10, 4), (0, 0), (10, 0), (10, 0), (0, 0)];
        recording.rows = (0..7)
            .zip(rows)
            .map(|(second, (sent, unexpected))| Row {
                start_seconds: f64::from(second),
                span_seconds: 1.0,
                sent,
                answered: sent,
                unexpected,
                ..Row::default()
            })
            .collect();
        let found = figures(&recording);
        let of = |name: &str| found[&format!("phase1.{name}")];
        assert_eq!((of("share"), of("worst_share")), (0.8, 0.6));
        assert_eq!(of("rate"), 16.0 / 3.0);
    }
}
