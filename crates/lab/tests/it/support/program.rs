//! Programs that tests start.

use std::process::Output;
use std::time::{Duration, Instant};

/// The program under test.
pub(crate) const CATLAB: &str = env!("CARGO_BIN_EXE_catlab");
/// How long a test waits for a condition.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The exit code, the output and the error output of a program; -1 if a signal ended it.
pub(crate) fn ended(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

/// Waits for a condition. Fails with this message after the time limit.
#[track_caller]
pub(crate) fn until(message: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < end, "{message}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
