//! What a node asks of the system that std has no name for: a clock that counts sleep, and the limit on open files.
#![expect(unsafe_code, reason = "two plain system calls; each block argues its safety")]

use replica::io::Now;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the clocks say now.
pub(crate) fn now() -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { monotonic_ms: boot_ms(), wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX) }
}

/// Milliseconds since the machine started, time asleep counted: a lease that ended while the machine slept has ended.
fn boot_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the kernel writes it and keeps nothing.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(done, 0, "CLOCK_BOOTTIME is there since Linux 2.6.39");
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Raises the limit on open files as far as it goes: each TCP connection is one. Gives the limit.
pub(crate) fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit; the kernel writes it and keeps nothing.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a live rlimit; the kernel only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 { limit.rlim_cur } else { before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_limit_is_known() {
        let first = raise_file_limit();
        assert!(first > 0);
        assert_eq!(raise_file_limit(), first);
    }

    #[test]
    fn time_goes_on() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = now();
        assert!((15..5_000).contains(&(after.monotonic_ms - before.monotonic_ms)));
        assert!(after.wall_ms > 1_700_000_000_000);
    }
}
