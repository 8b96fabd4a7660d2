//! What peers have said in a whole run, to whatever question: the witnesses for what ours alone says to one of them.

use super::Response;
use super::response::Rr;
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
    /// Takes in a response of a peer.
    pub fn learn(&mut self, response: &Response) {
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

    /// Whether a peer has answered with this RCODE when it was asked for that name and type.
    #[must_use]
    pub fn has_rcode(&self, qname: &[u8], qtype: Rtype, rcode: Rcode) -> bool {
        let question = [qname, &qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()].concat();
        self.rcodes.get(&question).is_some_and(|rcodes| rcodes.contains(&rcode))
    }
}
