//! The authority section, and how RRsets go in with their signatures.

use super::chain::{End, Responder};
use crate::denial::Proofs;
use crate::lookup::{Outcome, Source};
use crate::set::{Denial, soa_minimum};
use crate::vertex::{RrsetRef, Vertex};
use wire::compose::{Composer, Full};
use wire::name::NameRef;
use wire::number::{Class, Rtype};
use wire::parse::Section;

/// An RRset to be put in.
pub(super) struct Signed<'s, 'a> {
    pub(super) owner: NameRef<'s>,
    pub(super) rrset: &'s RrsetRef<'a>,
    /// The TTL is no higher than this.
    pub(super) ttl_max: u32,
    /// Whether its RRSIGs belong to it.
    pub(super) dnssec_ok: bool,
}

impl Signed<'_, '_> {
    /// Puts the RRset in, and its RRSIGs when they are wanted: all of it or nothing (RFC 4035 3.1.1).
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

impl<'a> Responder<'_, '_, 'a> {
    /// Fills the authority section. What it takes is needed, so what does not fit is an error.
    pub(super) fn close(&mut self, end: &End<'a>) -> Result<(), Full> {
        if let End::Outcome(outcome) = end {
            match outcome {
                Outcome::Referral { cut } => self.refer(cut)?,
                Outcome::NoData { .. } | Outcome::NxDomain { .. } => self.deny(outcome)?,
                Outcome::Positive { .. } | Outcome::Alias { .. } | Outcome::Redirect { .. } => {}
            }
        }
        let Some(proofs) = &self.proofs else { return Ok(()) };
        for proof in proofs.iter() {
            let signed = Signed { owner: proof.owner, rrset: &proof.rrset, ttl_max: u32::MAX, dnssec_ok: true };
            signed.push(self.composer, Section::Authority)?;
        }
        Ok(())
    }

    /// NS of the delegation, then DS, or in its place the proof that there is none (RFC 4035 3.1.4).
    fn refer(&mut self, cut: &Vertex<'a>) -> Result<(), Full> {
        if let Some(ns) = cut.rrset(Rtype::NS) {
            let (owner, ttl) = (cut.owner(), ns.ttl);
            self.composer.push_rrset(Section::Authority, owner, Rtype::NS, Class::IN, ttl, ns.rdatas())?;
        }
        // RFC 4035 3.1 is about signed zones: from another, DS proves nothing and is there only for who asks for it.
        if !self.dnssec_ok || self.zone.denial() == Denial::None {
            return Ok(());
        }
        match cut.rrset(Rtype::DS) {
            Some(ds) if ds.is_signed() || self.zone.is_presigned() => {
                let signed = Signed { owner: cut.owner(), rrset: &ds, ttl_max: u32::MAX, dnssec_ok: true };
                signed.push(self.composer, Section::Authority)
            }
            _ => {
                self.proofs.get_or_insert_with(|| Proofs::new(&self.zone)).unsigned_delegation(&self.zone, cut);
                Ok(())
            }
        }
    }

    /// SOA, which says how long the denial holds, and what proves it.
    fn deny(&mut self, outcome: &Outcome<'a>) -> Result<(), Full> {
        // With neither signatures nor proofs behind it, the SOA ends the response, and is there ready.
        let is_last = !self.dnssec_ok || self.zone.denial() == Denial::None;
        if is_last && self.composer.push_soa_form(self.zone.apex(), self.zone.soa_form())? {
            return Ok(());
        }
        if let Some(soa) = self.zone.soa() {
            // RFC 2308 3: the lesser of the SOA's TTL and its MINIMUM.
            let ttl_max = soa.first().and_then(soa_minimum).unwrap_or(u32::MAX);
            let signed = Signed { owner: self.zone.apex(), rrset: &soa, ttl_max, dnssec_ok: self.dnssec_ok };
            signed.push(self.composer, Section::Authority)?;
        }
        if !self.dnssec_ok {
            return Ok(());
        }
        let mut proofs = self.proofs.take().unwrap_or_else(|| Proofs::new(&self.zone));
        let (zone, qname) = (&self.zone, self.qname());
        match outcome {
            Outcome::NxDomain { encloser_labels } => proofs.nxdomain(zone, qname, *encloser_labels),
            Outcome::NoData { vertex, source: Source::Exact } => proofs.nodata(zone, qname, vertex.as_ref()),
            Outcome::NoData { vertex, source: Source::Wildcard { encloser_labels } } => {
                proofs.wildcard_nodata(zone, qname, vertex.as_ref(), *encloser_labels);
            }
            _ => {}
        }
        self.proofs = Some(proofs);
        Ok(())
    }
}
