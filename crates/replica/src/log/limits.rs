//! Sizes and bounds of the log.

/// Bytes that a disk writes whole or not at all.
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
/// Bytes of entries after which a record is closed; one entry may be larger and then has a record to itself.
pub const RECORD_BYTES_MAX: usize = 4 << 20;
/// Bytes of data and context of one entry; the proposer keeps far below.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;
/// Bytes of memory for applied and durable entries; those not applied or not durable stay anyway, those in a
/// checkpoint leave.
pub const TAIL_BYTES_MAX: usize = 64 << 20;
/// Bytes from which an entry is bulk: a part of an import, a large update.
pub const BULK_ENTRY_BYTES: usize = 64 << 10;
/// How many times an byte of bulk counts against [`TAIL_BYTES_MAX`].
pub const BULK_WEIGHT: usize = 8;
/// One part in so many of [`TAIL_BYTES_MAX`] is read into memory at start.
pub const TAIL_LOADED_SHARE: usize = 16;
/// Bytes of adjacent records that one place of the index stands for.
pub const EXTENT_BYTES_MAX: u64 = 64 << 10;
/// Bytes of one read of older entries, unless one record is larger.
pub const FETCH_BYTES_MAX: u64 = 1 << 20;
/// Reads of older entries under way.
pub const FETCHES_MAX: usize = 8;
/// Runs of older entries kept in memory after they were read.
pub const FETCHED_RUNS_MAX: usize = 16;
/// Entries that stay behind a checkpoint, so that a member which was away briefly needs no checkpoint.
pub const ENTRIES_BEHIND_CHECKPOINT_MAX: u64 = 200_000;
/// Bytes of records that stay behind a checkpoint.
pub const BYTES_BEHIND_CHECKPOINT_MAX: u64 = 1 << 30;
/// Bytes of records that a transfer of a checkpoint keeps behind the newest one, so that its taker can go on from it.
pub const BYTES_PINNED_MAX: u64 = 4 << 30;
/// Bytes of records that may be written while a checkpoint is: its frozen version holds on to memory that updates let
/// go. One that takes longer is given up, and begun anew from a newer version.
pub const BYTES_WHILE_CHECKPOINT_MAX: u64 = 1 << 30;
/// Bytes of former versions of zones that a checkpoint may keep in memory while it is written, zones that went
/// included; then it is given up as well. What an update lets go is several times what its record has.
pub const RETIRED_WHILE_CHECKPOINT_MAX: u64 = 1 << 30;
/// How often both of these are doubled while one checkpoint after the other is given up: a disk that is too slow for
/// what is written would else never bring one to its end, and the log would grow without one.
pub const CHECKPOINT_DOUBLINGS_MAX: u32 = 2;
/// Bytes of records after which a checkpoint is due, if the last one was not larger.
pub const CHECKPOINT_DUE_BYTES: u64 = 256 << 20;
/// Bytes of entries in one answer about a damaged log, unless one entry is larger.
pub const REPAIR_ANSWER_BYTES_MAX: usize = 1 << 20;
/// Entries in one answer about a damaged log.
pub const REPAIR_ANSWER_ENTRIES_MAX: usize = 65_536;
/// Bytes of entries in a damaged log that members may replace. They stay in memory until the new log is written.
pub const REPAIR_BYTES_MAX: usize = 256 << 20;
