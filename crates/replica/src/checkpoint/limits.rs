//! Sizes and bounds of checkpoints and their transfer.

/// Bytes of one block.
pub const BLOCK_BYTES_MAX: usize = 256 << 10;
/// Bytes of one item: a block holds it with its length.
pub const ITEM_BYTES_MAX: usize = BLOCK_BYTES_MAX - 4;
/// Bytes of items that are taken from the state at one time: a piece of long work.
pub const STEP_BYTES: usize = 128 << 10;
/// Blocks of one checkpoint: 256 GiB.
pub const BLOCKS_MAX: u32 = 1 << 20;
/// Members in one list of a configuration.
pub const MEMBERS_MAX: usize = 100;
/// Bytes of an encoded manifest.
pub const MANIFEST_BYTES_MAX: usize = 4096;
/// Bytes of writes after which a sync follows, so that no single one is large enough to hold up the log.
pub const UNSYNCED_BYTES_MAX: u64 = 16 << 20;
/// Blocks that a member asks for before it has them on disk.
pub const FETCH_WINDOW_MAX: usize = 8;
/// Blocks of one request.
pub const GET_COUNT_MAX: u16 = 8;
/// Requested blocks that wait for one peer at the server; more are a fault of the peer.
pub const WAITING_BLOCKS_MAX: usize = 16;
/// Reads of blocks under way at the server.
pub const SERVER_READS_MAX: usize = 4;
/// Checkpoints that a server offers at once: the newest, and those that transfers still use.
pub const OFFERS_MAX: usize = 3;
/// Milliseconds for which a checkpoint is kept after a peer last asked for a block of it: time to start again, too.
pub const OFFER_LEASE_MS: u64 = 300_000;
/// Milliseconds without a block after which a member asks again.
pub const FETCH_STALL_MS: u64 = 5_000;
/// Blocks that differ from their checksums before a transfer is given up.
pub const BAD_BLOCKS_MAX: u32 = 3;
/// Reads of blocks under way while a checkpoint is loaded.
pub const LOAD_READS_MAX: usize = 4;
