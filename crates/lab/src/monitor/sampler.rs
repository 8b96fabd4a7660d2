//! A thread that reads all sources at even distances.

use super::{Reading, Source};
use crate::limits::SAMPLES_MAX;
use crate::report::Sample;
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
        let mut first: Vec<Option<Reading>> = vec![None; self.names.len()];
        let mut last: Vec<Option<(Instant, Reading)>> = vec![None; self.names.len()];
        let mut samples = Vec::with_capacity(entries.len());
        for (when, index, reading) in entries {
            let at = match when.checked_duration_since(start) {
                Some(since) => since.as_secs_f64(),
                None => -start.duration_since(when).as_secs_f64(),
            };
            let told = match reading {
                Ok(reading) => {
                    let before = last[index].replace((when, reading.clone()));
                    let first = first[index].get_or_insert_with(|| reading.clone());
                    sample(reading, when, first, before.as_ref())
                }
                Err(error) => Sample { error: Some(error), ..Sample::default() },
            };
            samples.push(Sample { at, source: self.names[index].clone(), ..told });
        }
        samples
    }
}

/// What a reading says beside the first and the last one before it.
fn sample(reading: Reading, when: Instant, first: &Reading, last: Option<&(Instant, Reading)>) -> Sample {
    let since = |new: Option<f64>, old: Option<f64>| Some((new? - old?).max(0.0));
    // A thread that ended took its counts with it.
    let more = |new: Option<u64>, old: Option<u64>| Some(new?.saturating_sub(old?));
    let cpu_cores = last.and_then(|(then, last)| {
        let seconds = when.duration_since(*then).as_secs_f64().max(1e-9);
        since(reading.cpu_seconds, last.cpu_seconds).map(|used| used / seconds)
    });
    Sample {
        cpu_cores,
        rss_bytes: reading.rss_bytes.map(|octets| octets as f64),
        threads: reading.threads,
        voluntary_switches: more(reading.voluntary_switches, first.voluntary_switches),
        involuntary_switches: more(reading.involuntary_switches, first.involuntary_switches),
        throttled_seconds: since(reading.throttled_seconds, first.throttled_seconds),
        tcp_states: reading.tcp_states.into_iter().map(|(state, count)| (state.to_owned(), count)).collect(),
        udp_drops: more(reading.udp_drops, first.udp_drops),
        metrics: reading.metrics,
        ..Sample::default()
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
