//! Sizes and bounds of checkpoints and their transfer.

/// Bytes of one block.
pub const BLOCK_BYTES_MAX: usize = 256 << 10;
/// Bytes of one item: a block holds the item and its length.
pub const ITEM_BYTES_MAX: usize = BLOCK_BYTES_MAX - 4;
/// Bytes of items that one step takes from the state.
pub const STEP_BYTES: usize = 128 << 10;
/// Blocks of one checkpoint: 256 GiB.
pub const BLOCKS_MAX: u32 = 1 << 20;
/// Members in one list of a configuration.
pub const MEMBERS_MAX: usize = 100;
/// Bytes of an encoded manifest.
pub const MANIFEST_BYTES_MAX: usize = 4096;
/// After writing this many bytes a sync follows, so that no single sync holds up the log.
pub const UNSYNCED_BYTES_MAX: u64 = 16 << 20;
/// Blocks that a member requests before earlier ones are on its disk.
pub const FETCH_WINDOW_MAX: usize = 8;
/// Blocks of one request.
pub const GET_COUNT_MAX: u16 = 8;
/// Requested blocks that wait for one peer at the server. A peer that requests more is at fault.
pub const WAITING_BLOCKS_MAX: usize = 16;
/// Block reads in progress at the server.
pub const SERVER_READS_MAX: usize = 4;
/// Checkpoints that a server offers at once: the newest, and those in use by transfers.
pub const OFFERS_MAX: usize = 3;
/// Milliseconds for which a checkpoint is kept after a peer last requested a block. A restart fits into this time.
pub const OFFER_LEASE_MS: u64 = 300_000;
/// Milliseconds without a block after which a member repeats its requests.
pub const FETCH_STALL_MS: u64 = 5_000;
/// Blocks with wrong checksums before a transfer is aborted.
pub const BAD_BLOCKS_MAX: u32 = 3;
/// Block reads in progress while a checkpoint is loaded.
pub const LOAD_READS_MAX: usize = 4;
