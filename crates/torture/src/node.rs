//! One node: its network namespace, its directory and its process.

use crate::system;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The settings for libfaketime, which reads the clock's offset from a file.
#[derive(Clone, Debug)]
pub(crate) struct FakeClock {
    pub(crate) library: PathBuf,
    pub(crate) offset: PathBuf,
}

/// A member of the cluster, or a node that is about to join.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its network slot.
    pub(crate) slot: usize,
    /// Its number in the cluster.
    pub(crate) id: u64,
    /// The directory that `init` or `join` created.
    pub(crate) dir: PathBuf,
    pub(crate) program: PathBuf,
    pub(crate) clock: Option<FakeClock>,
    /// The number of the planted bug, if its program was built with planted bugs.
    pub(crate) planted: Option<u32>,
    log: PathBuf,
    namespace: String,
    process: Option<Child>,
}

impl Node {
    pub(crate) fn new(slot: usize, id: u64, dir: PathBuf, program: PathBuf, log: PathBuf, namespace: &str) -> Self {
        Self { slot, id, dir, program, clock: None, planted: None, log, namespace: namespace.to_owned(), process: None }
    }

    /// The directory with its log and checkpoints.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join(format!("node-{}/data", self.id))
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.join(format!("node-{}/catamaran.toml", self.id))
    }

    /// Starts the node. The kernel kills it when the starting thread ends.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        let config = self.config();
        self.process = Some(self.spawn(&config)?);
        Ok(())
    }

    /// Starts a process of the node's program with a configuration.
    pub(crate) fn spawn(&self, config: &Path) -> Result<Child, String> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(|error| format!("cannot open {}: {error}", self.log.display()))?;
        // `ip netns exec` would copy all mounts into a new mount namespace.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/var/run/netns/{}", self.namespace)).arg(&self.program);
        command.args(["serve", "--config"]).arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        if let Some(clock) = &self.clock {
            command.env("LD_PRELOAD", &clock.library).env("FAKETIME_TIMESTAMP_FILE", &clock.offset);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("FAKETIME_CACHE_DURATION", "1");
        }
        if let Some(number) = self.planted {
            command.env("CATAMARAN_PLANTED", number.to_string());
        }
        links::end_with_this_thread(&mut command);
        command.spawn().map_err(|error| format!("cannot start node {}: {error}", self.id))
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// The exit status of its process, if the process has exited by itself.
    pub(crate) fn has_ended(&mut self) -> Option<ExitStatus> {
        let status = self.process.as_mut()?.try_wait().ok()??;
        self.process = None;
        Some(status)
    }

    /// Waits until its process exits by itself.
    pub(crate) fn wait_end(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        while Instant::now() < deadline {
            if let Some(status) = self.has_ended() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }

    /// Sends SIGKILL. Returns an error if the process was not running.
    pub(crate) fn kill(&mut self) -> Result<(), String> {
        use std::os::unix::process::ExitStatusExt;
        let id = self.id;
        let mut process = self.process.take().ok_or_else(|| format!("node {id} is not running"))?;
        process.kill().map_err(|error| error.to_string())?;
        let status = process.wait().map_err(|error| error.to_string())?;
        match status.signal() {
            Some(libc::SIGKILL) => Ok(()),
            _ => Err(format!("node {id} exited with {status} before it was killed")),
        }
    }

    /// Kills the process if it is running.
    pub(crate) fn ensure_dead(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Stops the node with SIGTERM and waits. The exit status must be success.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Result<(), String> {
        let pid = self.pid().ok_or_else(|| format!("node {} is not running", self.id))?;
        system::signal(pid, libc::SIGTERM).map_err(|error| error.to_string())?;
        match self.wait_end(timeout) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("node {} exited with {status} after SIGTERM", self.id)),
            None => Err(format!("node {} did not stop after SIGTERM", self.id)),
        }
    }

    /// Stops the process with SIGSTOP. Returns an error if a thread still runs.
    pub(crate) fn pause(&self) -> Result<(), String> {
        let pid = self.pid().ok_or_else(|| format!("node {} is not running", self.id))?;
        system::signal(pid, libc::SIGSTOP).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while !stands_still(pid) {
            if Instant::now() > deadline {
                return Err(format!("node {} still runs after SIGSTOP", self.id));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(crate) fn resume(&self) {
        if let Some(pid) = self.pid() {
            let _ = system::signal(pid, libc::SIGCONT);
        }
    }

    /// The last lines of its log.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let mut last: Vec<&str> = text.lines().rev().take(lines).collect();
        last.reverse();
        last.join("\n")
    }
}

/// Whether no thread of a process is running or runnable (proc_pid_stat(5)).
fn stands_still(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let mut stats = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    stats.all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't'])))
}

impl Drop for Node {
    fn drop(&mut self) {
        self.ensure_dead();
    }
}
