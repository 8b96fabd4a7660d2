//! Ctrl-C and SIGTERM: all waits end, and disks and networks are removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Handles the signals from now on.
pub(crate) fn install() -> Result<(), String> {
    let handler = || IS_INTERRUPTED.store(true, Ordering::Relaxed);
    ctrlc::set_handler(handler).map_err(|error| format!("cannot handle signals: {error}"))
}

pub(crate) fn is_set() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// Returns an error after a signal.
pub(crate) fn check() -> Result<(), String> {
    if is_set() { Err("interrupted".into()) } else { Ok(()) }
}

/// Sleeps. Returns an error after a signal.
pub(crate) fn sleep(time: Duration) -> Result<(), String> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check()?;
        std::thread::sleep(Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())));
    }
    check()
}
