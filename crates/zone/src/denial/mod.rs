//! Proofs that something does not exist, from the NSEC or NSEC3 records of a signed zone.
//!
//! Nothing is signed here: which records prove what is looked up, as RFC 4035 3.1.3 and RFC 5155 7.2 have it. Where a
//! zone lacks a record that it should have, the proof lacks it too.

mod nsec;
mod nsec3;

use crate::limits::PROOFS_MAX;
use crate::set::{Denial, Zone};
use crate::vertex::{RrsetRef, Vertex};
use nsec3::Chain;
use wire::name::NameRef;

/// The NSEC or NSEC3 RRsets that one answer needs, each once.
pub(crate) struct Proofs<'a> {
    /// Whether the zone has DNSKEY at its apex.
    has_key: bool,
    count: usize,
    proofs: [Option<Proof<'a>>; PROOFS_MAX],
}

/// One NSEC or NSEC3 RRset.
#[derive(Clone, Copy)]
pub(crate) struct Proof<'a> {
    pub(crate) owner: NameRef<'a>,
    pub(crate) rrset: RrsetRef<'a>,
}

impl<'a> Proofs<'a> {
    pub(crate) const fn new(zone: &Zone<'a>) -> Self {
        Self { has_key: zone.is_presigned(), count: 0, proofs: [None; PROOFS_MAX] }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Proof<'a>> {
        self.proofs[..self.count].iter().flatten()
    }

    /// That no name is between the closest encloser and `qname`, and no wildcard stands for it (RFC 4035 3.1.3.2,
    /// RFC 5155 7.2.2).
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
                // Where the closest encloser is there only for unsigned delegations, the provable one is further up and
                // may have a wildcard, which does not stand for the name: nothing covers that, its own NSEC3 is shown.
                let is_further_up = provable_labels < encloser_labels;
                let of_wildcard = is_further_up.then(|| chain.matching_wildcard(qname, provable_labels)).flatten();
                self.push(of_wildcard.or_else(|| chain.covering_wildcard(qname, provable_labels)));
            }
        }
    }

    /// That a name which exists does not have the type (RFC 4035 3.1.3.1, RFC 5155 7.2.3 and 7.2.4).
    pub(crate) fn nodata(&mut self, zone: &Zone<'a>, qname: NameRef<'_>, vertex: Option<&Vertex<'a>>) {
        match zone.denial() {
            Denial::None => {}
            // An empty non-terminal has no NSEC: that which spans it shows that it has a descendant.
            Denial::Nsec => self.push(vertex.and_then(nsec::of).or_else(|| nsec::covering(zone, qname))),
            Denial::Nsec3 => {
                let Some(chain) = Chain::new(zone) else { return };
                self.nsec3_of_existing(&chain, qname);
            }
        }
    }

    /// That `qname` does not exist, and the wildcard that stands for it does not have the type (RFC 4035 3.1.3.4,
    /// RFC 5155 7.2.5).
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
                // In an opt-out zone the wildcard too may be there only for unsigned delegations.
                let of_wildcard = chain.matching_wildcard(qname, encloser_labels);
                self.push(of_wildcard.or_else(|| chain.covering_wildcard(qname, encloser_labels)));
            }
        }
    }

    /// That `qname` does not exist, so that a wildcard may stand for it (RFC 4035 3.1.3.3, RFC 5155 7.2.6).
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

    /// That a delegation is not signed (RFC 4035 3.1.4, RFC 5155 7.2.7).
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

    /// The NSEC3 of a name that exists. One that is there only for unsigned delegations may have none in an opt-out
    /// zone: then that of the closest provable encloser, and that which covers the next closer name (RFC 5155 7.2.4).
    fn nsec3_of_existing(&mut self, chain: &Chain<'_, 'a>, name: NameRef<'_>) {
        match chain.matching(name) {
            Some(proof) => self.push(Some(proof)),
            None => {
                self.closest_encloser(chain, name, name.label_count().saturating_sub(1));
            }
        }
    }

    /// The closest encloser proof (RFC 5155 7.2.1); returns how many labels the encloser has that was provable.
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
