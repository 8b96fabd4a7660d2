//! Limits of an UPDATE, from its bytes to its changeset.

/// Records of the prerequisite and update sections together. A client that sends batches of 50 with three records
/// each stays well below. More records would only cost time. This also bounds the memory for rdata: compression hides
/// at most two names of 255 bytes in a record.
pub const UPDATE_RECORDS_MAX: usize = 1_000;
/// Bytes of rdata that one update may read from the zone (at most
/// [`UPDATE_TOUCHED_RECORDS_MAX`](policy::limits::UPDATE_TOUCHED_RECORDS_MAX) records). It is twice the largest owner
/// that a zone file may have, so that such an owner can be deleted.
pub const UPDATE_TOUCHED_BYTES_MAX: usize = 16 << 20;
/// Records of one RRset after an update. More would not fit into one message (`zone::limits`).
pub const RRSET_RECORDS_MAX: usize = 4_000;
/// Bytes of rdata of one RRset after an update. With owner, types and TTLs ([`RRSET_RECORD_OVERHEAD`] each), a
/// question, OPT and TSIG it fits a message of 65,535 bytes.
pub const RRSET_BYTES_MAX: usize = 64_000;
/// Bytes of a record in a message, without its rdata: compressed owner, TYPE, CLASS, TTL, RDLENGTH.
pub const RRSET_RECORD_OVERHEAD: usize = 12;
/// RRsets of one owner after an update, as in BIND 9.20 (`max-types-per-name`).
pub const OWNER_RRSETS_MAX: usize = 100;
/// Bytes of all RRsets of one owner after an update: four RRsets of the largest size. A change of an owner copies all
/// of them, so this bounds the cost of a small update. Zone files may have more (`zone::limits::LEAF_BYTES_MAX`).
pub const OWNER_BYTES_MAX: usize = 256 << 10;
/// Bytes of rdata that one update deletes and adds together, because the change is one log entry.
pub const CHANGE_BYTES_MAX: usize = 4 << 20;
