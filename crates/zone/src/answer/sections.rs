//! The authority section.

use super::chain::{ChainEnd, Responder};
use super::signed::Signed;
use crate::denial::Proofs;
use crate::lookup::{Outcome, Source};
use crate::set::{Denial, soa_minimum};
use crate::vertex::Vertex;
use wire::compose::Full;
use wire::number::{Class, Rtype};
use wire::parse::Section;

impl<'a> Responder<'_, '_, 'a> {
    /// Fills the authority section. All its records are required, so it is an error if one does not fit.
    pub(super) fn close(&mut self, end: &ChainEnd<'a>) -> Result<(), Full> {
        if let ChainEnd::Outcome(outcome) = end {
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

    /// Adds NS of the delegation, then DS, or the proof that there is no DS (RFC 4035 3.1.4).
    fn refer(&mut self, cut: &Vertex<'a>) -> Result<(), Full> {
        if let Some(ns) = cut.rrset(Rtype::NS) {
            let (owner, ttl) = (cut.owner(), ns.ttl);
            self.composer.push_rrset(Section::Authority, owner, Rtype::NS, Class::IN, ttl, ns.rdatas())?;
        }
        // RFC 4035 3.1 is about signed zones. In an unsigned zone, DS proves nothing and is only sent to queries for
        // DS.
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

    /// Adds the SOA, which limits the TTL of the negative answer, and the proofs.
    fn deny(&mut self, outcome: &Outcome<'a>) -> Result<(), Full> {
        // Without signatures and proofs, the SOA is the last record, and the prepared form can be used.
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
