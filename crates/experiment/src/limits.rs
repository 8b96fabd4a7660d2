//! All limits of this crate.

/// Maximum depth of parentheses and signs in the expression of a claim.
pub const EXPRESSION_DEPTH_MAX: usize = 32;
/// Maximum number of configurations that a page shows for one server. The others are in `cell.json`.
pub const CONFIGURATIONS_SHOWN_MAX: usize = 12;
/// Maximum number of fields in the table of cells of a Markdown page: rows times columns. Its CSV file has all of them.
pub const TABLE_FIELDS_MAX: usize = 64;
/// Maximum number of events that a picture over time shows.
pub const MARKS_MAX: usize = 20;
/// Maximum size of a definition in bytes.
pub const DEFINITION_BYTES_MAX: u64 = 1 << 20;
/// Maximum number of cells of one experiment: combinations of parameters times repeats.
pub const CELLS_MAX: usize = 10_000;
/// Time limit of one cell.
pub const CELL_SECONDS_MAX: u64 = 600;
/// Minimum CPU limit of a server, in cores. The kernel refuses a quota below 1 ms of its period of 100 ms.
pub const CPU_CORES_MIN: f64 = 0.01;
/// Maximum number of a core, of cores of a server, and of its threads.
pub const CORES_MAX: u32 = 4_096;
/// Maximum number of nodes of a server.
pub const NODES_MAX: u32 = 9;
/// Assumed time to start and stop a server, in seconds. Only used to estimate the duration of an experiment.
pub const SERVER_SECONDS: f64 = 2.0;
/// Maximum number of zones for which a running server of the user is asked before each cell.
pub const ZONES_ASKED_MAX: usize = 100;
/// Maximum number of registry entries that are checked for killed runs.
pub const RECORDS_MAX: usize = 10_000;
