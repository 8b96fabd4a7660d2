//! Every bound of this crate.

/// Bytes of a DNS message (RFC 1035 4.2.2).
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Bytes of the header of a DNS message (RFC 1035 4.1.1): what is shorter is none.
pub const HEADER_BYTES: usize = 12;

/// Bytes of one block of a capture.
pub const BLOCK_BYTES_MAX: usize = 4 << 20;
/// Bytes of one without contents: its type, and its length before and behind them.
pub const BLOCK_BYTES_MIN: u32 = 12;
/// Interfaces of one section of a capture.
pub const INTERFACES_MAX: usize = 65_536;
/// Link and tunnel headers around one packet, including VLAN tags.
pub const LAYERS_MAX: usize = 16;
/// Extension headers of one IPv6 packet.
pub const EXTENSIONS_MAX: usize = 16;

/// Packets in fragments that are put together at one time; the oldest is given up for another.
pub const FRAGMENTED_COUNT_MAX: usize = 4_096;
/// Fragments of one packet.
pub const FRAGMENT_COUNT_MAX: usize = 64;
/// Bytes of all fragments that wait; with more the oldest packet is given up. Fragments may overlap, so it is not
/// enough to bound packets.
pub const FRAGMENT_BYTES_WAITING_MAX: usize = 128 << 20;
/// Time after which the fragments of a packet belong to another one (RFC 8200 4.5).
pub const FRAGMENT_LIFE_NS: u64 = 60_000_000_000;
/// Time within which a repeated fragment is a copy from a capture at two places. A later one belongs to another packet
/// with the same identification. A client's retransmission has a new identification, so it never counts as a copy.
pub const FRAGMENT_COPY_NS: u64 = 100_000_000;
/// Fragments of packets that were whole and are remembered, in case that they are seen again.
pub const FRAGMENTS_READ_MAX: usize = 65_536;

/// TCP streams that are followed at one time, each direction for itself; the one that was quiet longest is given up for
/// another.
pub const STREAM_COUNT_MAX: usize = 65_536;
/// Segments of one stream that wait for one that is missing; with more it is given up.
pub const SEGMENTS_WAITING_MAX: usize = 256;
/// Time after which what is missing of a stream is given up: by then it was sent again three times, after one second,
/// three and seven (RFC 6298 2.1 and 5.5).
pub const GAP_LIFE_NS: u64 = 8_000_000_000;
/// What was given up and is remembered of one stream, so that what comes after all counts as lost.
pub const SKIPPED_COUNT_MAX: usize = 16;
/// Possible message starts that are kept for one stream until more data decides. At the limit the oldest is dropped.
pub const MESSAGE_STARTS_MAX: usize = 16;
/// Bytes that a segment may be before or behind those that come next; beyond that it is of another connection between
/// the same ports.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// What a segment or a fragment that waits takes beside its bytes.
pub const WAITING_BYTES_BESIDES: usize = 64;
/// Bytes of all segments that wait.
pub const SEGMENT_BYTES_WAITING_MAX: usize = 256 << 20;

/// Bytes of one frame of Frame Streams; those of dnstap hold two messages.
pub const FRAME_BYTES_MAX: usize = 256 << 10;
/// dnstap frames that are read ahead to find the message types of a log.
pub const FRAMES_AHEAD_MAX: usize = 4_096;
/// Bytes of dnstap frames that are read ahead.
pub const FRAME_BYTES_AHEAD_MAX: usize = 4 << 20;
/// Bytes of a line of text.
pub const LINE_BYTES_MAX: usize = 256 << 10;

/// Addresses that answer in one range of a replay scenario.
pub const RPL_ADDRESSES_MAX: usize = 1_024;
/// Bytes of the lines of one entry of a replay scenario.
pub const RPL_ENTRY_BYTES_MAX: usize = 256 << 10;
/// Bytes of a file in JSON, which is read whole.
pub const JSON_BYTES_MAX: u64 = 256 << 20;

/// Bytes of one block of C-DNS.
pub const CDNS_BLOCK_BYTES_MAX: usize = 64 << 20;
/// Items of one table of a block of C-DNS.
pub const CDNS_ITEMS_MAX: usize = 1 << 20;
/// Sets of parameters of a file of C-DNS.
pub const CDNS_PARAMETERS_MAX: usize = 1_024;
/// How deep items of C-DNS are nested: six levels, and room for what implementations add.
pub const CDNS_DEPTH_MAX: usize = 16;

/// Bytes that are unpacked ahead.
pub const UNPACKED_BYTES: usize = 64 << 10;
/// KiB of what was unpacked that an xz file may refer back to: four times what `xz -9` wants.
pub const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;

/// Addresses that a summary tells apart.
pub const CLIENT_COUNT_MAX: usize = 4 << 20;

/// Messages of one chunk of a binary trace.
pub const CHUNK_MESSAGES_MAX: usize = 8_192;
/// Bytes of the messages of one chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Bytes of one chunk as it is unpacked: its messages, and no more than 64 for the columns of each.
pub const CHUNK_UNPACKED_BYTES_MAX: usize = CHUNK_BYTES_MAX + 64 * (CHUNK_MESSAGES_MAX + 1);
/// Stretches of time that the index of a binary trace tells apart.
pub const STRETCHES_MAX: usize = 65_536;

/// Rules of a plan that changes a trace.
pub const RULES_MAX: usize = 1_024;
/// Words of one condition of a rule: prefixes, names, types.
pub const CONDITIONS_MAX: usize = 4_096;
/// Queries whose responses are waited for, where a trace is changed by query.
pub const UNANSWERED_MAX: usize = 65_536;

/// Pseudonyms of addresses, and of labels, that are kept; when there are more they are drawn anew.
pub const PSEUDONYMS_MAX: usize = 1 << 18;
