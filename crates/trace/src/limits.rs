//! Every bound of this crate.

/// Size of a DNS message (RFC 1035 4.2.2).
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Size of the header, and the smallest size of a DNS message (RFC 1035 4.1.1).
pub const HEADER_BYTES: usize = 12;

/// Size of a block of a capture.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Size of an empty block: its type, and its length twice.
pub const BLOCK_BYTES_MIN: u32 = 12;
/// Interfaces in one section of a capture.
pub const INTERFACES_MAX: usize = 65_536;
/// Link and tunnel headers around one packet, including VLAN tags.
pub const LAYERS_MAX: usize = 16;
/// Extension headers of one IPv6 packet.
pub const EXTENSIONS_MAX: usize = 16;

/// Incomplete packets at one time. Beyond that, the oldest is dropped.
pub const FRAGMENTED_COUNT_MAX: usize = 4_096;
/// Fragments of one packet.
pub const FRAGMENT_COUNT_MAX: usize = 64;
/// Memory of all waiting fragments. Beyond that, the oldest packet is dropped. Fragments may overlap, so a limit on
/// packets is not enough.
pub const FRAGMENT_BYTES_WAITING_MAX: usize = 128 << 20;
/// Later fragments with the same number belong to another packet (RFC 8200 4.5).
pub const FRAGMENT_LIFE_NS: u64 = 60_000_000_000;
/// Time within which a repeated fragment is a copy from a capture at two places. A later one belongs to another packet
/// with the same identification. A client's retransmission has a new identification, so it never counts as a copy.
pub const FRAGMENT_COPY_NS: u64 = 100_000_000;
/// Remembered fragments of complete packets, to recognize copies.
pub const FRAGMENTS_READ_MAX: usize = 65_536;

/// TCP streams tracked at one time, each direction separately. Beyond that, the longest idle one is dropped.
pub const STREAM_COUNT_MAX: usize = 65_536;
/// Segments of one stream that wait for a missing one. Beyond that, the gap is given up.
pub const SEGMENTS_WAITING_MAX: usize = 256;
/// A gap is given up after this time. By then, the segment has been retransmitted three times: after one, three and
/// seven seconds (RFC 6298 2.1 and 5.5).
pub const GAP_LIFE_NS: u64 = 8_000_000_000;
/// Remembered gaps of one stream, so that late segments count as lost.
pub const SKIPPED_COUNT_MAX: usize = 16;
/// Possible message starts that are kept for one stream until more data decides. At the limit the oldest is dropped.
pub const MESSAGE_STARTS_MAX: usize = 16;
/// Distance from the expected position beyond which a segment belongs to another connection between the same ports.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Memory of a waiting segment or fragment besides its data.
pub const WAITING_BYTES_BESIDES: usize = 64;
/// Memory of all waiting segments.
pub const SEGMENT_BYTES_WAITING_MAX: usize = 256 << 20;

/// Size of a frame of Frame Streams. A dnstap frame can hold two messages.
pub const FRAME_BYTES_MAX: usize = 256 << 10;
/// dnstap frames that are read ahead to find the message types of a log.
pub const FRAMES_AHEAD_MAX: usize = 4_096;
/// Bytes of dnstap frames that are read ahead.
pub const FRAME_BYTES_AHEAD_MAX: usize = 4 << 20;
/// Length of a line of text.
pub const LINE_BYTES_MAX: usize = 256 << 10;

/// Addresses in one range of a replay scenario.
pub const RPL_ADDRESSES_MAX: usize = 1_024;
/// Size of one entry of a replay scenario.
pub const RPL_ENTRY_BYTES_MAX: usize = 256 << 10;
/// Size of a JSON file, which is read as a whole.
pub const JSON_BYTES_MAX: u64 = 256 << 20;

/// Size of a block of C-DNS.
pub const CDNS_BLOCK_BYTES_MAX: usize = 64 << 20;
/// Items in one table of a C-DNS block.
pub const CDNS_ITEMS_MAX: usize = 1 << 20;
/// Parameter sets in a C-DNS file.
pub const CDNS_PARAMETERS_MAX: usize = 1_024;
/// Nesting of C-DNS items: six levels, and room for extensions.
pub const CDNS_DEPTH_MAX: usize = 16;

/// Buffer for decompressed data.
pub const UNPACKED_BYTES: usize = 64 << 10;
/// Dictionary of an xz file in KiB: four times that of `xz -9`.
pub const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;

/// Clients, and servers, that a summary distinguishes.
pub const CLIENT_COUNT_MAX: usize = 4 << 20;

/// Messages in one chunk of a binary trace.
pub const CHUNK_MESSAGES_MAX: usize = 8_192;
/// Size of the messages in one chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Unpacked size of a chunk: its messages, and at most 64 bytes of columns for each.
pub const CHUNK_UNPACKED_BYTES_MAX: usize = CHUNK_BYTES_MAX + 64 * (CHUNK_MESSAGES_MAX + 1);
/// Maximum number of entries in the index of a binary trace.
pub const INDEX_ENTRIES_MAX: usize = 65_536;

/// Rules of a plan.
pub const RULES_MAX: usize = 1_024;
/// Values of one condition of a rule.
pub const CONDITIONS_MAX: usize = 4_096;
/// Remembered queries without a response, if shares are drawn per query.
pub const UNANSWERED_MAX: usize = 65_536;

/// Size of the cache of pseudonyms of addresses, and of that of labels.
pub const PSEUDONYMS_MAX: usize = 1 << 18;
