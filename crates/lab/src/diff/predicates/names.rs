//! Which names the RRs of a response name, and which of these are glue.

use super::Pair;
use crate::diff::response::{Response, Rr, Section, flag};
use std::collections::BTreeSet;
use wire::name::NameRef;
use wire::number::Rtype;

/// Bytes that every server here may send in a datagram, whatever the client takes.
const UDP_BYTES_MAX: usize = 1232;

/// Whether a name, in wire form and lower case, is `ancestor` or below it.
pub(super) fn is_at_or_below(name: &[u8], ancestor: &[u8]) -> bool {
    match (NameRef::from_octets(name), NameRef::from_octets(ancestor)) {
        (Ok(name), Ok(ancestor)) => name.is_at_or_below(ancestor),
        _ => false,
    }
}

/// The type that an RR belongs to: that which it covers where it is a signature.
pub(in crate::diff) fn covered(rr: &Rr) -> Rtype {
    match (rr.rtype, rr.rdata.first_chunk()) {
        (Rtype::RRSIG, Some(covered)) => Rtype(u16::from_be_bytes(*covered)),
        (rtype, _) => rtype,
    }
}

/// Names in the rdata of a section that clients ask for next, in lower case (RFC 1035 3.3.9 and 3.3.11, RFC 2782, RFC
/// 9460 4.1). The owner of an SVCB stands for itself where the target is the root.
pub(super) fn targets(section: &Section) -> BTreeSet<Vec<u8>> {
    let target = |rr: &Rr| {
        let at = match rr.rtype {
            Rtype::NS => 0,
            Rtype::MX | Rtype::SVCB | Rtype::HTTPS => 2,
            Rtype::SRV => 6,
            _ => return None,
        };
        let (target, _) = NameRef::split_from(rr.rdata.get(at..)?).ok()?;
        let is_owner = target.is_root() && matches!(rr.rtype, Rtype::SVCB | Rtype::HTTPS);
        Some(if is_owner { rr.owner.clone() } else { target.as_bytes().to_ascii_lowercase() })
    };
    section.iter().filter_map(target).collect()
}

/// The zone cut of a referral: the owner of the NS in its authority section.
pub(super) fn cut(response: &Response) -> Option<&[u8]> {
    response.authority.iter().find(|rr| rr.rtype == Rtype::NS).map(|rr| rr.owner.as_slice())
}

/// Addresses in a referral whose owners are name servers at or below its zone cut (RFC 9471 2: in-domain glue).
pub(super) fn in_domain_glue(response: &Response) -> Section {
    let Some(cut) = cut(response) else { return Section::new() };
    let targets = targets(&response.authority);
    let is_glue = |rr: &&Rr| {
        matches!(rr.rtype, Rtype::A | Rtype::AAAA) && targets.contains(&rr.owner) && is_at_or_below(&rr.owner, cut)
    };
    response.additional.iter().filter(is_glue).cloned().collect()
}

impl Pair<'_> {
    /// Bytes that a response may have.
    pub(super) fn bytes_max(&self) -> usize {
        match self.query.transport {
            crate::trace::Transport::Udp => self.query.bytes_max.min(UDP_BYTES_MAX),
            crate::trace::Transport::Tcp => self.query.bytes_max,
        }
    }

    /// Ours in full: what it answers over TCP where it is truncated.
    pub(super) fn full(&self) -> Option<&Response> {
        if self.ours.flags[flag::TC] { self.whole } else { Some(&self.ours) }
    }

    /// Whether both have the same flags, TC apart.
    pub(super) fn agrees_in_flags(&self) -> bool {
        let without_tc = |mut flags: [bool; 6]| {
            flags[flag::TC] = false;
            flags
        };
        without_tc(self.ours.flags) == without_tc(self.theirs.flags)
    }

    /// Whether every RR that ours has beyond the peer's answer is one that peers serve.
    pub(super) fn is_served(&self, full: &Response) -> bool {
        let extra = full.answer.difference(&self.theirs.answer).chain(&full.authority).chain(&full.additional);
        extra.into_iter().all(|rr| self.served.contains(rr)) && self.served.is_whole(&full.answer, self.query.dnssec_ok)
    }

    /// Whether both agree in everything but the additional section.
    pub(super) fn differs_in_additional_only(&self) -> bool {
        let (ours, theirs) = (&self.ours, &self.theirs);
        ours.rcode == theirs.rcode
            && ours.flags == theirs.flags
            && ours.answer == theirs.answer
            && ours.authority == theirs.authority
    }
}
