//! A control group, version 1 or 2: CPU, memory, and the time that its quota held it back.

use super::Reading;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// A control group that is watched.
#[derive(Debug)]
pub struct Cgroup {
    name: String,
    /// Folders that hold its files: one in version 2, one for each controller in version 1.
    folders: Vec<PathBuf>,
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
            false => Ok(Self { name: format!("/{name}"), folders }),
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

    pub(super) fn read(&self) -> io::Result<Reading> {
        if !self.folders.iter().any(|folder| folder.is_dir()) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the group is gone"));
        }
        let cpu_v1 = self.file("cpuacct.usage").and_then(|text| text.trim().parse::<f64>().ok());
        let memory = self.file("memory.current").or_else(|| self.file("memory.usage_in_bytes"));
        Ok(Reading {
            cpu_seconds: self.field("cpu.stat", "usage_usec").map(|us| us / 1e6).or(cpu_v1.map(|ns| ns / 1e9)),
            rss_bytes: memory.and_then(|text| text.trim().parse().ok()),
            throttled_seconds: self.throttled_seconds(),
            ..Reading::default()
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

impl fmt::Display for Cgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cgroup {}", self.name)
    }
}
