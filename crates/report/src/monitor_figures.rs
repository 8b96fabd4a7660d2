//! What the monitored sources show over a run: parts of `summary.json`.

use super::{Recording, Sample};
use measure::{Spread, Trend};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Figures of one source of `--monitor`, over its samples during the run. Values that it does not have are absent.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MonitorFigures {
    /// `pid 4711` or `cgroup x`.
    pub source: String,
    /// Cores in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<Spread>,
    /// Resident memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<Spread>,
    /// Whether it rose or fell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_trend: Option<Trend>,
    /// Memory that the kernel keeps for the memory control group, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_memory_bytes: Option<Spread>,
    /// Whether it rose or fell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_memory_trend: Option<Trend>,
    /// All memory of that group, with the page cache, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_memory_bytes: Option<Spread>,
    /// Buffers of all TCP sockets of the machine, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp_memory_bytes: Option<Spread>,
    /// Buffers of all UDP sockets of the machine, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_memory_bytes: Option<Spread>,
    /// TCP connections to its ports in ESTABLISHED.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub established: Option<Spread>,
    /// TCP connections to its ports in TIME_WAIT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_wait: Option<Spread>,
}

/// The figures of each process and control group, numbered from 1 in the order of `--monitor`.
#[must_use]
pub(super) fn all(recording: &Recording, duration_seconds: f64) -> BTreeMap<usize, MonitorFigures> {
    let sources = sources(recording, duration_seconds).into_iter();
    (1..).zip(sources.map(|(source, samples)| MonitorFigures::of(source, &samples))).collect()
}

/// The samples of one of these sources during the run. Empty if there is no such source.
pub(super) fn of_source(recording: &Recording, number: usize, duration_seconds: f64) -> Vec<&Sample> {
    let source = sources(recording, duration_seconds).into_iter().nth(number - 1);
    source.map_or_else(Vec::new, |(_, samples)| samples)
}

/// Each process and control group with its samples during the run, in the order of `--monitor`.
fn sources(recording: &Recording, duration_seconds: f64) -> Vec<(&str, Vec<&Sample>)> {
    let during = |sample: &&Sample| sample.error.is_none() && (0.0..=duration_seconds).contains(&sample.at);
    let mut sources: Vec<(&str, Vec<&Sample>)> = Vec::new();
    for sample in recording.samples.iter().filter(|sample| sample.rss_bytes.is_some() || sample.cpu_cores.is_some()) {
        match sources.iter_mut().find(|(source, _)| *source == sample.source) {
            Some((_, samples)) => samples.push(sample),
            None => sources.push((&sample.source, vec![sample])),
        }
    }
    sources.iter_mut().for_each(|(_, samples)| samples.retain(during));
    sources
}

impl MonitorFigures {
    fn of(source: &str, samples: &[&Sample]) -> Self {
        let points = |value: fn(&Sample) -> Option<f64>| -> Vec<(f64, f64)> {
            samples.iter().filter_map(|sample| Some((sample.at, value(sample)?))).collect()
        };
        let spread = |value: fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = points(value).into_iter().map(|(_, value)| value).collect();
            (!values.is_empty()).then(|| Spread::of(values))
        };
        // A state without connections is not in the sample.
        let has_tcp = samples.iter().any(|sample| !sample.tcp_states.is_empty());
        let state = |name: &str| {
            let count = |sample: &&Sample| sample.tcp_states.get(name).copied().unwrap_or_default() as f64;
            has_tcp.then(|| Spread::of(samples.iter().map(count).collect()))
        };
        Self {
            source: source.to_owned(),
            cpu_cores: spread(|sample| sample.cpu_cores),
            rss_bytes: spread(|sample| sample.rss_bytes),
            rss_trend: Trend::of(&points(|sample| sample.rss_bytes)),
            kernel_memory_bytes: spread(|sample| sample.kernel_memory_bytes),
            kernel_memory_trend: Trend::of(&points(|sample| sample.kernel_memory_bytes)),
            group_memory_bytes: spread(|sample| sample.group_memory_bytes),
            tcp_memory_bytes: spread(|sample| sample.tcp_memory_bytes),
            udp_memory_bytes: spread(|sample| sample.udp_memory_bytes),
            established: state("ESTABLISHED"),
            time_wait: state("TIME_WAIT"),
        }
    }

    /// Its memory over the run. Empty without any.
    #[must_use]
    pub fn describe_memory(&self) -> String {
        let bytes = |bytes: f64| {
            if bytes < 1e6 { format!("{:.0} kB", bytes / 1e3) } else { format!("{:.1} MB", bytes / 1e6) }
        };
        let part = |name: &str, spread: Option<Spread>, trend: Option<Trend>| {
            let trend = trend.map_or_else(String::new, |trend| format!(", {}", trend.describe(bytes)));
            spread.map(|spread| format!("{name} {}{trend}", bytes(spread.p50)))
        };
        let parts = [
            part("resident", self.rss_bytes, self.rss_trend),
            part("kernel memory of its group", self.kernel_memory_bytes, self.kernel_memory_trend),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::Direction;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn samples_during_the_run_give_levels_and_trends() {
        let mut recording = Recording::new(UNIX_EPOCH, Duration::from_secs(1));
        for at in -2..30_i32 {
            let tcp_states = if at < 15 { vec![("LISTEN", 1)] } else { vec![("LISTEN", 1), ("ESTABLISHED", 40)] };
            recording.samples.push(Sample {
                at: f64::from(at),
                source: "pid 7".into(),
                // Memory before the run and after it does not count.
                rss_bytes: Some(if (0..=20).contains(&at) { 1e7 + 1e5 * f64::from(at) } else { 9e9 }),
                kernel_memory_bytes: Some(2e6),
                tcp_states: tcp_states.into_iter().map(|(state, count)| (state.to_owned(), count)).collect(),
                ..Sample::default()
            });
            recording.samples.push(Sample { at: f64::from(at), source: "http://x".into(), ..Sample::default() });
        }
        let figures = all(&recording, 20.0);
        assert_eq!(figures.keys().copied().collect::<Vec<_>>(), [1]);
        let MonitorFigures { source, rss_bytes, rss_trend, kernel_memory_trend, established, time_wait, .. } =
            &figures[&1];
        assert_eq!((source.as_str(), rss_bytes.unwrap().max, rss_bytes.unwrap().n), ("pid 7", 1.2e7, 21));
        assert_eq!(rss_trend.unwrap().direction, Direction::Rises);
        assert_eq!(kernel_memory_trend.unwrap().direction, Direction::Steady);
        assert_eq!((established.unwrap().p25, established.unwrap().max, time_wait.unwrap().max), (0.0, 40.0, 0.0));
        let text = "resident 11.0 MB, rises by 6.0 MB per minute; kernel memory of its group 2.0 MB, steady";
        assert_eq!(figures[&1].describe_memory(), text);
    }
}
