//! A control group, version 1 or 2: CPU, memory, the time that its quota held it back, and its processes.

use super::Reading;
use super::members::Members;
use crate::limits::{CGROUPS_READ_MAX, WATCHED_PROCESSES_MAX};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// A control group that is watched.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
    /// Folders that hold its files: one in version 2, one for each controller in version 1.
    folders: Vec<PathBuf>,
    members: Members,
}

impl Cgroup {
    /// The group of this name, such as `/system.slice/nsd.service`.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let name = name.strip_prefix(ROOT).unwrap_or(name).trim_matches('/');
        let controllers = ["", "cpu", "cpuacct", "cpu,cpuacct", "memory"];
        let folders: Vec<_> = controllers
            .iter()
            .map(|controller| Path::new(ROOT).join(controller).join(name))
            .filter(|folder| folder.is_dir())
            .collect();
        match folders.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, format!("no such group below {ROOT}"))),
            false => Ok(Self { name: format!("/{name}"), folders, members: Members::default() }),
        }
    }

    /// The group whose CPU quota a process is under.
    pub(super) fn of_process(pid: u32) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        // `4:cpu,cpuacct:/name` in version 1, `0::/name` in version 2.
        let name = |is_wanted: fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let (controllers, name) = line.split_once(':')?.1.split_once(':')?;
                is_wanted(controllers).then_some(name)
            })
        };
        let is_cpu = |controllers: &str| controllers.split(',').any(|controller| controller == "cpu");
        Self::new(name(is_cpu).or_else(|| name(str::is_empty))?).ok()
    }

    pub(super) fn read(&mut self) -> io::Result<Reading> {
        if !self.folders.iter().any(|folder| folder.is_dir()) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the group is gone"));
        }
        let cpu_at = Instant::now();
        let cpu_v1 = self.file("cpuacct.usage").and_then(|text| text.trim().parse::<f64>().ok());
        let cpu_v2 = self.field("cpu.stat", "usage_usec");
        let cpu_group = cpu_v2.map(|us| us / 1e6).or(cpu_v1.map(|ns| ns / 1e9));
        let memory = self.file("memory.current").or_else(|| self.file("memory.usage_in_bytes"));
        let memory = memory.and_then(|text| text.trim().parse().ok());
        let throttled_seconds = self.throttled_seconds();
        let members = self.members.read(&pids(&self.folders))?;
        Ok(Reading {
            // What the group says counts processes that have ended, and the page cache; without it, what they say.
            cpu_seconds: cpu_group.or(members.cpu_seconds),
            cpu_at: cpu_group.map(|_| cpu_at).or(members.cpu_at),
            rss_bytes: memory.or(members.rss_bytes),
            throttled_seconds,
            ..members
        })
    }

    /// Time that the quota held it back so far; `None` without a quota of its own.
    pub(super) fn throttled_seconds(&self) -> Option<f64> {
        let v2 = self.field("cpu.stat", "throttled_usec").map(|us| us / 1e6);
        v2.or_else(|| self.field("cpu.stat", "throttled_time").map(|ns| ns / 1e9))
    }

    fn file(&self, name: &str) -> Option<String> {
        self.folders.iter().find_map(|folder| fs::read_to_string(folder.join(name)).ok())
    }

    fn field(&self, file: &str, label: &str) -> Option<f64> {
        let text = self.file(file)?;
        text.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

/// Processes in these groups and in those below them.
fn pids(folders: &[PathBuf]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut unread = folders.to_vec();
    let mut read_count = 0;
    while let Some(folder) = unread.pop()
        && read_count < CGROUPS_READ_MAX
    {
        read_count += 1;
        let list = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
        let free = WATCHED_PROCESSES_MAX - found.len();
        found.extend(list.lines().filter_map(|line| line.parse::<u32>().ok()).take(free));
        let below = fs::read_dir(&folder).into_iter().flatten().flatten();
        unread
            .extend(below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()));
    }
    found
}

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cgroup {}", self.name)
    }
}
