//! Every bound of the way of an UPDATE, from its bytes to the change that it makes.

/// Records of the prerequisite and update sections together. A client that sends in batches of 50 with three records
/// each stays well below; what a message of 65,535 bytes could hold beyond it would only cost time. It bounds the
/// memory for rdata too: compression hides at most two names of 255 bytes in a record.
pub const UPDATE_RECORDS_MAX: usize = 1_000;
/// Bytes of rdata of the records that one update may read from the zone (at most
/// [`UPDATE_TOUCHED_RECORDS_MAX`](policy::limits::UPDATE_TOUCHED_RECORDS_MAX) of them): twice what one owner of a zone
/// file may have, so that it can be deleted.
pub const UPDATE_TOUCHED_BYTES_MAX: usize = 16 << 20;
/// Records of one RRset after an update; more could not be answered in one message (`zone::limits`).
pub const RRSET_RECORDS_MAX: usize = 4_000;
/// Bytes of rdata of one RRset after an update, so that it fits a message of 65,535 bytes with owner, types and TTLs
/// ([`RRSET_RECORD_OVERHEAD`] each), a question, OPT and TSIG.
pub const RRSET_BYTES_MAX: usize = 64_000;
/// Bytes that a record takes in a message beside its rdata: compressed owner, TYPE, CLASS, TTL, RDLENGTH.
pub const RRSET_RECORD_OVERHEAD: usize = 12;
/// RRsets of one owner after an update; BIND 9.20 has the same (`max-types-per-name`).
pub const OWNER_RRSETS_MAX: usize = 100;
/// Bytes of all that one owner has after an update: four RRsets of the largest size. Each change of an owner copies all
/// that it has, so this bounds what a small update costs. Zone files may bring more (`zone::limits::LEAF_BYTES_MAX`).
pub const OWNER_BYTES_MAX: usize = 256 << 10;
/// Bytes of rdata in the change that one update makes, what it deletes and what it adds together: it is one entry of
/// the log.
pub const CHANGE_BYTES_MAX: usize = 4 << 20;
