//! One RRset of a proof.

use crate::vertex::RrsetRef;
use wire::name::NameRef;

/// One NSEC or NSEC3 RRset.
#[derive(Clone, Copy)]
pub(crate) struct Proof<'a> {
    pub(crate) owner: NameRef<'a>,
    pub(crate) rrset: RrsetRef<'a>,
}
