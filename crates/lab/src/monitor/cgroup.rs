//! A control group, version 1 or 2: CPU, memory, throttling by its quota, and its processes.

use super::members::Members;
use super::reading::Reading;
use crate::limits::{CGROUPS_READ_MAX, WATCHED_PROCESSES_MAX};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// A monitored control group.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
    /// Its folders: one in version 2, one per controller in version 1.
    folders: Vec<PathBuf>,
    members: Members,
}

impl Cgroup {
    /// The group with this name, such as `/system.slice/nsd.service`.
    ///
    /// # Errors
    /// If it does not exist.
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

    /// The group of a process for this controller. The quota is in that for `cpu`.
    pub(super) fn of_process(pid: u32, controller: &str) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Self::new(group_name(&groups, controller)?).ok()
    }

    /// The group with the memory of a process. None for the root group, which has that of the whole machine.
    pub(super) fn with_memory_of(pid: u32) -> Option<Self> {
        Self::of_process(pid, "memory").filter(|group| group.name != "/")
    }

    pub(super) fn read(&mut self) -> io::Result<Reading> {
        if !self.folders.iter().any(|folder| folder.is_dir()) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the group is gone"));
        }
        let cpu_at = Instant::now();
        let cpu_v1 = self.file("cpuacct.usage").and_then(|text| text.trim().parse::<f64>().ok());
        let cpu_v2 = self.field("cpu.stat", "usage_usec");
        let cpu_group = cpu_v2.map(|us| us / 1e6).or(cpu_v1.map(|ns| ns / 1e9));
        let memory = self.memory_bytes();
        let throttled_seconds = self.throttled_seconds();
        let members = self.members.read(&pids(&self.folders))?;
        Ok(Reading {
            // The group's counters include exited processes and the page cache. Without them, use those of the
            // processes.
            cpu_seconds: cpu_group.or(members.cpu_seconds),
            cpu_at: cpu_group.map(|_| cpu_at).or(members.cpu_at),
            rss_bytes: memory.or(members.rss_bytes),
            group_memory_bytes: memory,
            kernel_memory_bytes: self.kernel_memory_bytes(),
            throttled_seconds,
            ..members
        })
    }

    /// Time throttled by the quota so far. `None` without its own quota.
    pub(super) fn throttled_seconds(&self) -> Option<f64> {
        let v2 = self.field("cpu.stat", "throttled_usec").map(|us| us / 1e6);
        v2.or_else(|| self.field("cpu.stat", "throttled_time").map(|ns| ns / 1e9))
    }

    /// Memory of the group, with the page cache.
    pub(super) fn memory_bytes(&self) -> Option<u64> {
        let memory = self.file("memory.current").or_else(|| self.file("memory.usage_in_bytes"));
        memory.and_then(|text| text.trim().parse().ok())
    }

    /// Memory that the kernel keeps for the group: sockets, page tables, stacks.
    pub(super) fn kernel_memory_bytes(&self) -> Option<u64> {
        let v1 = self.file("memory.kmem.usage_in_bytes").and_then(|text| text.trim().parse().ok());
        v1.or_else(|| self.field("memory.stat", "kernel").map(|bytes| bytes as u64))
    }

    fn file(&self, name: &str) -> Option<String> {
        self.folders.iter().find_map(|folder| fs::read_to_string(folder.join(name)).ok())
    }

    fn field(&self, file: &str, label: &str) -> Option<f64> {
        let text = self.file(file)?;
        text.lines().find_map(|line| line.strip_prefix(label)?.strip_prefix(' ')?.trim().parse().ok())
    }
}

/// The name of a group in `/proc/PID/cgroup`: `4:cpu,cpuacct:/name` in version 1, `0::/name` in version 2.
fn group_name<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    let name = |is_wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (controllers, name) = line.split_once(':')?.1.split_once(':')?;
            is_wanted(controllers).then_some(name)
        })
    };
    name(&|controllers| controllers.split(',').any(|own| own == controller)).or_else(|| name(&str::is_empty))
}

/// Processes in these groups and their subgroups.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_each_controller_is_found() {
        let groups = "8:pids:/\n4:memory:/lab/server\n3:cpu,cpuacct:/quota\n0::/unified\n";
        assert_eq!(group_name(groups, "memory"), Some("/lab/server"));
        assert_eq!(group_name(groups, "cpu"), Some("/quota"));
        assert_eq!(group_name(groups, "blkio"), Some("/unified"));
        assert_eq!(group_name("4:memory:/a\n", "cpu"), None);
    }
}
