//! Every bound of this crate.

/// Maximum size of a query of the load engine: larger than any real query, with room for padding.
pub const QUERY_BYTES_MAX: usize = sockets::limits::MESSAGE_BYTES_MAX;
/// Bytes kept of a datagram if answers are checked: the maximum size.
pub const RESPONSE_BYTES_CHECKED: usize = 65_535;
/// A late run continues after its end for at most its planned duration plus this time.
pub const OVERDUE_MIN: std::time::Duration = std::time::Duration::from_secs(2);
/// All stray sockets of a worker are read once in this number of 5 ms ticks.
pub const STRAY_CHECK_TICKS: usize = 16;
/// Maximum number of queued reports from workers.
pub const REPORTS_WAITING_MAX: usize = 64;
/// The longest run. Each second is kept, at about ten kilobytes.
pub const RUN_MAX: std::time::Duration = std::time::Duration::from_secs(86_400);
/// Handshake messages that wait longer in this process are counted, because the server is not the cause.
pub const HANDSHAKE_WAIT_MAX: std::time::Duration = std::time::Duration::from_millis(1);
/// Timed-out queries remembered per connection, to recognize late answers.
pub const CONNECTION_LATE_COUNT_MAX: usize = 1_024;
/// Default number of queries in flight per connection.
pub const CONNECTION_IN_FLIGHT_DEFAULT: usize = 1_000;
/// Queries of one worker in flight or recently timed out that have a row in `queries.parquet`.
pub const PER_QUERY_WAITING_MAX: usize = 1 << 20;
/// Queries per chunk for the writer of `queries.parquet`.
pub const PER_QUERY_CHUNK_ROWS: usize = 4_096;
/// Chunks per worker. If the writer falls behind further, rows are dropped. About 20 MB.
pub const PER_QUERY_CHUNKS: usize = 32;
/// Queries per row group: 30 chunks, a common size for readers.
pub const PER_QUERY_GROUP_ROWS: usize = 122_880;
/// Maximum number of client groups in a population.
pub const GROUPS_MAX: usize = 1_000;
/// Maximum number of clients in a population.
pub const CLIENTS_MAX: usize = 10_000_000;
/// Maximum number of sources in a replay, counted per transport: about 100 bytes each.
pub const REPLAY_SOURCES_MAX: usize = 4 << 20;
/// From this number of queries on, a client is busy: as in LDplayer (IMC 2018, Figure 15). The latencies of other
/// clients are kept, at two bytes each.
pub const BUSY_QUERIES_DEFAULT: u32 = 250;
/// Bytes of a trace read ahead for all workers together.
pub const REPLAY_WINDOW_BYTES: usize = 64 << 20;
/// Bytes per block from the reader to a worker.
pub const REPLAY_BLOCK_BYTES: usize = 64 << 10;
/// Minimum number of blocks per worker.
pub const REPLAY_BLOCKS_MIN: usize = 16;
/// Bytes of queries per worker that wait for an answer to an earlier query.
pub const REPLAY_HELD_BYTES: usize = 64 << 20;
/// Sources checked for being local addresses.
pub const REPLAY_ADDRESSES_CHECKED: usize = 4_096;
/// A longer gap in a trace counts as a clock step.
pub const TRACE_GAP_MAX: std::time::Duration = RUN_MAX;
/// A longer step back in a trace counts as a clock step.
pub const TRACE_BACK_MAX: std::time::Duration = std::time::Duration::from_secs(60);
/// Requested receive buffer of a socket for one source.
pub const SOURCE_BUFFER_BYTES: usize = 256 << 10;
/// How long the command of `--filter-command` with `--stream` may run after it has closed its output.
pub const LIVE_END_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Output of such a command is sent at this time after its first query, even if the read-ahead is not full.
pub const LIVE_LOAD_MAX: std::time::Duration = std::time::Duration::from_secs(10);
/// Later output is passed to workers after this time, however little it is.
pub const LIVE_GATHER_MAX: std::time::Duration = std::time::Duration::from_millis(100);
/// Bytes of a trace that are buffered to sort it by time.
pub const REPLAY_REORDER_BYTES: usize = 64 << 20;
/// Names in a file of names.
pub const NAMES_MAX: usize = 20_000_000;
/// Maximum size of such a file. The names are kept in memory.
pub const NAMES_BYTES_MAX: u64 = 1 << 30;
/// Maximum size of a rules file.
pub const RULES_BYTES_MAX: u64 = 4 << 20;
/// Number of invalid query-file entries that are printed. All are counted.
pub const SKIPPED_SHOWN_MAX: usize = 5;
/// Characters of a word that are printed.
pub const WORD_SHOWN_MAX: usize = 80;
