//! The available memory: that of the machine, or the limit of the control group if it is lower (cgroups(7)).

use std::path::Path;

/// Bytes of memory available to this process.
pub fn bytes_here() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_of(&text));
    let group = std::fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|text| limit_of(&text, Path::new("/sys/fs/cgroup")));
    machine.into_iter().chain(group).min()
}

/// `MemTotal` of /proc/meminfo, which is in KiB.
fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1_024)
}

/// The lowest limit of the control groups in /proc/self/cgroup and those above them. In a container they are mounted as
/// if they were the root.
fn limit_of(cgroup: &str, mounts: &Path) -> Option<u64> {
    let of_line = |line: &str| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            // Version 2.
            "" => (mounts.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (mounts.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = root.join(path.trim_start_matches('/'));
        // Without a limit, the file contains `max`, or a number near the maximum.
        let limit = |at: &Path| std::fs::read_to_string(at.join(file)).ok()?.trim().parse::<u64>().ok();
        group.ancestors().take_while(|at| at.starts_with(&root)).filter_map(limit).min()
    };
    cgroup.lines().filter_map(of_line).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_lowest_limit_of_both_versions_counts() {
        assert_eq!(total_of("MemTotal:       24683520 kB\nMemFree: 1 kB\n"), Some(24_683_520 << 10));
        let dir = crate::testing::test_dir("memory-size");
        let (v2, v1) = (dir.path().join("a/b"), dir.path().join("memory/c"));
        fs::create_dir_all(&v2).unwrap();
        fs::create_dir_all(&v1).unwrap();
        assert_eq!(limit_of("0::/a/b\n", dir.path()), None);
        fs::write(v2.join("memory.max"), "max\n").unwrap();
        fs::write(dir.path().join("a/memory.max"), "335544320\n").unwrap();
        assert_eq!(limit_of("0::/a/b\n", dir.path()), Some(320 << 20), "that of the group above");
        fs::write(v2.join("memory.max"), "1000000\n").unwrap();
        assert_eq!(limit_of("0::/a/b\n", dir.path()), Some(1_000_000));
        fs::write(v1.join("memory.limit_in_bytes"), "200000\n").unwrap();
        assert_eq!(limit_of("5:cpu,memory:/c\n0::/a/b\n", dir.path()), Some(200_000));
        assert_eq!(limit_of("5:cpu:/c\n", dir.path()), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(bytes_here().is_some_and(|bytes| bytes > 1 << 20));
    }
}
