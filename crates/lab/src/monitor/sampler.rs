//! A thread that reads all sources at even distances.

use super::{Reading, Source};
use crate::limits::SAMPLES_MAX;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What one source did in one interval; `monitor.jsonl` has one a line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sample {
    /// Seconds since the start of the run; below zero before it.
    pub at: f64,
    /// What was read.
    pub source: String,
    /// Why it could not be read; then nothing else is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Cores in use since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_cores: Option<f64>,
    /// Memory in use, in octets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<u64>,
    /// Context switches because a thread waited, since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voluntary_switches: Option<u64>,
    /// Context switches because a thread's time was up, since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub involuntary_switches: Option<u64>,
    /// Time that a CPU quota held it back since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttled_seconds: Option<f64>,
    /// TCP connections by state.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tcp_states: BTreeMap<&'static str, u64>,
    /// Datagrams that its sockets threw away since the sample before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub udp_drops: Option<u64>,
    /// Its Prometheus metrics, as they stand: those that differ from the sample before.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
}

/// One source's reading at one moment, or why there is none.
type Entry = (Instant, usize, Result<Reading, String>);

/// The watch while it goes on.
#[derive(Debug)]
pub struct Monitor {
    names: Vec<String>,
    stop: Sender<()>,
    thread: JoinHandle<Vec<Entry>>,
}

impl Monitor {
    /// Reads all sources at once, and again after each interval.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(mut sources: Vec<Source>, interval: Duration) -> std::io::Result<Self> {
        let names = sources.iter().map(Source::to_string).collect();
        let (stop, stopped) = channel();
        let read = move || {
            let mut entries = Vec::new();
            let mut metrics = vec![BTreeMap::new(); sources.len()];
            let mut next = Instant::now();
            loop {
                for (index, source) in sources.iter_mut().enumerate() {
                    let mut reading = source.read().map_err(|error| error.to_string());
                    if let Ok(reading) = &mut reading {
                        keep_changes(&mut reading.metrics, &mut metrics[index]);
                    }
                    if entries.len() < SAMPLES_MAX {
                        entries.push((Instant::now(), index, reading));
                    }
                }
                // An interval that was missed is left out: the distances stay even.
                while next <= Instant::now() {
                    next += interval;
                }
                if stopped.recv_timeout(next - Instant::now()) != Err(RecvTimeoutError::Timeout) {
                    return entries;
                }
            }
        };
        let thread = std::thread::Builder::new().name("monitor".into()).spawn(read)?;
        Ok(Self { names, stop, thread })
    }

    /// Ends the watch and tells what was seen, on the clock of a run that began at `start`.
    #[must_use]
    pub fn finish(self, start: Instant) -> Vec<Sample> {
        // The thread waits for nothing else, so it hears this at once.
        let _heard = self.stop.send(());
        let entries = self.thread.join().unwrap_or_default();
        let mut before: Vec<Option<(Instant, Reading)>> = vec![None; self.names.len()];
        let mut samples = Vec::with_capacity(entries.len());
        for (when, index, reading) in entries {
            let at = match when.checked_duration_since(start) {
                Some(since) => since.as_secs_f64(),
                None => -start.duration_since(when).as_secs_f64(),
            };
            let mut sample = Sample::empty(at, self.names[index].clone());
            match reading {
                Ok(reading) => {
                    sample.fill(&reading, when, before[index].as_ref());
                    before[index] = Some((when, reading));
                }
                Err(error) => sample.error = Some(error),
            }
            samples.push(sample);
        }
        samples
    }
}

impl Sample {
    fn empty(at: f64, source: String) -> Self {
        Self {
            at,
            source,
            error: None,
            cpu_cores: None,
            rss_bytes: None,
            threads: None,
            voluntary_switches: None,
            involuntary_switches: None,
            throttled_seconds: None,
            tcp_states: BTreeMap::new(),
            udp_drops: None,
            metrics: BTreeMap::new(),
        }
    }

    fn fill(&mut self, reading: &Reading, when: Instant, before: Option<&(Instant, Reading)>) {
        self.rss_bytes = reading.rss_bytes;
        self.threads = reading.threads;
        self.tcp_states.clone_from(&reading.tcp_states);
        self.metrics.clone_from(&reading.metrics);
        // Counters say something about an interval, so the first reading has none.
        let Some((then, old)) = before else { return };
        let seconds = when.duration_since(*then).as_secs_f64().max(1e-9);
        let grown = |new: Option<f64>, old: Option<f64>| Some((new? - old?).max(0.0));
        // A thread that ended took its counts with it.
        let more = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?));
        self.cpu_cores = grown(reading.cpu_seconds, old.cpu_seconds).map(|used| used / seconds);
        self.throttled_seconds = grown(reading.throttled_seconds, old.throttled_seconds);
        self.voluntary_switches = more(reading.voluntary_switches, old.voluntary_switches);
        self.involuntary_switches = more(reading.involuntary_switches, old.involuntary_switches);
        self.udp_drops = more(reading.udp_drops, old.udp_drops);
    }
}

/// Leaves of the metrics those that differ from the ones before: most never change, and a run may be long.
fn keep_changes(metrics: &mut BTreeMap<String, f64>, before: &mut BTreeMap<String, f64>) {
    metrics.retain(|name, value| before.insert(name.clone(), *value) != Some(*value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_lie_on_the_clock_of_the_run() {
        let source = format!("pid:{}", std::process::id()).parse().unwrap();
        let monitor = Monitor::start(vec![source], Duration::from_millis(50)).unwrap();
        let start = Instant::now() + Duration::from_millis(75);
        while start.elapsed() < Duration::from_millis(130) {
            std::hint::spin_loop();
        }
        let samples = monitor.finish(start);
        assert!(samples.len() >= 3, "{samples:?}");
        assert!(samples[0].at < 0.0 && samples.last().unwrap().at > 0.0, "{samples:?}");
        assert_eq!(samples[0].cpu_cores, None);
        let busy = samples[1..].iter().filter_map(|sample| sample.cpu_cores).fold(0.0, f64::max);
        assert!(busy > 0.2, "{samples:?}");
    }

    #[test]
    fn a_process_that_ends_is_reported() {
        let mut child = std::process::Command::new("sleep").arg("10").spawn().unwrap();
        let source = format!("pid:{}", child.id()).parse().unwrap();
        let monitor = Monitor::start(vec![source], Duration::from_millis(20)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        child.kill().unwrap();
        child.wait().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let samples = monitor.finish(Instant::now());
        assert_eq!(samples[0].error, None);
        assert!(samples.last().unwrap().error.is_some(), "{samples:?}");
    }
}
