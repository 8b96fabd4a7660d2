//! Every bound of the store, by name.

/// Number of different symbols that a key is made of; a symbol is less than this.
pub const SYMBOL_COUNT: u8 = 50;

/// Children of one branch vertex, at most: one for each symbol, and one for the key that ends there.
pub(crate) const CHILDREN_MAX: usize = SYMBOL_COUNT as usize + 1;

/// The greatest symbol.
pub const SYMBOL_MAX: u8 = SYMBOL_COUNT - 1;

/// Symbols in a key, at most. A name of 255 bytes in which every byte takes two symbols fits, with room for a prefix.
pub const KEY_SYMBOLS_MAX: usize = 576;

/// Leaves that one [`crate::Path`] names as prefixes of its key, at most: a domain name has fewer than 128 ancestors.
pub const PREFIXES_MAX: usize = 128;

/// Leaves that one [`crate::Trail`] names as ends on its way, at most. Beyond that the way is gone again, which hardly
/// any name needs: it would have more ancestors with records than that.
pub const TRAIL_ENDS_MAX: usize = 6;

/// Bytes in one leaf, at most.
pub const LEAF_BYTES_MAX: usize = 16 << 20;

/// Bytes of address space that one store reserves, at most: what a 32-bit handle of 8-byte granules reaches.
pub const RESERVE_BYTES_MAX: usize = 32 << 30;

/// Bytes of address space that one store reserves, at least.
pub const RESERVE_BYTES_MIN: usize = 64 << 10;

/// The arena becomes usable in steps of this many bytes.
pub(crate) const COMMIT_STEP_BYTES: usize = 16 << 20;

/// Vertices and leaves that one call of `publish` or `reclaim` frees: at least this many are allowed, and twice what
/// the call itself retired, so that freeing keeps up with retiring.
pub const RECLAIM_STEP_MAX: usize = 4096;

/// Lookups that go through the trees side by side in `get_batch`.
pub const BATCH_MAX: usize = 64;

/// Sealed versions that wait to be published, at most. Whoever seals holds to a far smaller limit of its own (the
/// proposals in flight); this one only turns a leak into a clear failure.
pub const VERSIONS_MAX: usize = 1 << 20;

/// Free blocks of at least this many granules are cut up for smaller ones before the arena grows.
pub(crate) const RUN_GRANULES_MIN: usize = 512;

/// Below this many granules in use the arena rather grows than merges its free blocks.
pub(crate) const MERGE_GRANULES_MIN: usize = (4 << 20) / 8;

/// In a full arena, one part in so many of the reserve has to be freed between two merges of free blocks: a merge walks
/// over the whole arena, and a full arena is asked again and again.
pub(crate) const MERGE_SHARE: usize = 256;

/// Free runs of at least this many bytes are given back to the operating system when free blocks are merged because
/// the arena would grow.
pub(crate) const RELEASE_BYTES_MIN: usize = 4 << 20;

/// Bytes in free blocks from which on their memory is given back while nothing else is done.
pub(crate) const RELEASE_FREE_BYTES_MIN: usize = 8 << 20;

/// Bytes of an arena up to which that is done: it walks over all blocks, some 20 ms in an arena of this size.
pub(crate) const RELEASE_WALK_BYTES_MAX: usize = 1 << 30;

/// Free runs of at least this many bytes are given back then.
pub(crate) const RELEASE_ALL_BYTES_MIN: usize = 256 << 10;

/// They are given back in pieces of this many bytes: a multiple of every page size that is not huge.
pub(crate) const RELEASE_PAGE_BYTES: usize = 64 << 10;
