//! Every bound of this crate.

/// Size of a message with a chunk of a file. Larger ones make nats-server 2.9 drop slow consumers.
pub const CHUNK_BYTES_MAX: usize = 64 << 10;
/// Chunks requested together, and their total size.
pub const CHUNKS_PULLED_MAX: usize = 32;
/// See [`CHUNKS_PULLED_MAX`].
pub const PULLED_BYTES_MAX: usize = 4 << 20;
/// Maximum size of the chunks in the NATS server. Above it, the sender waits.
pub const STREAM_BYTES_MAX: i64 = 64 << 20;
/// A transfer fails after this time without a chunk, or without room for one.
pub const CHUNK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
/// Maximum number of files in a run folder from an agent.
pub const BUNDLE_FILES_MAX: usize = 64;
/// Maximum size of a command to an agent.
pub const COMMAND_BYTES_MAX: usize = CHUNK_BYTES_MAX;
