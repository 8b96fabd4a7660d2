//! Control groups, version 1: CPU quota and memory limit of a server.

use super::process::wait_until;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// Prefix of the names of all groups created here.
pub(super) const PREFIX: &str = "catlab-";
/// Period of the CPU quota in microseconds. It is the default of the kernel.
const PERIOD_US: u32 = 100_000;
/// Time limit to remove a group without processes.
const REMOVE_MAX: Duration = Duration::from_secs(5);

/// A control group to create: its folder, and its files with their values.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) folder: PathBuf,
    files: Vec<(&'static str, String)>,
}

/// The groups with these limits, one for each controller.
///
/// # Errors
/// This machine does not have the controller, or a limit is not a number.
pub(super) fn plans(name: &str, cpu: Option<&str>, memory: Option<&str>) -> Result<Vec<Plan>, String> {
    let mut plans = Vec::new();
    if let Some(cpu) = cpu {
        let share: f64 = cpu.parse().map_err(|_| format!("`{cpu}` is not a number of cores"))?;
        let quota = (share * f64::from(PERIOD_US)).round() as u32;
        let files = vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())];
        plans.push(Plan { folder: parent("cpu", "cpu.cfs_quota_us")?.join(format!("{PREFIX}{name}")), files });
    }
    if let Some(memory) = memory {
        let files = vec![("memory.limit_in_bytes", bytes(memory)?.to_string())];
        plans.push(Plan { folder: parent("memory", "memory.limit_in_bytes")?.join(format!("{PREFIX}{name}")), files });
    }
    Ok(plans)
}

/// The parent of new groups: the group of this process, so that its limits apply too. The root if `/sys` does not show
/// that group, as in some containers.
fn parent(controller: &str, file: &str) -> Result<PathBuf, String> {
    let root = Path::new(ROOT).join(controller);
    if !root.is_dir() {
        return Err(format!(
            "this machine has no control groups of version 1 with the controller {controller}: {} is missing",
            root.display()
        ));
    }
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| {
        let (controllers, name) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|known| known == controller).then_some(name)
    });
    let own = root.join(own.unwrap_or_default().trim_start_matches('/'));
    Ok(if own.join(file).is_file() || own.join("cgroup.procs").is_file() { own } else { root })
}

/// Reads `512M`.
fn bytes(text: &str) -> Result<u64, String> {
    let shift = match text.chars().last() {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        _ => 0,
    };
    let number: Option<u64> = text.trim_end_matches(['K', 'M', 'G']).parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("`{text}` is not an amount of memory"))
}

impl Plan {
    /// Creates the group.
    ///
    /// # Errors
    /// The kernel refuses it, for example because this user has no permission.
    pub(super) fn make(&self) -> Result<(), String> {
        let wrong = |path: &Path, error| format!("cannot set up the control group {}: {error}", path.display());
        fs::create_dir(&self.folder).map_err(|error| wrong(&self.folder, error))?;
        for (file, value) in &self.files {
            let path = self.folder.join(file);
            fs::write(&path, value).map_err(|error| wrong(&path, error))?;
        }
        Ok(())
    }
}

/// The groups that were created here and whose names begin like this.
pub(super) fn found(prefix: &str) -> Vec<PathBuf> {
    let parents = ["cpu", "memory"].into_iter().filter_map(|controller| parent(controller, "cgroup.procs").ok());
    let folders = parents.filter_map(|parent| fs::read_dir(parent).ok()).flatten().flatten();
    let is_wanted = |folder: &fs::DirEntry| {
        folder.file_name().to_string_lossy().strip_prefix(PREFIX).is_some_and(|name| name.starts_with(prefix))
    };
    folders.filter(is_wanted).map(|folder| folder.path()).collect()
}

/// Removes a group without processes. Returns whether it is gone.
pub(super) fn remove(folder: &Path) -> bool {
    let is_ours = folder.starts_with(ROOT)
        && folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
        && !folder.components().any(|part| part.as_os_str() == "..");
    // The group stays busy for a moment after its last process has exited.
    is_ours && wait_until(REMOVE_MAX, || fs::remove_dir(folder).is_ok() || !folder.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_are_read() {
        assert_eq!(["512M", "1G", "4096", "2K"].map(|text| bytes(text).unwrap()), [512 << 20, 1 << 30, 4_096, 2_048]);
        assert!(["", "M", "1T", "99999999999G"].iter().all(|text| bytes(text).is_err()));
    }

    #[test]
    fn only_groups_of_runs_are_removed() {
        for folder in ["/tmp/catlab-1", "/sys/fs/cgroup/cpu/other", "/sys/fs/cgroup/cpu/../catlab-1"] {
            assert!(!remove(Path::new(folder)), "{folder}");
        }
    }
}
