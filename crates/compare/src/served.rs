//! Collects the data that peers sent in a whole run, to confirm data that only ours sent in a single case.

use super::response::{Response, Rr, Section};
use std::collections::{BTreeMap, BTreeSet};
use wire::number::{Class, Rcode, Rtype};

/// RRs and RCODEs of the peers.
#[derive(Default)]
pub struct Served {
    rrs: BTreeSet<Rr>,
    /// By the question, in lower case.
    rcodes: BTreeMap<Vec<u8>, BTreeSet<Rcode>>,
}

impl Served {
    /// Adds a response of a peer.
    pub fn add(&mut self, response: &Response) {
        for rr in response.answer.iter().chain(&response.authority).chain(&response.additional) {
            if !self.rrs.contains(rr) {
                self.rrs.insert(rr.clone());
            }
        }
        if !response.question.is_empty() {
            self.rcodes.entry(response.question.clone()).or_default().insert(response.rcode);
        }
    }

    /// Whether a peer has sent this RR.
    #[must_use]
    pub fn contains(&self, rr: &Rr) -> bool {
        self.rrs.contains(rr)
    }

    /// Whether each RRset in an answer is complete, compared with what peers have sent. Signatures count if requested.
    #[must_use]
    pub fn is_whole(&self, answer: &Section, dnssec_ok: bool) -> bool {
        // NSD changes the case of some rdata. It is still the same RR.
        let is_same = |rr: &Rr, other: &Rr| {
            (&rr.owner, rr.rtype) == (&other.owner, other.rtype) && rr.rdata.eq_ignore_ascii_case(&other.rdata)
        };
        let has = |rr: &Rr| {
            let is_there = answer.contains(rr) || answer.iter().any(|own| is_same(own, rr));
            is_there || rr.rtype == Rtype::RRSIG && !dnssec_ok
        };
        let is_whole = |rr: &Rr| {
            let mut same = self.of_owner(&rr.owner).filter(|other| other.type_covered() == rr.type_covered());
            // For QTYPE RRSIG, the answer has only signatures.
            same.all(|other| has(other) || rr.rtype == Rtype::RRSIG && other.rtype != Rtype::RRSIG)
        };
        answer.iter().all(is_whole)
    }

    fn of_owner(&self, owner: &[u8]) -> impl Iterator<Item = &Rr> {
        let (rtype, class) = (Rtype(0), Class(0));
        let first = Rr { owner: owner.to_vec(), rtype, class, ttl: 0, rdata: Vec::new() };
        self.rrs.range(first..).take_while(move |rr| rr.owner == owner)
    }

    /// Whether a peer has answered this name and type with this RCODE.
    #[must_use]
    pub fn has_rcode(&self, qname: &[u8], qtype: Rtype, rcode: Rcode) -> bool {
        let question = [qname, &qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()].concat();
        self.rcodes.get(&question).is_some_and(|rcodes| rcodes.contains(&rcode))
    }
}
