//! An empty recording.

use crate::Recording;
use std::time::{Duration, UNIX_EPOCH};

pub(super) fn recording(since_ns: u64, timeout_seconds: f64) -> Recording {
    let timeout = Duration::try_from_secs_f64(timeout_seconds).unwrap_or_default();
    Recording::new(UNIX_EPOCH + Duration::from_nanos(since_ns), timeout)
}
