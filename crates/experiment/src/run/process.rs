//! Processes of a run, from `/proc`: finds them, reads their CPU time and memory, and kills them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// The environment variable of each process of a run. Its value is the mark of the run, followed by a name.
pub(super) const VARIABLE: &str = "CATLAB_EXPERIMENT";
/// Clock ticks per second in `/proc`, on all platforms of Linux that run today.
const TICKS_PER_SECOND: f64 = 100.0;
/// Time limit for killed processes to exit.
const END_MAX: Duration = Duration::from_secs(10);
/// Interval of the checks in [`wait_until`].
const INTERVAL: Duration = Duration::from_millis(10);

/// The environment of a command of `catlab` with this mark. It runs in another folder, so paths of programs are
/// absolute.
pub(super) fn environment(mark: String) -> Vec<(String, String)> {
    let mut environment = vec![(VARIABLE.to_owned(), mark)];
    for name in testbed::PROGRAM_VARIABLES {
        let path = std::env::var_os(name).and_then(|path| std::path::absolute(path).ok());
        environment.extend(path.map(|path| (name.to_owned(), path.to_string_lossy().into_owned())));
    }
    environment
}

/// Asks a process to exit.
pub(super) fn terminate(pid: u32) {
    if let Ok(pid) = i32::try_from(pid) {
        let _sent = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
}

/// A process, with its start time because process IDs are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    /// Process ID.
    pub(super) pid: u32,
    /// Ticks from boot to its start.
    pub(super) start: u64,
}

impl Identity {
    /// The running process with this ID.
    pub(super) fn of(pid: u32) -> Option<Self> {
        read(pid).map(|process| process.identity)
    }

    /// Whether it is still running.
    pub(super) fn is_running(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// A running process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    pub(super) identity: Identity,
    parent: u32,
    /// Its state, as in proc_pid_stat(5).
    pub(super) state: char,
    ticks: u64,
}

impl Process {
    /// User and system time, including its children that have exited.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.ticks as f64 / TICKS_PER_SECOND
    }

    /// Peak resident memory.
    pub(super) fn memory_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.identity.pid)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: Option<u64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        kib.unwrap_or(0) * 1024
    }
}

/// A running process. `None` if it is gone or a zombie.
fn read(pid: u32) -> Option<Process> {
    parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: u32, text: &str) -> Option<Process> {
    // The second field is a name in parentheses, which may contain anything.
    let fields: Vec<_> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let state = fields.first()?.chars().next().filter(|state| !"ZX".contains(*state))?;
    let ticks = (11..15).map(number).sum::<Option<u64>>()?;
    let identity = Identity { pid, start: number(19)? };
    Some(Process { identity, parent: number(1)?.try_into().ok()?, state, ticks })
}

/// The processes with this mark or a longer one that starts with it, those of `roots`, and the descendants of both.
pub(super) fn family(mark: Option<&str>, roots: &[Identity]) -> Vec<Process> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: Vec<Process> = pids.filter(|pid| *pid != std::process::id()).filter_map(read).collect();
    let is_root = |process: &&Process| {
        roots.contains(&process.identity) || mark.is_some_and(|mark| has_mark(process.identity.pid, mark))
    };
    let mut found: BTreeSet<u32> = all.iter().filter(is_root).map(|process| process.identity.pid).collect();
    loop {
        let count = found.len();
        let children = all.iter().filter(|process| found.contains(&process.parent));
        let children: Vec<u32> = children.map(|process| process.identity.pid).collect();
        found.extend(children);
        if found.len() == count {
            return all.into_iter().filter(|process| found.contains(&process.identity.pid)).collect();
        }
    }
}

/// Whether the environment of a process has a mark that starts with this one.
fn has_mark(pid: u32, mark: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("{VARIABLE}={mark}");
    environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(wanted.as_bytes()))
}

/// Sends a signal to the processes that are still running.
pub(super) fn send(processes: &[Process], signal: Signal) {
    for process in processes.iter().filter(|process| process.identity.is_running()) {
        // It may have just exited.
        let _sent = kill(Pid::from_raw(process.identity.pid as i32), signal);
    }
}

/// Waits until a condition holds. Returns whether it does.
pub(super) fn wait_until(max: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + max;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Kills the processes of [`family`]. Returns whether all of them have exited.
pub(super) fn end(mark: Option<&str>, roots: &[Identity]) -> bool {
    // A process may start another one before it is killed.
    wait_until(END_MAX, || {
        let left = family(mark, roots);
        send(&left, Signal::SIGKILL);
        left.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn start(mark: &str, script: &str) -> Child {
        Command::new("sh").args(["-c", script]).env(VARIABLE, mark).spawn().unwrap()
    }

    #[test]
    fn the_fields_of_a_process_are_read_with_any_name() {
        let fields = "7 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1000 10";
        let process = parse(42, &format!("42 (a) b (c)) S {fields}")).unwrap();
        assert_eq!((process.parent, process.identity.start, process.ticks), (7, 98_765, 26));
        assert!(parse(42, &format!("42 (gone) Z {fields}")).is_none());
        assert!(Identity::of(u32::MAX).is_none());
    }

    #[test]
    fn only_processes_of_the_run_are_killed() {
        let mark = format!("family-{}/", std::process::id());
        // The second process has the mark of another run, of which this one is a prefix without the slash.
        let mut child = start(&mark, "sleep 100 & env -i sleep 100");
        let mut other = start(&mark.replace('/', "0/"), "exec sleep 100");
        assert!(wait_until(END_MAX, || family(Some(&mark), &[]).len() == 3));
        assert!(end(Some(&mark), &[]));
        assert!(!child.wait().unwrap().success());
        assert!(other.try_wait().unwrap().is_none());
        let reused = Identity { start: 1, pid: other.id() };
        assert!(end(Some("none/"), &[reused]) && other.try_wait().unwrap().is_none());
        assert!(end(Some("none/"), &[Identity::of(other.id()).unwrap()]));
        other.wait().unwrap();
    }
}
