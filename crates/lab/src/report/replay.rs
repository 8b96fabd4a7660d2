//! How near to the trace a replay was, by the tool's own word: what stands in `summary.json` of it.

use super::merge::bound;
use crate::engine::{Outcome, Pace, Plan};
use crate::measure::Quantiles;
use crate::replay::{LatePolicy, Pacing, Replay, SecondReading, Survey};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::Path;

/// What only a replay has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayFigures {
    /// From the planned time of each query to its sending; microseconds. None where there is no plan (`--fast`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_error_us: Option<Quantiles>,
    /// How much longer or shorter the time from one query to the next was than planned, whichever; microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_error_us: Option<Quantiles>,
    /// How far the rate over the whole run was from the planned one, as a share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_error: Option<f64>,
    /// The same of each second in which queries were planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_rate_error: Option<Shares>,
    /// What was sent, and how.
    pub replay: ReplayOf,
}

/// Shares of one, in five figures.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Shares {
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub q3: f64,
    /// One in a hundred is larger.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// How many.
    pub n: u64,
    /// Which part of them is no more than a thousandth (LDplayer, Figure 8); none in runs of before it was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<f64>,
}

/// A rate this near to the planned one counts as near: a thousandth, as in Figure 8 of LDplayer (IMC 2018).
/// One query of a thousand is near, whatever binary fractions make of it.
const NEAR: f64 = 0.001 + 1e-9;

impl Shares {
    fn of(mut shares: Vec<f64>) -> Self {
        shares.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = ((share * shares.len() as f64).ceil() as usize).max(1);
            shares.get(rank - 1).copied().unwrap_or_default()
        };
        let near = shares.partition_point(|share| *share <= NEAR);
        Self {
            q1: at(0.25),
            p50: at(0.5),
            q3: at(0.75),
            p99: at(0.99),
            max: at(1.0),
            n: shares.len() as u64,
            near: (!shares.is_empty()).then(|| near as f64 / shares.len() as f64),
        }
    }

    /// Of two processes of whose seconds no more is kept: none of the figures is better than that of both.
    fn joined(self, other: Self) -> Self {
        Self {
            q1: self.q1.max(other.q1),
            p50: self.p50.max(other.p50),
            q3: self.q3.max(other.q3),
            p99: self.p99.max(other.p99),
            max: self.max.max(other.max),
            n: self.n.max(other.n),
            // A second in which both are near is near in their sum.
            near: self.near.zip(other.near).map(|(one, other)| (one + other - 1.0).max(0.0)),
        }
    }
}

/// What was sent, and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayOf {
    /// The file.
    pub trace: String,
    /// Queries that were to be sent.
    pub queries: u64,
    /// Addresses that ask.
    pub sources: u64,
    /// Addresses that ask, once for each transport that they use.
    pub clients: u64,
    /// From the first query to the last, at the speed that was wanted.
    pub trace_seconds: f64,
    /// Where sources were on this machine: `addresses`, `sockets`, `prefix=NETWORK`.
    pub source_mode: String,
    /// There were more sources than addresses: some shared theirs.
    pub sources_share_addresses: bool,
    /// `trace`: at its times; `fast`: without any.
    pub timing: String,
    /// So many seconds of the trace in one second.
    pub speed: f64,
    /// Each query waited for the answer to the one before it of the same client.
    #[serde(alias = "dependent")]
    pub wait_for_answer: bool,
    /// What became of queries that were late: `slip`, they went out as soon as they could; `stop`, the run ended.
    pub late: String,
    /// What counted as late for `stop`; microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_limit_us: Option<f64>,
    /// The query that ended the run: when it was planned (seconds), and how late it was (microseconds).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<[f64; 2]>,
    /// Responses in the trace, which are not sent.
    pub responses: u64,
    /// Queries with more bytes than are sent.
    pub too_long: u64,
    /// The trace is not in the order of time: it was put in order.
    pub sorted: bool,
    /// Messages that stand too far behind a later one to be put in order; they went out with it.
    pub backwards: u64,
    /// Times that made no sense beside those before; nothing passed there.
    pub jumps: u64,
    /// Frames, segments and lines that something is missing for.
    pub lost: u64,
    /// Why the trace could not be read to its end, if so; what came before was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    /// Queries that the trace had when it was read the second time, where that is another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_again: Option<u64>,
    /// Those of them whose client was not there the first time; they were not sent.
    pub newcomers: u64,
    /// How often a worker had nothing to send because the trace had not been read that far.
    pub dry: u64,
    /// How often queries that waited for their turn left no room for others.
    pub crowded: u64,
}

impl ReplayFigures {
    /// Of a run, if it was a replay.
    pub(super) fn of(plan: &Plan, outcome: &Outcome) -> Option<Self> {
        let Pace::Traced(replay) = &plan.pace else { return None };
        let mut pacing = Pacing::default();
        outcome.workers.iter().filter_map(|worker| worker.pacing.as_deref()).for_each(|own| pacing.merge(own));
        let is_timed = !replay.mode().is_fast;
        Some(Self {
            send_error_us: is_timed.then(|| Quantiles::of(&outcome.total.send_lag)),
            interval_error_us: is_timed.then(|| Quantiles::of(&pacing.interval_error)),
            rate_error: is_timed.then(|| rate_error(replay, &pacing)).flatten(),
            second_rate_error: is_timed.then(|| second_rate_error(replay, outcome)),
            replay: ReplayOf::new(replay, &outcome.second_reading, &pacing),
        })
    }

    /// Of two processes that sent a trace together: counts are added; of figures that each has kept no more of, the
    /// larger stands, which is a bound of that of both.
    pub(super) fn joined(self, other: Self) -> Self {
        let larger = |one: Option<f64>, other: Option<f64>| Some(one?.max(other?));
        Self {
            send_error_us: bound_of(self.send_error_us, other.send_error_us),
            interval_error_us: bound_of(self.interval_error_us, other.interval_error_us),
            rate_error: larger(self.rate_error, other.rate_error),
            second_rate_error: self
                .second_rate_error
                .zip(other.second_rate_error)
                .map(|(one, other)| one.joined(other)),
            replay: self.replay.joined(other.replay),
        }
    }

    /// A few lines for the terminal.
    pub(super) fn lines(&self, out: &mut String, microseconds: impl Fn(f64) -> String) {
        let mut line = |label: &str, text: String| {
            // Writing into a string cannot fail.
            let _written = writeln!(out, "{label:<10} {text}");
        };
        let five = |of: &Quantiles| {
            let [q1, p50, q3, p99, max] = [of.q1, of.p50, of.q3, of.p99, of.max].map(&microseconds);
            format!("q1 {q1}  median {p50}  q3 {q3}  p99 {p99}  worst {max}")
        };
        if let Some(error) = &self.send_error_us {
            line("send error", five(error));
        }
        if let Some(error) = &self.interval_error_us {
            line("intervals", format!("{} difference from the trace", five(error)));
        }
        let percent = |share: f64| format!("{:.4} %", 100.0 * share);
        if let Some(Shares { q1, p50, q3, p99, max, n, near }) = self.second_rate_error {
            let run = self.rate_error.map_or_else(|| "-".to_owned(), percent);
            let [q1, p50, q3, p99, max] = [q1, p50, q3, p99, max].map(percent);
            let seconds = format!("q1 {q1}  median {p50}  q3 {q3}  p99 {p99}  worst {max}");
            let near = near.map_or_else(String::new, |near| format!("; {:.2} % of them within 0.1 %", 100.0 * near));
            line("rate error", format!("{run} over the run; of {n} seconds {seconds}{near}"));
        }
        let ReplayOf { queries, sources, source_mode, timing, speed, late, .. } = &self.replay;
        let speed = if timing == "fast" { "as fast as possible".to_owned() } else { format!("at speed {speed}") };
        let waiting = if self.replay.wait_for_answer { ", each after the previous answer" } else { "" };
        line(
            "replay",
            format!("{queries} queries of {sources} sources ({source_mode}) {speed}{waiting}; late: {late}"),
        );
        let notes = self.replay.notes();
        if !notes.is_empty() {
            line("the trace", notes.join(", "));
        }
    }
}

fn bound_of(one: Option<Quantiles>, other: Option<Quantiles>) -> Option<Quantiles> {
    one.zip(other).map(|(one, other)| bound(one, other))
}

impl ReplayOf {
    /// Of two processes that sent a trace together.
    fn joined(self, other: Self) -> Self {
        Self {
            queries: self.queries + other.queries,
            sources: self.sources + other.sources,
            clients: self.clients + other.clients,
            trace_seconds: self.trace_seconds.max(other.trace_seconds),
            sources_share_addresses: self.sources_share_addresses | other.sources_share_addresses,
            stopped: self.stopped.or(other.stopped),
            responses: self.responses + other.responses,
            too_long: self.too_long + other.too_long,
            sorted: self.sorted | other.sorted,
            backwards: self.backwards + other.backwards,
            jumps: self.jumps + other.jumps,
            lost: self.lost + other.lost,
            damaged: self.damaged.or(other.damaged),
            queries_again: self.queries_again.or(other.queries_again),
            newcomers: self.newcomers + other.newcomers,
            dry: self.dry + other.dry,
            crowded: self.crowded + other.crowded,
            ..self
        }
    }

    /// The same with what is known of the whole trace, of which processes sent shares.
    pub fn of_whole(&mut self, trace: &Path, speed: f64, survey: &Survey) {
        self.trace = trace.display().to_string();
        self.speed = speed;
        self.trace_seconds = survey.duration().as_secs_f64();
        (self.responses, self.too_long, self.lost) = (survey.responses, survey.too_long, survey.lost);
        (self.sorted, self.backwards, self.jumps) = (survey.is_sorted, survey.backwards, survey.jumps);
        self.damaged.clone_from(&survey.damaged);
    }

    fn new(replay: &Replay, again: &SecondReading, pacing: &Pacing) -> Self {
        let (survey, mode, us) = (replay.survey(), replay.mode(), 1e6);
        Self {
            trace: replay.trace().display().to_string(),
            queries: survey.queries,
            sources: survey.source_count() as u64,
            clients: survey.client_count() as u64,
            trace_seconds: survey.duration().as_secs_f64(),
            source_mode: replay.sources().to_string(),
            sources_share_addresses: replay.has_shared_addresses(),
            timing: if mode.is_fast { "fast" } else { "trace" }.to_owned(),
            speed: replay.selection().speed,
            wait_for_answer: mode.is_dependent,
            late: if mode.late == LatePolicy::Slip { "slip" } else { "stop" }.to_owned(),
            late_limit_us: match mode.late {
                LatePolicy::Slip => None,
                LatePolicy::Stop(limit) => Some(limit.as_secs_f64() * us),
            },
            stopped: pacing.stopped.map(|(planned, late)| [planned.as_secs_f64(), late.as_secs_f64() * us]),
            responses: survey.responses,
            too_long: survey.too_long,
            sorted: survey.is_sorted,
            backwards: survey.backwards,
            jumps: survey.jumps,
            lost: survey.lost,
            damaged: survey.damaged.clone(),
            queries_again: again.queries.filter(|&queries| queries != survey.queries),
            newcomers: again.newcomers,
            dry: pacing.dry,
            crowded: pacing.crowded,
        }
    }

    /// What of the trace was not sent as it stands there.
    fn notes(&self) -> Vec<String> {
        let counts = [
            (self.responses, "responses not sent"),
            (self.too_long, "queries too long to be sent"),
            (self.backwards, "messages far behind later ones"),
            (self.jumps, "times that made no sense"),
            (self.newcomers, "queries of clients that the first reading did not meet, not sent"),
            (self.lost, "records that something is missing for"),
        ];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let shared = self.sources_share_addresses.then(|| "more sources than addresses: some share theirs".to_owned());
        let sorted = self.sorted.then(|| "put in the order of time".to_owned());
        counted.chain(shared).chain(sorted).collect()
    }
}

/// Of the rates between the first and the last query; none of less than two.
fn rate_error(replay: &Replay, pacing: &Pacing) -> Option<f64> {
    let survey = replay.survey();
    let (first_ns, last_ns) = pacing.span_ns?;
    let rate = |queries: u64, span_ns: u64| (queries > 1 && span_ns > 0).then(|| (queries - 1) as f64 / span_ns as f64);
    let (planned, seen) =
        (rate(survey.queries, survey.last_ns - survey.first_ns)?, rate(pacing.sent, last_ns - first_ns)?);
    Some((seen / planned - 1.0).abs())
}

/// Of the seconds in which queries were planned.
fn second_rate_error(replay: &Replay, outcome: &Outcome) -> Shares {
    let sent = |second: usize| {
        let rows = outcome.transports.values().filter_map(|account| account.seconds.get(second));
        rows.map(|row| row.sent).sum::<u64>() as f64
    };
    let planned = replay.survey().by_second.iter().enumerate().filter(|&(_, &planned)| planned > 0);
    Shares::of(planned.map(|(second, &planned)| (sent(second) / f64::from(planned) - 1.0).abs()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_within_a_thousandth_are_counted() {
        let shares = Shares::of(vec![0.0, 0.002, (999.0_f64 / 1_000.0 - 1.0).abs(), 0.0005]);
        assert_eq!((shares.n, shares.near, shares.p50, shares.max), (4, Some(0.75), 0.0005, 0.002));
        assert_eq!(Shares::of(Vec::new()).near, None);
    }

    #[test]
    fn of_two_processes_no_more_seconds_are_near_than_of_both() {
        // Of four seconds each has another one that is far off.
        let (one, other) = (vec![0.5, 0.0, 0.0, 0.0], vec![0.0, 0.5, 0.0, 0.0]);
        let joined = Shares::of(one).joined(Shares::of(other));
        assert_eq!((joined.n, joined.near, joined.max), (4, Some(0.5), 0.5));
        let none = Shares { near: None, ..joined };
        assert_eq!(none.joined(joined).near, None);
        let bad = Shares { near: Some(0.2), ..joined };
        assert_eq!(bad.joined(bad).near, Some(0.0));
    }

    #[test]
    fn a_run_of_before_can_be_read() {
        let text = r#"{"q1":0.0,"p50":0.0,"q3":0.0,"p99":0.0,"max":0.0,"n":2}"#;
        assert_eq!(serde_json::from_str::<Shares>(text).unwrap().near, None);
    }
}
