//! Reads leaves in place, without copies or allocation.

use super::leaf::{self, HEAD_ALIAS, HEAD_CUT, HEAD_DNAME};
use wire::name::NameRef;
use wire::number::Rtype;

/// An owner name and its RRsets.
#[derive(Clone, Copy)]
pub struct Vertex<'a> {
    head: u8,
    owner: NameRef<'a>,
    directory: &'a [u8],
}

impl<'a> Vertex<'a> {
    /// Reads a leaf of a tree of names.
    pub(crate) fn from_leaf(leaf: &'a [u8]) -> Self {
        let (owner, directory) = leaf::split_owner(leaf);
        Self { head: leaf.first().copied().unwrap_or_default(), owner, directory }
    }

    /// Whether names below this leaf's owner are occluded: it is a zone cut, or has a DNAME.
    pub(crate) fn is_occluding(leaf: &[u8]) -> bool {
        leaf.first().is_some_and(|head| head & (HEAD_CUT | HEAD_DNAME) != 0)
    }

    /// The owner name, in the case of its first record.
    #[must_use]
    pub const fn owner(&self) -> NameRef<'a> {
        self.owner
    }

    /// Whether the owner is a zone cut: has NS and is not the apex (RFC 9499 7).
    #[must_use]
    pub const fn is_zone_cut(&self) -> bool {
        self.head & HEAD_CUT != 0
    }

    /// Whether the owner has a DNAME (RFC 6672).
    #[must_use]
    pub const fn has_dname(&self) -> bool {
        self.head & HEAD_DNAME != 0
    }

    /// Whether the owner has a CNAME.
    #[must_use]
    pub const fn has_cname(&self) -> bool {
        self.head & HEAD_ALIAS != 0
    }

    /// The RRset of a type. For RRSIG see [`Vertex::rrsets`]: each RRset has its signatures.
    #[must_use]
    pub fn rrset(&self, rtype: Rtype) -> Option<RrsetRef<'a>> {
        self.entries().take_while(|rrset| rrset.rtype <= rtype).find(|rrset| rrset.rtype == rtype && !rrset.is_empty())
    }

    /// The RRsets in ascending order of type, without entries that have RRSIGs only.
    pub fn rrsets(&self) -> impl Iterator<Item = RrsetRef<'a>> + use<'a> {
        self.entries().filter(|rrset| !rrset.is_empty())
    }

    /// All entries in ascending order of (covered) type, including entries with RRSIGs only.
    #[must_use]
    pub const fn entries(&self) -> Rrsets<'a> {
        Rrsets(self.directory)
    }
}

/// Iterator over the RRsets of an owner name; made by [`Vertex::entries`].
#[derive(Clone, Copy, Default)]
pub struct Rrsets<'a>(&'a [u8]);

impl<'a> Iterator for Rrsets<'a> {
    type Item = RrsetRef<'a>;

    fn next(&mut self) -> Option<RrsetRef<'a>> {
        let (rtype, rest) = self.0.split_first_chunk()?;
        let (ttl, rest) = rest.split_first_chunk()?;
        let (size, rest) = split_number(rest)?;
        let (rdatas, mut rest) = rest.split_at_checked(size >> 1)?;
        let (mut rrsig_ttl, mut rrsigs) = (0, &[][..]);
        if size & 1 != 0 {
            let (ttl, after) = rest.split_first_chunk()?;
            let (size, after) = split_number(after)?;
            rrsig_ttl = u32::from_be_bytes(*ttl);
            (rrsigs, rest) = after.split_at_checked(size)?;
        }
        self.0 = rest;
        Some(RrsetRef {
            rtype: Rtype(u16::from_be_bytes(*rtype)),
            ttl: u32::from_be_bytes(*ttl),
            rdatas,
            rrsig_ttl,
            rrsigs,
        })
    }
}

/// An RRset and the RRSIGs that cover it.
#[derive(Clone, Copy)]
pub struct RrsetRef<'a> {
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl: u32,
    rdatas: &'a [u8],
    /// The TTL of the RRSIGs in seconds; 0 when there are none.
    pub rrsig_ttl: u32,
    rrsigs: &'a [u8],
}

impl<'a> RrsetRef<'a> {
    /// The rdatas in canonical order (RFC 4034 6.3), in wire form with uncompressed names.
    #[must_use]
    pub const fn rdatas(&self) -> Rdatas<'a> {
        Rdatas(self.rdatas)
    }

    /// The rdatas of the RRSIGs that cover the RRset.
    #[must_use]
    pub const fn rrsigs(&self) -> Rdatas<'a> {
        Rdatas(self.rrsigs)
    }

    /// Whether there are RRSIGs.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        !self.rrsigs.is_empty()
    }

    /// Whether there are RRSIGs without the RRset that they cover.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rdatas.is_empty()
    }

    /// The first rdata: the only one of SOA, CNAME, DNAME, NSEC and NSEC3.
    #[must_use]
    pub fn first(&self) -> Option<&'a [u8]> {
        self.rdatas().next()
    }

    /// Whether `other` is the same stored RRset of the same version.
    #[must_use]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.rdatas, other.rdatas)
    }
}

/// Iterator over rdatas; made by [`RrsetRef::rdatas`] and [`RrsetRef::rrsigs`].
#[derive(Clone, Copy, Default)]
pub struct Rdatas<'a>(&'a [u8]);

impl<'a> Iterator for Rdatas<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (bytes, rest) = split_number(self.0)?;
        let (rdata, rest) = rest.split_at_checked(bytes)?;
        self.0 = rest;
        Some(rdata)
    }
}

/// Reads a number from the start.
fn split_number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0;
    for (place, &byte) in bytes.iter().enumerate().take(crate::limits::NUMBER_BYTES_MAX) {
        number |= usize::from(byte & 0x7F) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}
