//! What the operating system counted for this thread and this process.
#![expect(unsafe_code, reason = "getrusage for a thread is in no library that we have")]

use std::time::Duration;

/// CPU time of the calling thread, user and system.
pub(super) fn thread_cpu() -> Duration {
    // SAFETY: an rusage is plain integers, for which all zero octets are a value; the pointer is to a live local.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let time = |value: libc::timeval| Duration::new(value.tv_sec as u64, value.tv_usec as u32 * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
