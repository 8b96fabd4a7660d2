//! A thread that reads all sources at regular intervals.

use super::reading::Reading;
use super::source::Source;
use crate::limits::SAMPLES_MAX;
use report::Sample;
use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A reading of one source, or why there is none.
type Entry = (Instant, usize, Result<Reading, String>);

/// A running monitor.
#[derive(Debug)]
pub struct Monitor {
    names: Vec<String>,
    stop: Sender<()>,
    thread: JoinHandle<Vec<Entry>>,
}

impl Monitor {
    /// Reads all sources now, and again after each interval.
    ///
    /// # Errors
    /// If the thread cannot be started.
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
                // Missed intervals are skipped, so that the times stay regular.
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

    /// Stops the monitor. Returns the samples on the clock of a run that began at `start`.
    #[must_use]
    pub fn finish(self, start: Instant) -> Vec<Sample> {
        // The thread reacts at once.
        let _heard = self.stop.send(());
        samples(&self.names, self.thread.join().unwrap_or_default(), start)
    }
}

/// Converts entries to samples on the clock of a run that began at `start`.
fn samples(names: &[String], entries: Vec<Entry>, start: Instant) -> Vec<Sample> {
    let mut last: Vec<Option<(Instant, Reading)>> = vec![None; names.len()];
    let mut samples = Vec::with_capacity(entries.len());
    for (read, index, reading) in entries {
        // CPU time refers to the time at which it was read, not to the end of the reading.
        let when = reading.as_ref().ok().and_then(|reading| reading.cpu_at).unwrap_or(read);
        let at = match when.checked_duration_since(start) {
            Some(since) => since.as_secs_f64(),
            None => -start.duration_since(when).as_secs_f64(),
        };
        let values = match reading {
            Ok(reading) => {
                let before = last[index].replace((when, reading.clone()));
                sample(reading, when, before.as_ref())
            }
            Err(error) => Sample { error: Some(error), ..Sample::default() },
        };
        samples.push(Sample { at, source: names[index].clone(), ..values });
    }
    samples
}

/// Computes a sample from two readings. The first reading has no increments.
fn sample(reading: Reading, when: Instant, last: Option<&(Instant, Reading)>) -> Sample {
    let since = |pick: fn(&Reading) -> Option<f64>| Some((pick(&reading)? - pick(&last?.1)?).max(0.0));
    // The counter drops by the counts of exited threads.
    let more = |pick: fn(&Reading) -> Option<u64>| Some(pick(&reading)?.saturating_sub(pick(&last?.1)?));
    let seconds = last.map_or(1.0, |(then, _)| when.duration_since(*then).as_secs_f64().max(1e-9));
    let cpu_cores = since(|reading| reading.cpu_seconds).map(|used| used / seconds);
    let throttled_seconds = since(|reading| reading.throttled_seconds);
    let voluntary_switches = more(|reading| reading.voluntary_switches);
    let involuntary_switches = more(|reading| reading.involuntary_switches);
    let udp_drops = more(|reading| reading.udp_drops);
    Sample {
        cpu_cores,
        rss_bytes: reading.rss_bytes.map(|bytes| bytes as f64),
        kernel_memory_bytes: reading.kernel_memory_bytes.map(|bytes| bytes as f64),
        group_memory_bytes: reading.group_memory_bytes.map(|bytes| bytes as f64),
        tcp_memory_bytes: reading.tcp_memory_bytes.map(|bytes| bytes as f64),
        udp_memory_bytes: reading.udp_memory_bytes.map(|bytes| bytes as f64),
        threads: reading.threads,
        voluntary_switches,
        involuntary_switches,
        throttled_seconds,
        tcp_states: reading.tcp_states.into_iter().map(|(state, count)| (state.to_owned(), count)).collect(),
        udp_drops,
        metrics: reading.metrics,
        ..Sample::default()
    }
}

/// Keeps only metrics that differ from the previous sample. Most never change, and a run may be long.
fn keep_changes(metrics: &mut BTreeMap<String, f64>, before: &mut BTreeMap<String, f64>) {
    metrics.retain(|name, value| before.insert(name.clone(), *value) != Some(*value));
}

#[cfg(test)]
mod tests {
    use super::*;

    // A busy machine may delay a thread, and a reading takes longer with many sockets. So only the order of times is
    // checked, and there is time for slow readings.
    const PAUSE: Duration = Duration::from_secs(3);

    #[test]
    fn samples_lie_on_the_clock_of_the_run() {
        let source = format!("pid:{}", std::process::id()).parse().unwrap();
        let monitor = Monitor::start(vec![source], Duration::from_millis(50)).unwrap();
        let start = Instant::now() + PAUSE;
        while start.elapsed() < PAUSE {
            std::hint::spin_loop();
        }
        let samples = monitor.finish(start);
        assert!(samples.len() >= 2, "{samples:?}");
        assert!(samples[0].at < 0.0 && samples.last().unwrap().at > 0.0, "{samples:?}");
        assert_eq!(samples[0].cpu_cores, None);
        let busy = samples[1..].iter().filter_map(|sample| sample.cpu_cores).fold(0.0, f64::max);
        assert!(busy > 0.05, "{samples:?}");
    }

    #[test]
    fn a_slow_sample_does_not_distort_core_counts() {
        let start = Instant::now();
        let after = |ms| start + Duration::from_millis(ms);
        // A server that uses one core all the time. Reading the sockets took 300, 10 and 200 ms.
        let entry = |cpu_ms: u64, read_ms: u64| {
            let cpu_seconds = Some(cpu_ms as f64 / 1e3);
            (after(read_ms), 0, Ok(Reading { cpu_seconds, cpu_at: Some(after(cpu_ms)), ..Reading::default() }))
        };
        let entries = vec![entry(0, 300), entry(500, 510), entry(1_000, 1_200)];
        let samples = samples(&["pid 1".to_owned()], entries, start);
        let usage: Vec<_> = samples.iter().map(|sample| (sample.at, sample.cpu_cores)).collect();
        assert_eq!(usage, [(0.0, None), (0.5, Some(1.0)), (1.0, Some(1.0))]);
    }

    #[test]
    fn a_process_that_ends_is_reported() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let source = format!("pid:{}", child.id()).parse().unwrap();
        let monitor = Monitor::start(vec![source], Duration::from_millis(20)).unwrap();
        std::thread::sleep(PAUSE);
        child.kill().unwrap();
        child.wait().unwrap();
        std::thread::sleep(PAUSE);
        let samples = monitor.finish(Instant::now());
        assert_eq!(samples[0].error, None);
        assert!(samples.last().unwrap().error.is_some(), "{samples:?}");
    }
}
