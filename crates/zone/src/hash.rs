//! The additive hash of a zone's content.
//!
//! Each record has a hash of 128 bits; that of a zone is their sum, modulo 2^128. So a change costs as much as the
//! records that come and go, and equal contents have equal hashes whatever way led to them. The key is fixed: the hash
//! finds replicas that differ, it does not stand against someone who chooses records.

use core::hash::Hasher;
use siphasher::sip128::{Hasher128, SipHasher13};
use wire::name::NameRef;
use wire::number::Rtype;

use crate::vertex::build::{canonical, is_case_folded};

/// A sum of hashes.
pub type StateHash = u128;

/// Makes the hashes of one zone's records.
#[derive(Clone)]
pub(crate) struct RecordHasher(SipHasher13);

impl RecordHasher {
    /// For the zone of this view and apex.
    pub(crate) fn new(view: u16, apex: NameRef<'_>) -> Self {
        let mut hasher = SipHasher13::new_with_key(b"catamaran state1");
        hasher.write(&view.to_be_bytes());
        write_lowercase(&mut hasher, apex);
        Self(hasher)
    }

    /// What the zone adds by being there, without records.
    pub(crate) fn zone(&self) -> StateHash {
        self.0.finish128().as_u128()
    }

    /// The hash of one record, over its canonical form (RFC 4034 6.2).
    pub(crate) fn record(&self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) -> StateHash {
        let mut hasher = self.0;
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

/// Names delimit themselves, so nothing needs to stand between what is written.
fn write_lowercase(hasher: &mut SipHasher13, name: NameRef<'_>) {
    let mut lower = [0; wire::limits::NAME_OCTETS_MAX];
    let octets = name.octets();
    lower[..octets.len()].copy_from_slice(octets);
    lower[..octets.len()].make_ascii_lowercase();
    hasher.write(&lower[..octets.len()]);
}
