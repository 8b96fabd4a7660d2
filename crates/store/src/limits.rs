//! Every bound of the store, by name.

/// Number of different symbols in keys. Every symbol is less than this.
pub const SYMBOL_COUNT: u8 = 50;

/// Children of one branch: one for each symbol, and one for the key that ends there.
pub(crate) const CHILDREN_MAX: usize = SYMBOL_COUNT as usize + 1;

/// The greatest symbol.
pub const SYMBOL_MAX: u8 = SYMBOL_COUNT - 1;

/// Symbols in a key. A name of 255 bytes with two symbols each fits, with room for a prefix.
pub const KEY_SYMBOLS_MAX: usize = 576;

/// Leaves that one [`crate::Path`] has as prefixes of its key. A domain name has fewer than 128 ancestors.
pub const PREFIXES_MAX: usize = 128;

/// Prefixes that one [`crate::Trail`] has room for. A key with more prefixes needs a second descent. Hardly any name
/// has that many ancestors with records.
pub const TRAIL_ENDS_MAX: usize = 6;

/// Bytes in one leaf.
pub const LEAF_BYTES_MAX: usize = 16 << 20;

/// Largest address space of one store in bytes: the range of 32-bit handles of 8-byte granules.
pub const RESERVE_BYTES_MAX: usize = 32 << 30;

/// Smallest address space of one store in bytes.
pub const RESERVE_BYTES_MIN: usize = 64 << 10;

/// The arena becomes usable in steps of this many bytes.
pub(crate) const COMMIT_STEP_BYTES: usize = 16 << 20;

/// Blocks that one call of `publish` or `reclaim` may free. `publish` may free twice the blocks that it retires, if
/// that is more, so that freeing keeps up.
pub const RECLAIM_STEP_MAX: usize = 4096;

/// Lookups in one batch of `get_batch`.
pub const BATCH_MAX: usize = 64;

/// Unpublished sealed versions. Callers have a far smaller limit (the proposals in flight); this one only turns a leak
/// into a clear failure.
pub const VERSIONS_MAX: usize = 1 << 20;

/// Free blocks of at least this many granules are split for smaller ones before the arena grows.
pub(crate) const RUN_GRANULES_MIN: usize = 512;

/// With fewer granules in use, the arena grows instead of merging free blocks.
pub(crate) const MERGE_GRANULES_MIN: usize = (4 << 20) / 8;

/// The fraction of the reserve, as a divisor, that must be freed between two merges in a full arena. A merge walks over
/// the whole arena, and every allocation in a full arena would cause one.
pub(crate) const MERGE_SHARE: usize = 256;

/// Free runs of at least this many bytes are returned to the operating system by a merge before the arena grows.
pub(crate) const RELEASE_BYTES_MIN: usize = 4 << 20;

/// With at least this many bytes in free blocks, an idle store returns their memory.
pub(crate) const RELEASE_FREE_BYTES_MIN: usize = 8 << 20;

/// A release is due if enough memory is free to be worth it, and if this part of that amount, as a divisor, was freed
/// since the last release.
pub(crate) const RELEASE_AGAIN_SHARE: usize = 4;

/// Largest arena in bytes for which an idle store returns memory. The walk over all blocks takes about 20 ms then.
pub(crate) const RELEASE_WALK_BYTES_MAX: usize = 1 << 30;

/// An idle store returns free runs of at least this many bytes.
pub(crate) const RELEASE_ALL_BYTES_MIN: usize = 256 << 10;

/// An idle store returns memory in units of this many bytes, a multiple of every normal page size.
pub(crate) const RELEASE_PAGE_BYTES: usize = 64 << 10;
