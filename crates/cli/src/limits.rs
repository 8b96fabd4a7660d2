//! The limits of the command line.

/// Default time limit of a command for a change. It is longer than the node's own limit.
pub const CLI_CHANGE_MS: u64 = 60_000;
/// Default time limit of a command for a change that carries a zone.
pub const CLI_LOAD_MS: u64 = 900_000;
/// Default time limit of a command for a read, over all nodes that are tried.
pub const CLI_READ_MS: u64 = 60_000;
/// Default time limit of a command for a backup.
pub const CLI_DOWNLOAD_MS: u64 = 3_600_000;
/// Maximum of `--timeout`, in seconds.
pub const CLI_TIMEOUT_S_MAX: u64 = 86_400;
/// Maximum number of bytes that a command reads from the kernel's table of TCP sockets.
pub const LISTENERS_BYTES_MAX: u64 = 64 << 20;
/// Maximum size of one file of a `named.conf`.
pub const NAMED_CONF_BYTES_MAX: u64 = 16 << 20;
/// Maximum nesting depth of statements and lists in a `named.conf`.
pub const NAMED_CONF_DEPTH_MAX: usize = 64;
/// Maximum number of errors shown for a `named.conf`.
pub const NAMED_CONF_ERRORS_MAX: usize = 100;
/// Files of a `named.conf`, including those it includes.
pub const NAMED_CONF_FILES_MAX: usize = 1_000;
/// Members of a cluster that `up` starts.
pub const UP_NODES_MAX: u64 = 9;
/// Largest step by which serials jump ahead: with a larger one they would go back (RFC 1982 3.1).
pub const SERIAL_GAP_MAX: u32 = (1 << 31) - 1;
/// `cluster status` shows a clock that differs from the median of all clocks by more than this.
pub const CLOCK_DIFFERENCE_MS_MAX: u64 = 60_000;
