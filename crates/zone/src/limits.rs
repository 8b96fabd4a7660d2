//! Every bound of this crate.

/// Depth of `$INCLUDE`. A file that includes itself fails at this depth.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// Bytes of one entry of a zone file, including its comments. Lines joined by parentheses are one entry. The longest
/// rdata has 65,535 bytes, each at most four bytes of text, and some white space.
pub const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Tokens of one entry. Rdata of single-byte strings has one token for every two bytes.
pub const ENTRY_TOKENS_MAX: usize = 64 * 1024;
/// Files of one zone, including `$INCLUDE`.
pub const INCLUDE_FILES_MAX: usize = 10_000;
/// Records of one zone file, including those of `$INCLUDE` and `$GENERATE`.
pub const FILE_RECORDS_MAX: usize = 100_000_000;
/// Bytes of the records of one zone file with uncompressed owners, unless the caller allows less.
pub const FILE_RECORDS_BYTES_MAX: usize = 64 << 30;
/// Records of all `$GENERATE` in a zone file: enough for four IPv4 /16. One line can make very many, so they have a
/// bound of their own.
pub const GENERATE_RECORDS_MAX: u64 = 1 << 18;
/// Bytes of owners and rdata of these records.
pub const GENERATE_BYTES_MAX: usize = 16 << 20;
/// Bytes of one number made by `$GENERATE`. The bound is BIND's.
pub const GENERATE_NUMBER_BYTES_MAX: usize = 127;
/// Bytes of one text made by `$GENERATE` from its template.
pub const GENERATE_TEXT_MAX: usize = 64 * 1024;
/// Errors to keep for one zone file. Scanning stops at this number.
pub const FILE_ERRORS_MAX: usize = 100;
/// Longest part of a word, in bytes, that an error or a warning shows.
pub const EXCERPT_BYTES_MAX: usize = 64;
/// Warnings to keep. Further ones are only counted.
pub const WARNINGS_MAX: usize = 1_000;
/// Additional hash iterations of NSEC3 in a zone that is served (RFC 9276 3.2; each negative answer takes up to three
/// hashes). Zones accepted by older software may have this many, and all nodes must apply the same changes.
pub const NSEC3_ITERATIONS_MAX: u16 = 150;
/// Additional hash iterations of NSEC3 in a zone that is loaded. RFC 9276 3.1 recommends none; BIND and PowerDNS treat
/// zones with more as unsigned.
pub const NSEC3_ITERATIONS_LOADED_MAX: u16 = 50;
/// Bytes of the salt in a zone that is loaded. RFC 9276 3.1 recommends none. A hash, this salt and the padding fit into
/// one block of SHA-1 (20 + 32 + 9 of 64 bytes). The longest salt would take five blocks per iteration.
pub const NSEC3_SALT_LOADED_BYTES_MAX: usize = 32;
/// Records of one RRset that fit into a message of 65,535 bytes (an A record with a compressed owner takes 16). This
/// bound causes warnings only; larger RRsets are loaded.
pub const RRSET_RECORDS_MAX: usize = 4_000;
/// In RRsets of up to this many records, each record is compared with each to find duplicates. Larger RRsets are
/// sorted.
pub const PAIRS_MAX: usize = 8;
/// Bytes of the longest mnemonic of a type: NSEC3PARAM, OPENPGPKEY.
pub const RTYPE_BYTES_MAX: usize = 10;
/// The greatest size or precision of LOC in centimetres: nine times ten to the ninth (RFC 1876 2).
pub const LOC_CENTIMETRES_MAX: u64 = 9_000_000_000;
/// The last year of a signature's time. Times count modulo 2^32 seconds (RFC 4034 3.1.5), so later years mean earlier
/// ones. Beyond two periods, a typing error is more likely. Knot has the same bound.
pub const TIME_YEAR_MAX: u64 = 2225;
/// The last second that is converted to a date, in the year 5138. The bound keeps the search for the year short.
pub const CALENDAR_S_MAX: u64 = 100_000_000_000;
/// Bytes of all records of one owner name. The store allows 16 MiB.
pub const LEAF_BYTES_MAX: usize = 8 << 20;
/// Bytes of a number in a leaf: 28 bits, enough for twice the size of a leaf.
pub const NUMBER_BYTES_MAX: usize = 4;
/// Bytes that may share the first symbol of their keys, limited by the number of second symbols.
pub const KEY_RUN_BYTES_MAX: u8 = 46;
/// CNAME and DNAME records that one answer follows within a zone. Real chains are shorter.
pub const CHAIN_MAX: usize = 16;
/// NSEC and NSEC3 records in one answer: four for the last name and one for each wildcard in the chain.
pub const PROOFS_MAX: usize = CHAIN_MAX + 4;
/// Names whose addresses (or SVCB records) are added to the additional section.
pub const ADDITIONAL_NAMES_MAX: usize = 13;
/// In-domain name servers of one delegation whose glue is looked up (RFC 9471 requires all; this bounds the work).
pub const GLUE_NAMES_MAX: usize = 256;
/// NSEC3 records to skip when searching one of the chain in use, while a zone changes its salt.
pub const NSEC3_STEPS_MAX: usize = 16;

/// Lookups among sorted owners by binary search before a hash table is built.
pub(crate) const SEARCHES_MAX: usize = 4096;

/// Sorted runs of owners in a zone file that are merged one by one. With more runs, all owners are sorted.
pub(crate) const MERGED_RUNS_MAX: usize = 8;

/// A zone file counts as nearly sorted if at most one owner in this many is out of order.
pub(crate) const DISORDER_SHARE: usize = 16;

/// The longest TTL, in seconds (RFC 2181 8).
pub(crate) const TTL_MAX: u32 = i32::MAX as u32;
