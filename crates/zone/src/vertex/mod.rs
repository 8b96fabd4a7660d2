//! A vertex in the tree of a zone: one owner name with its RRsets, stored as a leaf.
//!
//! ```text
//!   leaf   := head owner rrset*                   head: one byte, see `leaf`; owner: wire form, case kept
//!   rrset  := rtype ttl size rdata* signatures?   rtype: 2 bytes, ttl: 4; in ascending order of rtype
//!   size   := number                              bytes of the rdatas, times two, plus one when signatures follow
//!   rdata  := number bytes                       wire form, names uncompressed; in canonical order (RFC 4034 6.3)
//!   signatures := ttl number rdata*               RRSIG rdatas that cover the rrset, and their bytes
//! ```
//!
//! A number has seven bits per byte, the lowest first; the high bit means that more follow. Signatures follow the RRset
//! that they cover, because both are sent together. An entry with RRSIGs only has no rdatas.

pub(crate) mod build;
pub(crate) mod leaf;
pub(crate) mod read;

pub use leaf::LeafNames;
pub use read::{Rdatas, RrsetRef, Rrsets, Vertex};
