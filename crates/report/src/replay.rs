//! How closely a replay followed its trace, as measured by the tool: its part of `summary.json`.

use measure::Quantiles;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The results that only a replay has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplayFigures {
    /// Time from planned to actual sending, in microseconds. None without planned times (`--fast`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_error_us: Option<Quantiles>,
    /// Absolute difference between the actual and the planned interval of consecutive queries, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_error_us: Option<Quantiles>,
    /// Deviation of the rate of the whole run from the planned rate, as a share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_error: Option<f64>,
    /// The same for each second with planned queries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_rate_error: Option<Shares>,
    /// The replayed trace and its settings.
    pub replay: ReplaySettings,
}

/// Quantiles of shares.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Shares {
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub p50: f64,
    /// Third quartile.
    pub q3: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Maximum.
    pub max: f64,
    /// Number of values.
    pub n: u64,
    /// Share of the values that are at most a thousandth (LDplayer, Figure 8). None in runs of versions that did not
    /// record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<f64>,
}

/// A rate counts as near if it differs from the planned rate by at most a thousandth, as in Figure 8 of LDplayer (IMC
/// 2018). The margin lets one query of a thousand count as near despite rounding.
const NEAR: f64 = 0.001 + 1e-9;

impl Shares {
    /// Computes the quantiles of these shares.
    #[must_use]
    pub fn of(mut shares: Vec<f64>) -> Self {
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

    /// Bounds for two processes together. Only quantiles are known, so the worse value of both is used.
    fn joined(self, other: Self) -> Self {
        Self {
            q1: self.q1.max(other.q1),
            p50: self.p50.max(other.p50),
            q3: self.q3.max(other.q3),
            p99: self.p99.max(other.p99),
            max: self.max.max(other.max),
            n: self.n.max(other.n),
            // If both are near in a second, their sum is near too.
            near: self.near.zip(other.near).map(|(one, other)| (one + other - 1.0).max(0.0)),
        }
    }
}

/// The replayed trace and its settings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplaySettings {
    /// The file name of the trace.
    pub trace: String,
    /// Number of queries to send.
    pub queries: u64,
    /// Number of source addresses.
    pub sources: u64,
    /// Number of source addresses, each counted once per transport.
    pub clients: u64,
    /// Time from the first query to the last, at the requested speed.
    pub trace_seconds: f64,
    /// How sources were mapped to local addresses: `addresses`, `sockets`, `prefix=NETWORK`.
    pub source_mode: String,
    /// Whether sources shared addresses, because there were more sources than addresses.
    pub sources_share_addresses: bool,
    /// `trace`: at the times of the trace. `fast`: as fast as possible.
    pub timing: String,
    /// Seconds of the trace per second.
    pub speed: f64,
    /// Whether each query waited for the answer to the previous query of its client.
    #[serde(alias = "dependent")]
    pub wait_for_answer: bool,
    /// The handling of late queries. `slip`: they were sent as soon as possible. `stop`: the run ended.
    pub late: String,
    /// Lateness that ends the run with `stop`, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_limit_us: Option<f64>,
    /// The query that ended the run: its planned time in seconds, and its lateness in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<[f64; 2]>,
    /// Number of responses in the trace, which are not sent.
    pub responses: u64,
    /// Number of queries that were too long to send.
    pub too_long: u64,
    /// Whether the trace was unsorted and had to be sorted by time.
    pub sorted: bool,
    /// Messages too far behind a later one to be sorted. They were sent together with it.
    pub backwards: u64,
    /// Implausible times. They did not advance the time.
    pub jumps: u64,
    /// Incomplete frames, segments and lines.
    pub lost: u64,
    /// Why the trace could not be read to its end, if so. Earlier messages were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged: Option<String>,
    /// Number of queries in the second reading, if it differs from the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_again: Option<u64>,
    /// Of these, queries of clients that the first reading did not have. They were not sent.
    pub newcomers: u64,
    /// How often a worker had no query to send because reading the trace had fallen behind.
    pub dry: u64,
    /// How often waiting queries left no room for others.
    pub crowded: u64,
}

impl ReplayFigures {
    /// The result of two processes that replayed a trace together. Counts are added. For values that cannot be combined
    /// exactly, the larger one is kept as an upper bound.
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

    /// Lines for the terminal.
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
        let ReplaySettings { queries, sources, source_mode, timing, speed, late, .. } = &self.replay;
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
    one.zip(other).map(|(one, other)| Quantiles::bound(one, other))
}

impl ReplaySettings {
    /// The result of two processes that replayed a trace together.
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

    /// Describes the parts of the trace that were not sent unchanged.
    fn notes(&self) -> Vec<String> {
        let counts = [
            (self.responses, "responses not sent"),
            (self.too_long, "queries too long to be sent"),
            (self.backwards, "messages far behind later ones"),
            (self.jumps, "implausible times"),
            (self.newcomers, "queries not sent, because their clients were not in the first reading"),
            (self.lost, "incomplete records"),
        ];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let shared =
            self.sources_share_addresses.then(|| "more sources than addresses: some share an address".to_owned());
        let sorted = self.sorted.then(|| "sorted by time".to_owned());
        counted.chain(shared).chain(sorted).collect()
    }
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
    fn joined_shares_bound_the_near_seconds() {
        // In each process, a different one of four seconds is far off.
        let (one, other) = (vec![0.5, 0.0, 0.0, 0.0], vec![0.0, 0.5, 0.0, 0.0]);
        let joined = Shares::of(one).joined(Shares::of(other));
        assert_eq!((joined.n, joined.near, joined.max), (4, Some(0.5), 0.5));
        let none = Shares { near: None, ..joined };
        assert_eq!(none.joined(joined).near, None);
        let bad = Shares { near: Some(0.2), ..joined };
        assert_eq!(bad.joined(bad).near, Some(0.0));
    }

    #[test]
    fn older_runs_can_be_read() {
        let text = r#"{"q1":0.0,"p50":0.0,"q3":0.0,"p99":0.0,"max":0.0,"n":2}"#;
        assert_eq!(serde_json::from_str::<Shares>(text).unwrap().near, None);
    }
}
