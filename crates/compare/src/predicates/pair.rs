//! The input of predicates: the results of ours and of one peer.

use crate::query::Query;
use crate::recorded::Recorded;
use crate::response::{Reaction, Response, flag};
use crate::served::Served;
use testbed::Kind;
use trace::Transport;

/// UDP response size that every compared server allows, regardless of the client's limit.
const UDP_BYTES_MAX: usize = 1232;

/// Our response and one peer's response to a plain query. Predicates remove parts of the difference.
pub(super) struct Pair<'a> {
    pub(super) query: &'a Query,
    pub(super) peer: Kind,
    pub(super) ours: Response,
    pub(super) theirs: Response,
    pub(super) ours_bytes: usize,
    pub(super) whole: Option<&'a Response>,
    pub(super) whole_bytes: usize,
    pub(super) served: &'a Served,
}

/// The results of ours and one peer for any message.
pub(super) struct Exchange<'a> {
    pub(super) message: &'a Recorded,
    pub(super) query: Option<&'a Query>,
    pub(super) peer: Kind,
    pub(super) ours: &'a Reaction,
    pub(super) theirs: &'a Reaction,
}

impl Pair<'_> {
    /// Maximum size of the response.
    pub(super) fn bytes_max(&self) -> usize {
        match self.query.transport {
            Transport::Udp => self.query.bytes_max.min(UDP_BYTES_MAX),
            _ => self.query.bytes_max,
        }
    }

    /// Our full response: the one over TCP if ours is truncated.
    pub(super) fn full(&self) -> Option<&Response> {
        if self.ours.flags[flag::TC] { self.whole } else { Some(&self.ours) }
    }

    /// Whether both have the same flags, ignoring TC.
    pub(super) fn agrees_in_flags(&self) -> bool {
        let without_tc = |mut flags: [bool; 6]| {
            flags[flag::TC] = false;
            flags
        };
        without_tc(self.ours.flags) == without_tc(self.theirs.flags)
    }

    /// Whether peers serve every RR that ours has and the peer's answer lacks.
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
