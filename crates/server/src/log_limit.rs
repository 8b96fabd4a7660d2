//! Limits log lines that any client can cause: few per second from each place in the code, and short.
//!
//! Lines that any client can cause must not fill the disk or hide other lines. Write them with
//! [`warn_limited!`](crate::warn_limited), [`error_limited!`](crate::error_limited) or
//! [`info_limited!`](crate::info_limited), which take what `tracing::warn!` takes, and put text that came over the
//! network through [`untrusted`]:
//!
//! ```ignore
//! use crate::log_limit::untrusted;
//! use crate::warn_limited;
//!
//! warn_limited!(address = %untrusted(&request.address), reason, "refused a join request");
//! ```
//!
//! Each place in the code has its own limit: [`LOG_LINES_PER_SECOND_MAX`] lines. The next line that is written says in
//! `suppressed` how many were left out before it. Reading what came must be limited too: that is up to the caller.

use crate::limits::{LOG_LINES_PER_SECOND_MAX, LOG_UNTRUSTED_BYTES_MAX};
use std::fmt::{self, Display, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Counts the lines of one place in the code.
pub(crate) struct LogLimit(Mutex<Window>);

/// One second of it.
struct Window {
    began_at: Option<Instant>,
    written: u32,
    suppressed: u64,
}

/// What the macros write of lines that were left out: nothing when there were none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Admitted {
    /// Lines that were left out since the last one was written.
    pub(crate) suppressed: Option<u64>,
}

impl LogLimit {
    /// For a `static`, one for each place.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Window { began_at: None, written: 0, suppressed: 0 }))
    }

    /// Whether a line may be written now; `None` when it is to be left out.
    pub(crate) fn admit(&self) -> Option<Admitted> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<Admitted> {
        // Nothing under the lock can panic.
        let mut window = self.0.lock().ok()?;
        let is_over = |began: Instant| now.saturating_duration_since(began) >= Duration::from_secs(1);
        if window.began_at.is_none_or(is_over) {
            (window.began_at, window.written) = (Some(now), 0);
        }
        if window.written == LOG_LINES_PER_SECOND_MAX {
            window.suppressed += 1;
            return None;
        }
        window.written += 1;
        let suppressed = std::mem::take(&mut window.suppressed);
        Some(Admitted { suppressed: (suppressed > 0).then_some(suppressed) })
    }
}

/// Text from the network as the log may show it: cut, and without control characters or anything but ASCII.
pub(crate) fn untrusted(text: &str) -> Untrusted<'_> {
    Untrusted(text)
}

/// See [`untrusted`].
pub(crate) struct Untrusted<'t>(&'t str);

impl Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = 0;
        for char in self.0.chars() {
            // `escape_default` turns everything into printable ASCII, a newline and ESC too.
            let escaped = char.escape_default();
            bytes += escaped.len();
            if bytes > LOG_UNTRUSTED_BYTES_MAX {
                return write!(f, "... ({} bytes)", self.0.len());
            }
            escaped.into_iter().try_for_each(|char| f.write_char(char))?;
        }
        Ok(())
    }
}

/// As `tracing::warn!`, and at most [`LOG_LINES_PER_SECOND_MAX`] lines a second from this place.
#[macro_export]
macro_rules! warn_limited {
    ($($line:tt)+) => { $crate::log_limited!(WARN, $($line)+) };
}

/// As [`warn_limited!`], for errors.
#[macro_export]
macro_rules! error_limited {
    ($($line:tt)+) => { $crate::log_limited!(ERROR, $($line)+) };
}

/// As [`warn_limited!`], for what is no problem.
#[macro_export]
macro_rules! info_limited {
    ($($line:tt)+) => { $crate::log_limited!(INFO, $($line)+) };
}

/// What the macros above have in common. The arguments of a line that is left out are not evaluated.
#[macro_export]
#[doc(hidden)]
macro_rules! log_limited {
    ($level:ident, $($line:tt)+) => {{
        static LIMIT: $crate::log_limit::LogLimit = $crate::log_limit::LogLimit::new();
        if let Some(admitted) = LIMIT.admit() {
            tracing::event!(tracing::Level::$level, suppressed = admitted.suppressed, $($line)+);
        }
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_per_second_are_limited_and_suppressed_lines_are_counted() {
        let limit = LogLimit::new();
        let start = Instant::now();
        for _ in 0..LOG_LINES_PER_SECOND_MAX {
            assert_eq!(limit.admit_at(start), Some(Admitted { suppressed: None }));
        }
        for ms in 0..900 {
            assert_eq!(limit.admit_at(start + Duration::from_millis(ms)), None);
        }
        let later = start + Duration::from_millis(1_000);
        assert_eq!(limit.admit_at(later), Some(Admitted { suppressed: Some(900) }));
        assert_eq!(limit.admit_at(later), Some(Admitted { suppressed: None }));
    }

    #[test]
    fn each_log_line_has_its_own_limit() {
        let written = |count: u64| (0..count).filter(|_| LogLimit::new().admit().is_some()).count() as u64;
        assert_eq!(written(100), 100, "each `LogLimit` counts for itself");
        // The macro's `static` is one for all turns of a loop.
        let mut evaluated = 0;
        for _ in 0..1_000 {
            warn_limited!(
                evaluated = {
                    evaluated += 1;
                    evaluated
                },
                "a test of the limit"
            );
        }
        // No subscriber listens here, so fields are not evaluated at all; what counts is that it compiles and ends.
        assert!(evaluated <= LOG_LINES_PER_SECOND_MAX);
    }

    #[test]
    fn text_from_the_network_is_cut_and_escaped() {
        assert_eq!(untrusted("127.0.0.1:53").to_string(), "127.0.0.1:53");
        assert_eq!(untrusted("a\nb\u{1b}[31m\u{202e}").to_string(), "a\\nb\\u{1b}[31m\\u{202e}");
        let long = "x".repeat(64 << 10);
        let shown = untrusted(&long).to_string();
        assert_eq!(shown, format!("{}... (65536 bytes)", "x".repeat(LOG_UNTRUSTED_BYTES_MAX)));
        // An escape is never cut in two.
        let shown = untrusted(&"\u{1b}".repeat(1_000)).to_string();
        assert!(shown.starts_with("\\u{1b}") && shown.ends_with("\\u{1b}... (1000 bytes)"), "{shown}");
        assert!(shown.len() <= LOG_UNTRUSTED_BYTES_MAX + 20);
    }
}
