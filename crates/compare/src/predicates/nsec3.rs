//! Validates NSEC3 records (RFC 5155 8.3), with a separate implementation of the hash.

use super::names::is_at_or_below;
use crate::response::{Rr, Section};
use data_encoding::BASE32HEX_NOPAD;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use wire::name::NameRef;
use wire::number::Rtype;

/// Bit of the flags field (RFC 5155 3.1.2.1).
const OPT_OUT: u8 = 1;

/// The NSEC3 records of one authority section.
pub(super) struct Chain {
    apex: Vec<u8>,
    iterations: u16,
    salt: Vec<u8>,
    links: Vec<Link>,
}

struct Link {
    hash: Vec<u8>,
    next: Vec<u8>,
    is_opt_out: bool,
}

impl Chain {
    /// Reads the records. `None` if there are none.
    pub(super) fn new(authority: &Section) -> Option<Self> {
        let mut records = authority.iter().filter(|rr| rr.rtype == Rtype::NSEC3).peekable();
        let first = records.peek()?;
        let apex = NameRef::from_bytes(&first.owner).ok()?.strip(1)?.as_bytes().to_vec();
        let iterations = u16::from_be_bytes([*first.rdata.get(2)?, *first.rdata.get(3)?]);
        let salt = first.rdata.get(5..5 + usize::from(*first.rdata.get(4)?))?.to_vec();
        let links = records.filter_map(link).collect();
        Some(Self { apex, iterations, salt, links })
    }

    /// Whether the records prove an encloser of `name`: one matches the encloser, and one covers the next closer name
    /// (RFC 5155 7.2.1). Returns the opt-out flag of the latter, or `None` without a proof.
    pub(super) fn proves_encloser(&self, name: &[u8]) -> Option<bool> {
        let mut next_closer = name.to_vec();
        for encloser in self.enclosers(name).skip(1) {
            if self.matches(&encloser) {
                let hash = self.hash(&next_closer);
                return self.links.iter().find(|link| link.covers(&hash)).map(|link| link.is_opt_out);
            }
            next_closer = encloser;
        }
        None
    }

    /// The nearest name above `name` that a record matches.
    pub(super) fn encloser(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.enclosers(name).skip(1).find(|encloser| self.matches(encloser))
    }

    /// Whether there is one record, and it matches or covers the wildcard of `encloser`.
    pub(super) fn is_about_wildcard_of(&self, encloser: &[u8]) -> bool {
        let hash = self.hash(&[b"\x01*", encloser].concat());
        matches!(self.links.as_slice(), [link] if link.hash == hash || link.covers(&hash))
    }

    /// `name` and the names above it, up to the apex.
    fn enclosers<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
        let above = |name: &Vec<u8>| Some(NameRef::from_bytes(name).ok()?.strip(1)?.as_bytes().to_vec());
        std::iter::successors(Some(name.to_vec()), above).take_while(|name| is_at_or_below(name, &self.apex))
    }

    fn matches(&self, name: &[u8]) -> bool {
        let hash = self.hash(name);
        self.links.iter().any(|link| link.hash == hash)
    }

    /// RFC 5155 5.
    fn hash(&self, name: &[u8]) -> Vec<u8> {
        let once = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, &[bytes, &self.salt].concat()).as_ref().to_vec();
        (0..self.iterations).fold(once(&name.to_ascii_lowercase()), |hash, _| once(&hash))
    }
}

impl Link {
    fn covers(&self, hash: &[u8]) -> bool {
        let (own, next) = (self.hash.as_slice(), self.next.as_slice());
        // RFC 5155 3.1.7: the last record points to the first.
        if own < next { own < hash && hash < next } else { own < hash || hash < next }
    }
}

fn link(rr: &Rr) -> Option<Link> {
    let label = rr.owner.get(1..1 + usize::from(*rr.owner.first()?))?.to_ascii_uppercase();
    let salt_end = 5 + usize::from(*rr.rdata.get(4)?);
    let next = rr.rdata.get(salt_end + 1..salt_end + 1 + usize::from(*rr.rdata.get(salt_end)?))?;
    let is_opt_out = rr.rdata.get(1)? & OPT_OUT != 0;
    Some(Link { hash: BASE32HEX_NOPAD.decode(&label).ok()?, next: next.to_vec(), is_opt_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_rfc_5155_appendix_a() {
        let salt = vec![0xAA, 0xBB, 0xCC, 0xDD];
        let chain = Chain { apex: b"\x07example\0".to_vec(), iterations: 12, salt, links: Vec::new() };
        let hash = |name: &[u8]| BASE32HEX_NOPAD.encode(&chain.hash(name)).to_lowercase();
        assert_eq!(hash(b"\x07example\0"), "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom");
        assert_eq!(hash(b"\x01a\x07EXAMPLE\0"), "35mthgpgcu1qg68fab165klnsnk3dpvl");
    }
}
