//! What the operating system counted for this thread.

use std::time::Duration;

/// CPU time of the calling thread, user and system; zero where the kernel does not tell.
pub(super) fn thread_cpu() -> Duration {
    // Nanoseconds on a CPU, nanoseconds waiting for one, and time slices.
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let on_cpu = schedstat.split(' ').next().and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(on_cpu.unwrap_or_default())
}
