//! Ctrl-C and SIGTERM: everything that waits gives up, and what was made is removed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Takes the signals from now on.
pub(crate) fn install() -> Result<(), String> {
    let handler = || IS_INTERRUPTED.store(true, Ordering::Relaxed);
    ctrlc::set_handler(handler).map_err(|error| format!("cannot handle signals: {error}"))
}

pub(crate) fn is_set() -> bool {
    IS_INTERRUPTED.load(Ordering::Relaxed)
}

/// An error once a signal came.
pub(crate) fn check() -> Result<(), String> {
    if is_set() { Err("interrupted".into()) } else { Ok(()) }
}

/// Sleeps; an error once a signal came.
pub(crate) fn sleep(time: Duration) -> Result<(), String> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        check()?;
        std::thread::sleep(Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())));
    }
    check()
}
