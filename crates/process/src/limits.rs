//! The limits of this crate.

/// Log lines per second from one place in the code that any client can trigger.
pub const LOG_LINES_PER_SECOND_MAX: u32 = 5;
/// Bytes of text from the network in a log line.
pub const LOG_UNTRUSTED_BYTES_MAX: usize = 100;
/// Maximum size of a log line or a text for standard error. Longer ones are truncated.
pub const LOG_LINE_BYTES_MAX: usize = 64 << 10;
/// Bytes in the log queue. At the limit, further lines are lost.
pub const LOG_QUEUE_BYTES_MAX: usize = 1 << 20;
/// Lines in the log queue.
pub const LOG_QUEUE_LINES_MAX: usize = 8_192;
/// Pause before a retry when a non-blocking output is full.
pub const LOG_RETRY_MS: u64 = 20;
/// Maximum wait for the log when the process ends.
pub const LOG_END_MS: u64 = 1_000;
/// Maximum wait for the log when the process ends because of a fatal error.
pub const LOG_FATAL_MS: u64 = 500;
