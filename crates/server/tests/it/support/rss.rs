//! How much memory a process has, as the kernel says.

use std::fs;

/// Bytes that are resident now.
pub(crate) fn resident(pid: u32) -> u64 {
    field(pid, "VmRSS:")
}

/// The most that was resident since [`forget_peak`].
pub(crate) fn peak(pid: u32) -> u64 {
    field(pid, "VmHWM:")
}

/// The peak starts anew from what is resident now (proc_pid_clear_refs(5)).
pub(crate) fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
}

fn field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
