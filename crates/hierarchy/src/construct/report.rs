//! What is told of zones that were rebuilt: what was made up, left out, and contradicts itself.

use super::Why;
use super::response::LeftOut;
use crate::limits::FINDINGS_LISTED_MAX;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// What became of the messages, and what is to be known of the zones.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Report {
    /// Messages that were looked at.
    pub messages: u64,
    /// Those that gave records or denials.
    pub used: u64,
    /// Of those, truncated ones (TC): what is in them counts only where nothing else says it.
    pub truncated: u64,
    /// The others, by why they gave nothing.
    pub left_out: BTreeMap<LeftOut, u64>,
    /// Records whose rdata does not fit their type.
    pub malformed_records: u64,
    /// Names and records for which there was no room within the bounds.
    pub over_bound: u64,
    /// Each zone.
    pub zones: Vec<ZoneReport>,
    /// What nobody sent and a zone needs.
    pub made: Findings<Made>,
    /// What was sent and no zone can hold.
    pub dropped: Findings<Dropped>,
    /// RRsets that were sent in two ways; the first in the best place is kept.
    pub conflicts: Findings<Conflict>,
}

/// One zone.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneReport {
    /// Its apex.
    pub name: String,
    /// Records in its file.
    pub records: usize,
    /// Addresses that serve it.
    pub servers: Vec<IpAddr>,
    /// Whether it has signatures.
    pub is_signed: bool,
    /// When all its signatures hold: from the latest inception to the earliest expiration, as RRSIG has them
    /// (`20161006040000`, UTC).
    pub signatures_hold: Option<[String; 2]>,
    /// Proofs that were never seen: NSEC records whose next name has none, of a zone that has some.
    pub missing_proofs: usize,
    /// Delegations to name servers below them that have no address here: a resolver cannot follow those.
    pub missing_glue: usize,
    /// Nothing names the zone; it was made for records that would have had none.
    pub is_made: bool,
}

/// Something made up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Made {
    /// Of which zone.
    pub zone: String,
    /// Owner and type.
    pub rrset: String,
    /// Why it is needed.
    pub why: Why,
}

/// Something left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Dropped {
    /// Of which zone.
    pub zone: String,
    /// Owner and type.
    pub rrset: String,
    /// Why it cannot stay.
    pub why: &'static str,
}

/// Two answers to one question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Conflict {
    /// Of which zone.
    pub zone: String,
    /// Owner and type.
    pub rrset: String,
    /// `records` or `ttl`, or `exists` for a name that was also said not to exist.
    pub what: &'static str,
    /// How many messages said other than what is kept.
    pub messages: u64,
    /// What is kept.
    pub kept: KeptAnswer,
    /// What was said besides, in the order in which it was.
    pub others: Vec<OtherAnswer>,
    /// Messages whose answers are not among `others`: those are at most [`crate::limits::OTHER_ANSWERS_MAX`].
    pub others_unlisted: u64,
}

/// The answer that a zone has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeptAnswer {
    /// Its TTL; `None` of a name that has several RRsets.
    pub ttl: Option<u32>,
    /// Rdata as zone files have it; of a name that was also said not to exist the types that it has.
    pub records: Vec<String>,
}

/// An answer that a zone does not have.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OtherAnswer {
    /// Its TTL; `None` of a denial.
    pub ttl: Option<u32>,
    /// Rdata as zone files have it; `NXDOMAIN` of a denial.
    pub records: Vec<String>,
    /// How many messages said so when something else was kept, or had what is kept in a better place.
    pub messages: u64,
}

/// The first ones, and how many there are.
#[derive(Clone, Debug, Serialize)]
pub struct Findings<F> {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub first: Vec<F>,
}

impl<F> Default for Findings<F> {
    fn default() -> Self {
        Self { count: 0, first: Vec::new() }
    }
}

impl<F> Findings<F> {
    pub(super) fn add(&mut self, finding: F) {
        self.count += 1;
        if self.first.len() < FINDINGS_LISTED_MAX {
            self.first.push(finding);
        }
    }
}

impl Report {
    /// How many messages gave nothing, but for queries.
    #[must_use]
    pub fn left_out_count(&self) -> u64 {
        self.left_out.iter().filter(|(why, _)| **why != LeftOut::Query).map(|(_, count)| count).sum()
    }
}
