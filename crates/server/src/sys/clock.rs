//! The clocks: the boot clock, which also counts suspend, and the wall clock.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

use replica::io::Now;
use std::time::{SystemTime, UNIX_EPOCH};

/// The current time of both clocks.
pub(crate) fn now() -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { monotonic_ms: boot_ms(), wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX) }
}

/// Seconds since 1970.
pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Milliseconds since boot, including suspend: a lease that ends during suspend has ended.
pub(crate) fn boot_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the kernel writes it and keeps nothing.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(done, 0, "CLOCK_BOOTTIME is there since Linux 2.6.39");
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = now();
        assert!((15..5_000).contains(&(after.monotonic_ms - before.monotonic_ms)));
        assert!(after.wall_ms > 1_700_000_000_000);
    }
}
