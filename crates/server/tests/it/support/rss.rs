//! The memory of a process, as the kernel reports it (proc_pid_status(5)).

use std::fs;

/// Resident memory now, in bytes.
pub(crate) fn resident(pid: u32) -> u64 {
    field(pid, "VmRSS:") << 10
}

/// Peak of the resident memory since [`forget_peak`], in bytes.
pub(crate) fn peak(pid: u32) -> u64 {
    field(pid, "VmHWM:") << 10
}

/// Resident memory now, in KiB.
pub(crate) fn resident_kib(pid: u32) -> u64 {
    field(pid, "VmRSS:")
}

/// Resets the peak to the current value (proc_pid_clear_refs(5)).
pub(crate) fn forget_peak(pid: u32) {
    fs::write(format!("/proc/{pid}/clear_refs"), "5").unwrap();
}

/// Growth of the resident memory of a process since a moment.
pub(crate) struct Growth {
    pid: u32,
    pub(crate) before_kib: u64,
}

impl Growth {
    pub(crate) fn start(pid: u32) -> Self {
        // Kernels without this file report the peak since the process began, which is never lower.
        let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        Self { pid, before_kib: resident_kib(pid) }
    }

    pub(crate) fn peak_kib(&self) -> u64 {
        field(self.pid, "VmHWM:").saturating_sub(self.before_kib)
    }
}

/// A field of the process status, in KiB.
fn field(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
