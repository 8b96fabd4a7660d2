//! Proofs of nonexistence, from the NSEC or NSEC3 records of a signed zone.
//!
//! This module only selects the records that prove an outcome (RFC 4035 3.1.3, RFC 5155 7.2); it signs nothing. If the
//! zone lacks a required record, the proof lacks it too.

mod nsec;
mod nsec3;
mod proof;

use crate::limits::PROOFS_MAX;
use crate::set::{Denial, Zone};
use crate::vertex::Vertex;
use nsec3::Chain;
pub(crate) use proof::Proof;
use wire::name::NameRef;

/// The NSEC or NSEC3 RRsets of one answer, each once.
pub(crate) struct Proofs<'a> {
    /// Whether the zone has DNSKEY at its apex.
    has_key: bool,
    count: usize,
    proofs: [Option<Proof<'a>>; PROOFS_MAX],
}

impl<'a> Proofs<'a> {
    pub(crate) const fn new(zone: &Zone<'a>) -> Self {
        Self { has_key: zone.is_presigned(), count: 0, proofs: [None; PROOFS_MAX] }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Proof<'a>> {
        self.proofs[..self.count].iter().flatten()
    }

    /// Proves that there is no name between the closest encloser and `qname`, and that no wildcard applies (RFC 4035
    /// 3.1.3.2, RFC 5155 7.2.2).
    pub(crate) fn nxdomain(&mut self, zone: &Zone<'a>, qname: NameRef<'_>, encloser_labels: usize) {
        match zone.denial() {
            Denial::None => {}
            Denial::Nsec => {
                self.push(nsec::covering(zone, qname));
                self.push(nsec::covering_wildcard(zone, qname, encloser_labels));
            }
            Denial::Nsec3 => {
                let Some(chain) = Chain::new(zone) else { return };
                let provable_labels = self.closest_encloser(&chain, qname, encloser_labels);
                // If the closest encloser exists only because of unsigned delegations, the provable one is further up
                // and may have a wildcard. That wildcard does not apply to the name. Nothing covers it, so its own
                // NSEC3 is sent.
                let is_further_up = provable_labels < encloser_labels;
                let of_wildcard = is_further_up.then(|| chain.matching_wildcard(qname, provable_labels)).flatten();
                self.push(of_wildcard.or_else(|| chain.covering_wildcard(qname, provable_labels)));
            }
        }
    }

    /// Proves that an existing name lacks the type (RFC 4035 3.1.3.1, RFC 5155 7.2.3 and 7.2.4).
    pub(crate) fn nodata(&mut self, zone: &Zone<'a>, qname: NameRef<'_>, vertex: Option<&Vertex<'a>>) {
        match zone.denial() {
            Denial::None => {}
            // An empty non-terminal has no NSEC. The NSEC that spans it shows that it has a descendant.
            Denial::Nsec => self.push(vertex.and_then(nsec::of).or_else(|| nsec::covering(zone, qname))),
            Denial::Nsec3 => {
                let Some(chain) = Chain::new(zone) else { return };
                self.nsec3_of_existing(&chain, qname);
            }
        }
    }

    /// Proves that `qname` does not exist, and that the matching wildcard lacks the type (RFC 4035 3.1.3.4, RFC 5155
    /// 7.2.5).
    pub(crate) fn wildcard_nodata(
        &mut self,
        zone: &Zone<'a>,
        qname: NameRef<'_>,
        vertex: Option<&Vertex<'a>>,
        encloser_labels: usize,
    ) {
        match zone.denial() {
            Denial::None => {}
            Denial::Nsec => {
                self.push(nsec::covering(zone, qname));
                let of_wildcard = vertex.and_then(nsec::of);
                self.push(of_wildcard.or_else(|| nsec::covering_wildcard(zone, qname, encloser_labels)));
            }
            Denial::Nsec3 => {
                let Some(chain) = Chain::new(zone) else { return };
                let encloser_labels = self.closest_encloser(&chain, qname, encloser_labels);
                // In an opt-out zone, the wildcard too may exist only because of unsigned delegations.
                let of_wildcard = chain.matching_wildcard(qname, encloser_labels);
                self.push(of_wildcard.or_else(|| chain.covering_wildcard(qname, encloser_labels)));
            }
        }
    }

    /// Proves that `qname` does not exist, so that a wildcard may apply (RFC 4035 3.1.3.3, RFC 5155 7.2.6).
    pub(crate) fn wildcard_answer(&mut self, zone: &Zone<'a>, qname: NameRef<'_>, encloser_labels: usize) {
        match zone.denial() {
            Denial::None => {}
            Denial::Nsec => self.push(nsec::covering(zone, qname)),
            Denial::Nsec3 => {
                let Some(chain) = Chain::new(zone) else { return };
                self.push(chain.covering_next_closer(qname, encloser_labels));
            }
        }
    }

    /// Proves that a delegation is not signed (RFC 4035 3.1.4, RFC 5155 7.2.7).
    pub(crate) fn unsigned_delegation(&mut self, zone: &Zone<'a>, cut: &Vertex<'a>) {
        match zone.denial() {
            Denial::None => {}
            Denial::Nsec => self.push(nsec::of(cut)),
            Denial::Nsec3 => {
                let Some(chain) = Chain::new(zone) else { return };
                self.nsec3_of_existing(&chain, cut.owner());
            }
        }
    }

    /// The NSEC3 of an existing name. In an opt-out zone, a name that exists only because of unsigned delegations may
    /// lack it. Then the proof is the NSEC3 of the closest provable encloser, and the one that covers the next closer
    /// name (RFC 5155 7.2.4).
    fn nsec3_of_existing(&mut self, chain: &Chain<'_, 'a>, name: NameRef<'_>) {
        match chain.matching(name) {
            Some(proof) => self.push(Some(proof)),
            None => {
                self.closest_encloser(chain, name, name.label_count().saturating_sub(1));
            }
        }
    }

    /// The closest encloser proof (RFC 5155 7.2.1). Returns the number of labels of the provable encloser.
    fn closest_encloser(&mut self, chain: &Chain<'_, 'a>, qname: NameRef<'_>, encloser_labels: usize) -> usize {
        let Some((proof, labels)) = chain.closest_provable(qname, encloser_labels) else { return encloser_labels };
        self.push(Some(proof));
        self.push(chain.covering_next_closer(qname, labels));
        labels
    }

    /// Adds a proof that is not in the list yet. In a zone without a key, unsigned NSEC and NSEC3 are ordinary data and
    /// prove nothing (RFC 4035 2).
    fn push(&mut self, proof: Option<Proof<'a>>) {
        let Some(proof) = proof.filter(|proof| self.has_key || proof.rrset.is_signed()) else { return };
        let is_there = self.iter().any(|other| other.rrset.is_same(&proof.rrset));
        if !is_there && self.count < PROOFS_MAX {
            self.proofs[self.count] = Some(proof);
            self.count += 1;
        }
    }
}
