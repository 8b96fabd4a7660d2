//! A place in the tree of a zone: one owner name and its RRsets, as a leaf of the store.
//!
//! ```text
//!   leaf   := head owner rrset*                   head: one byte, see `leaf`; owner: wire form, case kept
//!   rrset  := rtype ttl size rdata* signatures?   rtype: 2 bytes, ttl: 4; in ascending order of rtype
//!   size   := number                              bytes of the rdatas, times two, plus one when signatures follow
//!   rdata  := number bytes                       wire form, names uncompressed; in canonical order (RFC 4034 6.3)
//!   signatures := ttl number rdata*               RRSIG rdatas that cover the rrset, and their bytes
//! ```
//!
//! A number has seven bits an byte, the lowest first; the high bit says that more follow. Signatures lie behind what
//! they cover because they are answered together; an RRset of RRSIGs alone has no rdatas of its own.

pub(crate) mod build;
pub(crate) mod leaf;
pub(crate) mod read;

pub use leaf::LeafNames;
pub use read::{Rdatas, RrsetRef, Rrsets, Vertex};
