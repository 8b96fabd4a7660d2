//! Processes that are monitored together: those of a control group, or a process with its descendants.

use super::reading::Reading;
use super::sockets::Sockets;
use crate::limits::WATCHED_PROCESSES_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::time::Instant;

/// Clock ticks per second in `/proc`: 100 on every Linux (proc_pid_stat(5), `USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Processes that are monitored together.
#[derive(Default, Debug)]
pub(super) struct Members {
    /// The counters of each process at the last sample.
    known: BTreeMap<u32, Counters>,
    /// The total so far, including exited processes.
    total: Counters,
    sockets: Sockets,
}

/// Counters that only increase while a process runs.
#[derive(Clone, Copy, Default, Debug)]
struct Counters {
    ticks: u64,
    voluntary: u64,
    involuntary: u64,
}

impl Counters {
    fn add_increments(&mut self, before: Self, now: Self) {
        // The counter drops by the switches of exited threads.
        self.ticks += now.ticks.saturating_sub(before.ticks);
        self.voluntary += now.voluntary.saturating_sub(before.voluntary);
        self.involuntary += now.involuntary.saturating_sub(before.involuntary);
    }
}

/// One process at one time.
struct ProcessFigures {
    used: Counters,
    threads: u64,
    rss_bytes: u64,
}

impl Members {
    /// Reads all processes. Processes that exit meanwhile are left out.
    ///
    /// # Errors
    /// If their sockets may not be read.
    pub(super) fn read(&mut self, pids: &BTreeSet<u32>) -> io::Result<Reading> {
        let mut known = BTreeMap::new();
        let (mut threads, mut rss_bytes) = (0, 0);
        let cpu_at = Instant::now();
        for &pid in pids {
            let Ok(seen) = ProcessFigures::read(pid) else { continue };
            // A new process started after the last sample.
            let before = self.known.get(&pid).copied().unwrap_or_default();
            self.total.add_increments(before, seen.used);
            known.insert(pid, seen.used);
            threads += seen.threads;
            rss_bytes += seen.rss_bytes;
        }
        self.known = known;
        let mut reading = Reading {
            cpu_seconds: Some(self.total.ticks as f64 / TICKS_PER_SECOND),
            cpu_at: Some(cpu_at),
            rss_bytes: Some(rss_bytes),
            threads: Some(threads),
            voluntary_switches: Some(self.total.voluntary),
            involuntary_switches: Some(self.total.involuntary),
            ..Reading::default()
        };
        self.sockets.read(pids, &mut reading)?;
        Ok(reading)
    }
}

impl ProcessFigures {
    fn read(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // Fields 14, 15 and 20 of proc_pid_stat(5). The second field is a name in brackets with arbitrary characters.
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
        let field =
            |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or_default();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let mut used = Counters { ticks: field(14) + field(15), ..Counters::default() };
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end between the two calls.
            let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
            used.voluntary += line(&status, "voluntary_ctxt_switches:").unwrap_or_default();
            used.involuntary += line(&status, "nonvoluntary_ctxt_switches:").unwrap_or_default();
        }
        let rss_bytes = line(&status, "VmRSS:").unwrap_or_default() * 1_024;
        Ok(Self { used, threads: field(20), rss_bytes })
    }
}

fn line(status: &str, label: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(label)?.split_ascii_whitespace().next()?.parse().ok())
}

/// A process and its running descendants.
pub(super) fn family(pid: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([pid]);
    let mut unasked = vec![pid];
    while let Some(parent) = unasked.pop() {
        for child in children(parent) {
            if found.len() < WATCHED_PROCESSES_MAX && found.insert(child) {
                unasked.push(child);
            }
        }
    }
    found
}

/// The children of each of its threads (proc_tid_children(5)). Empty if the kernel does not report them.
fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}
