//! Every bound of this crate.

/// Depth of `$INCLUDE`: a file that includes itself ends here.
pub const INCLUDE_DEPTH_MAX: usize = 16;
/// Bytes of one entry of a zone file, comments within it counted: lines joined by parentheses are one entry. The
/// longest rdata has 65,535 bytes, each at most four bytes of text, and some white space between them.
pub const ENTRY_BYTES_MAX: usize = 1024 * 1024;
/// Tokens of one entry: rdata of single-byte strings has one for every two bytes.
pub const ENTRY_TOKENS_MAX: usize = 64 * 1024;
/// Files that one zone may be put together from.
pub const INCLUDE_FILES_MAX: usize = 10_000;
/// Records that one zone file may hold, those of `$INCLUDE` and `$GENERATE` counted.
pub const FILE_RECORDS_MAX: usize = 100_000_000;
/// Bytes of the records of one zone file, owners uncompressed, unless the caller allows less.
pub const FILE_RECORDS_BYTES_MAX: usize = 64 << 30;
/// Records that all `$GENERATE` of a zone file may make: those of four IPv4 /16. A line of text makes them, so they are
/// bounded apart from those that are written out.
pub const GENERATE_RECORDS_MAX: u64 = 1 << 18;
/// Bytes of owners and rdata of these records.
pub const GENERATE_BYTES_MAX: usize = 16 << 20;
/// Bytes of one number that a `$GENERATE` writes; the bound is BIND's.
pub const GENERATE_NUMBER_BYTES_MAX: usize = 127;
/// Bytes of one text that a `$GENERATE` makes from its template.
pub const GENERATE_TEXT_MAX: usize = 64 * 1024;
/// Errors of one zone file that are kept; scanning ends there.
pub const FILE_ERRORS_MAX: usize = 100;
/// Longest part of a word, in bytes, that an error or a warning shows.
pub const EXCERPT_BYTES_MAX: usize = 64;
/// Warnings that are kept in full; beyond it only their count grows.
pub const WARNINGS_MAX: usize = 1_000;
/// Additional hash iterations of NSEC3 that are served (RFC 9276 3.2; each negative answer costs up to three hashes).
/// Zones that older software took may have so many: what is applied must be the same on all nodes.
pub const NSEC3_ITERATIONS_MAX: u16 = 150;
/// Additional hash iterations of NSEC3 in a zone that is loaded. RFC 9276 3.1 wants none; BIND and PowerDNS take zones
/// with more for unsigned.
pub const NSEC3_ITERATIONS_LOADED_MAX: u16 = 50;
/// Bytes of the salt in a zone that is loaded. RFC 9276 3.1 wants none. A hash, so much salt and the padding are one
/// block of SHA-1 (20 + 32 + 9 of 64 bytes); the longest salt would be five for each iteration.
pub const NSEC3_SALT_LOADED_BYTES_MAX: usize = 32;
/// Records of one RRset that can be answered: more do not fit into a message of 65,535 bytes (an A record behind a
/// compressed owner takes 16). This is a bound for warnings, not for loading.
pub const RRSET_RECORDS_MAX: usize = 4_000;
/// Up to so many records of one RRset are compared each with each in search of duplicates; beyond, they are sorted.
pub const PAIRS_MAX: usize = 8;
/// Bytes of the longest mnemonic of a type: NSEC3PARAM, OPENPGPKEY.
pub const RTYPE_BYTES_MAX: usize = 10;
/// The greatest size or precision of LOC in centimetres: nine times ten to the ninth (RFC 1876 2).
pub const LOC_CENTIMETRES_MAX: u64 = 9_000_000_000;
/// The last year that a signature's time may lie in. Times count modulo 2^32 seconds (RFC 4034 3.1.5), so later years
/// are taken for earlier ones; beyond two turns of the clock a typing error is more likely. Knot has the same bound.
pub const TIME_YEAR_MAX: u64 = 2225;
/// Last second that is converted to a date, in the year 5138. The bound keeps the search for the year short.
pub const CALENDAR_S_MAX: u64 = 100_000_000_000;
/// Bytes of all that one owner name has. The store takes 16 MiB.
pub const LEAF_BYTES_MAX: usize = 8 << 20;
/// Bytes of a number in a leaf: 28 bits, more than twice what a leaf may have bytes.
pub const NUMBER_BYTES_MAX: usize = 4;
/// Bytes that may share the first symbol of their keys: no more than there are second symbols.
pub const KEY_RUN_BYTES_MAX: u8 = 46;
/// CNAME and DNAME records that one answer follows, all in one zone: more than any real chain, less than harm.
pub const CHAIN_MAX: usize = 16;
/// NSEC and NSEC3 records in one answer: four for the last name and one for each wildcard on the way.
pub const PROOFS_MAX: usize = CHAIN_MAX + 4;
/// Names whose addresses (or SVCB records) are put into the additional section unasked.
pub const ADDITIONAL_NAMES_MAX: usize = 13;
/// In-domain name servers of one delegation whose glue is looked for (RFC 9471 wants all; this bounds the work).
pub const GLUE_NAMES_MAX: usize = 256;
/// NSEC3 records that are stepped over to find one of the chain in use, while a zone changes its salt.
pub const NSEC3_STEPS_MAX: usize = 16;

/// Names that are looked for among sorted owners one by one before a table is made of them.
pub(crate) const SEARCHES_MAX: usize = 4096;

/// Runs of sorted owners in a zone file that are merged one after the other; more are sorted all at once.
pub(crate) const MERGED_RUNS_MAX: usize = 8;

/// One owner in so many may be out of order for a zone file to count as nearly sorted.
pub(crate) const DISORDER_SHARE: usize = 16;

/// The longest TTL, in seconds (RFC 2181 8).
pub(crate) const TTL_MAX: u32 = i32::MAX as u32;
