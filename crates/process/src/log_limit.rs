//! Limits log lines that any client can cause: a few per second from each place in the code, and short.
//!
//! Such lines must not fill the disk or hide other lines. Write them with [`warn_limited!`](crate::warn_limited),
//! [`error_limited!`](crate::error_limited) or [`info_limited!`](crate::info_limited), which have the arguments of
//! `tracing::warn!`. Pass text from the network through [`untrusted`]:
//!
//! ```ignore
//! use process::log_limit::untrusted;
//! use process::warn_limited;
//!
//! warn_limited!(address = %untrusted(&request.address), reason, "refused a join request");
//! ```
//!
//! Each place in the code has its own limit of [`LOG_LINES_PER_SECOND_MAX`] lines. The field `suppressed` of the next
//! line is the number of lines left out before it. The caller must limit the size of the text that it reads.

use crate::limits::{LOG_LINES_PER_SECOND_MAX, LOG_UNTRUSTED_BYTES_MAX};
use std::fmt::{self, Display, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Counts the lines of one place in the code.
pub struct LogLimit(Mutex<Window>);

/// The lines of the current second.
struct Window {
    began_at: Option<Instant>,
    written: u32,
    suppressed: u64,
}

/// The permission to write one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Number of lines left out since the last one was written; `None` if there were none.
    pub suppressed: Option<u64>,
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new()
    }
}

impl LogLimit {
    /// Call it in a `static`, once for each place in the code.
    pub const fn new() -> Self {
        Self(Mutex::new(Window { began_at: None, written: 0, suppressed: 0 }))
    }

    /// Whether a line may be written now; `None` if it must be left out.
    pub fn admit(&self) -> Option<Admitted> {
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

/// Makes text from the network safe for the log: it is truncated, and everything but printable ASCII is escaped.
pub fn untrusted(text: &str) -> Untrusted<'_> {
    Untrusted(text)
}

/// See [`untrusted`].
pub struct Untrusted<'t>(&'t str);

impl Display for Untrusted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = 0;
        for char in self.0.chars() {
            // `escape_default` returns printable ASCII only, also for newline and ESC.
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

/// Like `tracing::warn!`, but writes at most [`LOG_LINES_PER_SECOND_MAX`] lines per second from this place in the code.
#[macro_export]
macro_rules! warn_limited {
    ($($line:tt)+) => { $crate::log_limited!(WARN, $($line)+) };
}

/// Like [`warn_limited!`], at level ERROR.
#[macro_export]
macro_rules! error_limited {
    ($($line:tt)+) => { $crate::log_limited!(ERROR, $($line)+) };
}

/// Like [`warn_limited!`], at level INFO.
#[macro_export]
macro_rules! info_limited {
    ($($line:tt)+) => { $crate::log_limited!(INFO, $($line)+) };
}

/// The common part of the macros above. Arguments of suppressed lines are not evaluated.
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
        let evaluate = |count: &mut u32| {
            *count += 1;
            *count
        };
        let (mut first, mut second) = (0, 0);
        let subscriber = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..1_000 {
                warn_limited!(count = evaluate(&mut first), "one line");
                info_limited!(count = evaluate(&mut second), "another line");
            }
        });
        // A slow machine may take more than a second, and then there are more lines.
        let limited = LOG_LINES_PER_SECOND_MAX..1_000;
        assert!(limited.contains(&first) && limited.contains(&second), "{first} and {second} lines");
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
