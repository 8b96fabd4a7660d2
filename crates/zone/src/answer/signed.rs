//! Adds an RRset with its signatures.

use crate::vertex::RrsetRef;
use wire::compose::{Composer, Full};
use wire::name::NameRef;
use wire::number::{Class, Rtype};
use wire::parse::Section;

/// An RRset to add to a response.
pub(super) struct Signed<'s, 'a> {
    pub(super) owner: NameRef<'s>,
    pub(super) rrset: &'s RrsetRef<'a>,
    /// Maximum TTL.
    pub(super) ttl_max: u32,
    /// Whether to add its RRSIGs.
    pub(super) dnssec_ok: bool,
}

impl Signed<'_, '_> {
    /// Adds the RRset, and its RRSIGs if requested. If not all of it fits, nothing is added (RFC 4035 3.1.1).
    pub(super) fn push(&self, composer: &mut Composer<'_>, section: Section) -> Result<(), Full> {
        let Self { owner, rrset, ttl_max, dnssec_ok } = *self;
        let mark = composer.mark();
        composer.push_rrset(section, owner, rrset.rtype, Class::IN, rrset.ttl.min(ttl_max), rrset.rdatas())?;
        if !dnssec_ok || !rrset.is_signed() {
            return Ok(());
        }
        let ttl = rrset.rrsig_ttl.min(ttl_max);
        let pushed = composer.push_rrset(section, owner, Rtype::RRSIG, Class::IN, ttl, rrset.rrsigs());
        if pushed.is_err() {
            composer.rollback(mark);
        }
        pushed
    }
}
