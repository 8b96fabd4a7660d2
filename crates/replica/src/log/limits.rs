//! Sizes and limits of the log.

/// Bytes that a disk writes atomically.
pub const SECTOR_BYTES: usize = 512;
/// The largest physical block to which the log aligns its writes. On a disk with larger blocks, writes are not aligned.
pub const BLOCK_BYTES_MAX: u64 = 4096;
/// Bytes of a segment, unless one record needs more.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// A member stops proposing when less than one part in this number of its segment is left, and the disk has no room for
/// the next segment.
pub const SEGMENT_KEPT_SHARE: u64 = 4;
/// Zeroed segments that wait for use.
pub const SPARE_SEGMENTS_MAX: usize = 4;
/// Bytes of entries after which a record is closed. A larger entry gets a record of its own.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// Bytes of data and context of one entry. The proposer stays far below.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;
/// Bytes of memory for entries that are applied and durable. Other entries always stay in memory; entries in a
/// checkpoint always leave it.
pub const TAIL_BYTES_MAX: usize = 64 << 20;
/// Size in bytes from which an entry is bulk: part of an import, or a large update.
pub const BULK_ENTRY_BYTES: usize = 64 << 10;
/// How many times a byte of a bulk entry counts against [`TAIL_BYTES_MAX`].
pub const BULK_WEIGHT: usize = 8;
/// At start, [`TAIL_BYTES_MAX`] divided by this number is read into memory.
pub const TAIL_LOADED_SHARE: usize = 16;
/// Bytes of adjacent records that share one position in the index.
pub const EXTENT_BYTES_MAX: u64 = 64 << 10;
/// Bytes of one read of older entries, unless one record is larger.
pub const FETCH_BYTES_MAX: u64 = 1 << 20;
/// Reads of older entries in progress.
pub const FETCHES_MAX: usize = 8;
/// Runs of older entries that stay in memory after they were read.
pub const FETCHED_RUNS_MAX: usize = 16;
/// Entries that stay behind a checkpoint, so that a member which was away briefly needs no checkpoint.
pub const ENTRIES_BEHIND_CHECKPOINT_MAX: u64 = 200_000;
/// Bytes of records that stay behind a checkpoint.
pub const BYTES_BEHIND_CHECKPOINT_MAX: u64 = 1 << 30;
/// Bytes of records kept behind the newest checkpoint during a transfer, so that its receiver can continue from the
/// log.
pub const BYTES_PINNED_MAX: u64 = 4 << 30;
/// Bytes of records that may be written while a checkpoint is, because its frozen version retains memory that updates
/// release. A slower checkpoint is abandoned, and a new one is begun from a newer version.
pub const BYTES_WHILE_CHECKPOINT_MAX: u64 = 1 << 30;
/// Bytes of former zone versions and removed zones that a checkpoint may retain in memory while it is written. Beyond
/// that it is abandoned too. An update releases several times the size of its record.
pub const RETIRED_WHILE_CHECKPOINT_MAX: u64 = 1 << 30;
/// How often both limits are doubled while consecutive checkpoints are abandoned. Otherwise a slow disk might never
/// complete one, and the log would grow without end.
pub const CHECKPOINT_DOUBLINGS_MAX: u32 = 2;
/// Bytes of records after which a checkpoint is due, unless the last checkpoint was larger.
pub const CHECKPOINT_DUE_BYTES: u64 = 256 << 20;
/// Bytes of entries in one answer about a damaged log, unless one entry is larger.
pub const REPAIR_ANSWER_BYTES_MAX: usize = 1 << 20;
/// Entries in one answer about a damaged log.
pub const REPAIR_ANSWER_ENTRIES_MAX: usize = 65_536;
/// Bytes of entries in a damaged log that members may replace. They stay in memory until the new log is written.
pub const REPAIR_BYTES_MAX: usize = 256 << 20;
