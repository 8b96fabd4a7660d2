//! The additive hash of a zone's content.
//!
//! Each record has a hash of 128 bits. The hash of a zone is the sum of these hashes, modulo 2^128. So the cost of a
//! change depends only on the number of added and removed records, and equal contents have equal hashes. The key is
//! fixed: the hash detects replicas that differ, but does not resist an attacker who chooses records.

use core::hash::Hasher;
use siphasher::sip128::{Hasher128, SipHasher13};
use wire::name::NameRef;
use wire::number::Rtype;

use crate::vertex::build::{canonical, is_case_folded};

/// A sum of hashes.
pub type StateHash = u128;

/// Records of up to this many bytes (owner, type, TTL and rdata) are hashed in one call.
const SHORT_BYTES: usize = 64;

/// Computes the hashes of the records of one zone.
#[derive(Clone)]
pub(crate) struct RecordHasher(SipHasher13);

impl RecordHasher {
    /// The hasher of the zone with this view and apex.
    pub(crate) fn new(view: u16, apex: NameRef<'_>) -> Self {
        let mut hasher = SipHasher13::new_with_key(b"catamaran state1");
        hasher.write(&view.to_be_bytes());
        write_lowercase(&mut hasher, apex);
        Self(hasher)
    }

    /// The hash of the zone without records.
    pub(crate) fn zone(&self) -> StateHash {
        self.0.finish128().as_u128()
    }

    /// The hash of one record, over its canonical form (RFC 4034 6.2).
    pub(crate) fn record(&self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) -> StateHash {
        let mut hasher = self.0;
        let (owner_len, rdata_len) = (owner.as_bytes().len(), rdata.len());
        if owner_len + 6 + rdata_len <= SHORT_BYTES && !is_case_folded(rtype) {
            // Nearly all records are short. One call is faster than several.
            let mut short = [0; SHORT_BYTES];
            let (name, rest) = short.split_at_mut(owner_len);
            name.copy_from_slice(owner.as_bytes());
            name.make_ascii_lowercase();
            rest[..2].copy_from_slice(&rtype.0.to_be_bytes());
            rest[2..6].copy_from_slice(&ttl.to_be_bytes());
            rest[6..6 + rdata_len].copy_from_slice(rdata);
            hasher.write(&short[..owner_len + 6 + rdata_len]);
            return hasher.finish128().as_u128();
        }
        write_lowercase(&mut hasher, owner);
        hasher.write(&rtype.0.to_be_bytes());
        hasher.write(&ttl.to_be_bytes());
        if is_case_folded(rtype) {
            hasher.write(&canonical(rtype, rdata));
        } else {
            hasher.write(rdata);
        }
        hasher.finish128().as_u128()
    }
}

/// Hashes a name in lower case. The end of a name is unambiguous, so no separator is needed after it.
fn write_lowercase(hasher: &mut SipHasher13, name: NameRef<'_>) {
    let mut lower = [0; wire::limits::NAME_BYTES_MAX];
    let bytes = name.as_bytes();
    lower[..bytes.len()].copy_from_slice(bytes);
    lower[..bytes.len()].make_ascii_lowercase();
    hasher.write(&lower[..bytes.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hashing_by_parts_equals_hashing_at_once(
            owner in prop::sample::select(vec![".", "a.test.", "WWW.Example.Test.", "of-some-length.sub.example.a."]),
            (rtype, ttl) in (prop::sample::select(vec![1u16, 2, 16, 28, 6, 65_280]), any::<u32>()),
            rdata in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let (apex, owner) = ("Test.".parse::<wire::Name>().unwrap(), owner.parse::<wire::Name>().unwrap());
            let rtype = Rtype(rtype);
            let rdata = if is_case_folded(rtype) { b"\x02NS\x04test\0".to_vec() } else { rdata };
            let mut parts = SipHasher13::new_with_key(b"catamaran state1");
            parts.write(&[0, 7]);
            for byte in b"\x04test\0" {
                parts.write(&[*byte]);
            }
            parts.write(&owner.as_bytes().to_ascii_lowercase());
            parts.write(&rtype.0.to_be_bytes());
            parts.write(&ttl.to_be_bytes());
            parts.write(&canonical(rtype, &rdata));
            let hash = RecordHasher::new(7, apex.as_ref()).record(owner.as_ref(), rtype, ttl, &rdata);
            prop_assert_eq!(hash, parts.finish128().as_u128());
        }
    }
}
