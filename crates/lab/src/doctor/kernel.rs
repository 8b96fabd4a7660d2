//! CPU frequency, virtualization and load of this machine.

use super::finding::{Finding, Needs, Severity, number, words};
use std::collections::BTreeSet;
use std::path::Path;

/// Maximum load by other programs, as a share of the free cores.
const LOAD_SHARE_MAX: f64 = 0.25;
/// Maximum share of time stolen by the hypervisor since boot.
const STEAL_SHARE_MAX: f64 = 0.01;

pub(super) fn findings(needs: &Needs) -> Vec<Finding> {
    [Some(cores(needs)), load(), governor(), steal(), quota(), realtime()].into_iter().flatten().collect()
}

fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn cores(needs: &Needs) -> Finding {
    let (cores, needed) = (core_count(), needs.core_count);
    let seen = format!("{cores}; the run keeps {needed} busy, a server on this machine gets the rest");
    let remedy = "run the server on another machine, or pin both sides (taskset -c) and read the verdict";
    Finding::unless(needed < cores, Severity::Warning, "cores", seen, remedy)
}

fn load() -> Option<Finding> {
    let words = words("/proc/loadavg")?;
    let load: f64 = words.first()?.parse().ok()?;
    let seen = format!("{load} over the last minute, on {} cores", core_count());
    // With autogroups, nice only applies within a session.
    let is_grouped = number("/proc/sys/kernel/sched_autogroup_enabled") == Some(1);
    let remedy = if is_grouped {
        "other programs are running: stop them, or raise the priority of this shell with \
         `echo -20 > /proc/self/autogroup` as root (nice only applies within a session)"
    } else {
        "other programs are running: stop them, or run this with `nice -n -15`"
    };
    let is_ok = load <= (core_count() as f64 * LOAD_SHARE_MAX).max(0.5);
    Some(Finding::unless(is_ok, Severity::Warning, "load", seen, remedy))
}

fn governor() -> Option<Finding> {
    let governors: BTreeSet<String> = (0..core_count())
        .filter_map(|core| words(&format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")))
        .filter_map(|words| words.into_iter().next())
        .collect();
    let what = "frequency governor";
    if governors.is_empty() {
        return Some(Finding::ok(what, "the kernel does not change the frequency (a virtual machine, most likely)"));
    }
    let seen: Vec<_> = governors.iter().map(String::as_str).collect();
    let remedy = "cpupower frequency-set -g performance: a core that slows down when idle makes low rates look slow";
    Some(Finding::unless(seen == ["performance"], Severity::Warning, what, seen.join(", "), remedy))
}

fn steal() -> Option<Finding> {
    let words = words("/proc/stat")?;
    let times: Vec<f64> = words.iter().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let share = times.get(7)? / times.iter().sum::<f64>().max(1.0);
    let seen = format!("{:.2} % of the time since the start", share * 100.0);
    let remedy = "the hypervisor has other guests: repeat runs, compare only runs that alternate";
    Some(Finding::unless(share <= STEAL_SHARE_MAX, Severity::Warning, "stolen time", seen, remedy))
}

/// Checks for a CPU quota on the tool's control group, which stalls the tool in the middle of a run.
fn quota() -> Option<Finding> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let name = |line: &str| line.rsplit_once(':').map_or_else(String::new, |(_, name)| name.to_owned());
    let v2 = groups.lines().find(|line| line.starts_with("0::")).map(name);
    let v1 = groups.lines().find(|line| line.contains(":cpu,") || line.contains(",cpu:") || line.contains(":cpu:"));
    let root = Path::new("/sys/fs/cgroup");
    let read = |path: std::path::PathBuf| words(path.to_str()?)?.into_iter().next();
    let inside = |controller: &str, group: &str, file: &str| {
        root.join(controller).join(group.trim_start_matches('/')).join(file)
    };
    let v2 = v2.and_then(|group| read(inside("", &group, "cpu.max"))).filter(|quota| quota != "max");
    let v1 = v1.and_then(|line| read(inside("cpu", &name(line), "cpu.cfs_quota_us"))).filter(|quota| quota != "-1");
    let seen = v2.or(v1).map_or("none".to_owned(), |quota| format!("{quota} us of CPU in each period"));
    let remedy = "run outside this control group, or lift its CPU limit: a throttled tool stalls and blames the server";
    Some(Finding::unless(seen == "none", Severity::Warning, "CPU quota", seen, remedy))
}

/// Checks for real-time throttling: a SCHED_FIFO thread wakes on time, but the kernel stalls it if it uses too much
/// CPU.
fn realtime() -> Option<Finding> {
    let budget = number("/proc/sys/kernel/sched_rt_runtime_us")?;
    let policy = words("/proc/self/stat")?.get(40)?.parse::<u32>().ok()?;
    let seen = format!("scheduling policy {policy}");
    let remedy = format!("start it without chrt: the kernel stops real-time threads after {budget} us of each second");
    Some(Finding::unless(policy == 0, Severity::Warning, "real-time scheduling", seen, remedy))
}
