//! The report about rebuilt zones: what was made up, left out or contradictory.

use super::Reason;
use super::response::SkipReason;
use crate::limits::FINDINGS_LISTED_MAX;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Counts of messages, and the findings.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Report {
    /// All messages.
    pub messages: u64,
    /// Messages with records or denials.
    pub used: u64,
    /// Of these, truncated ones (TC). Their contents count only if no other message has them.
    pub truncated: u64,
    /// The other messages, by reason.
    pub left_out: BTreeMap<SkipReason, u64>,
    /// Records whose rdata does not fit their type.
    pub malformed_records: u64,
    /// Names and records left out because of the limits.
    pub over_bound: u64,
    /// Each zone.
    pub zones: Vec<ZoneReport>,
    /// What was made up.
    pub made: Findings<InventedRrset>,
    /// What was left out because no zone can contain it.
    pub dropped: Findings<DroppedRrset>,
    /// RRsets that were sent with different contents. The first one from the best source is kept.
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
    /// The time in which all signatures are valid: from the latest inception to the earliest expiration, in the format
    /// of RRSIG (`20161006040000`, UTC).
    pub signatures_hold: Option<[String; 2]>,
    /// Missing proofs: NSEC records whose next name has no NSEC, if the zone has some.
    pub missing_proofs: usize,
    /// Delegations that cannot be followed, because their name servers are below them and have no address.
    pub missing_glue: usize,
    /// The zone is made up, for records that would otherwise have no zone.
    pub is_made: bool,
}

/// Something made up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct InventedRrset {
    /// The zone.
    pub zone: String,
    /// Owner and type.
    pub rrset: String,
    /// Why it is needed.
    pub why: Reason,
}

/// Something left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DroppedRrset {
    /// The zone.
    pub zone: String,
    /// Owner and type.
    pub rrset: String,
    /// The reason.
    pub why: &'static str,
}

/// Two different answers to one question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Conflict {
    /// The zone.
    pub zone: String,
    /// Owner and type.
    pub rrset: String,
    /// `records` or `ttl`, or `exists` for a name that was also denied.
    pub what: &'static str,
    /// Number of messages with another answer than the kept one.
    pub messages: u64,
    /// The kept answer.
    pub kept: KeptAnswer,
    /// The other answers, in order of arrival.
    pub others: Vec<OtherAnswer>,
    /// Messages whose answers are not in `others`, which lists at most [`crate::limits::OTHER_ANSWERS_MAX`].
    pub others_unlisted: u64,
}

/// The answer in the zone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct KeptAnswer {
    /// Its TTL. `None` for a name with several RRsets.
    pub ttl: Option<u32>,
    /// Rdata in presentation format. For a name that was also denied: the types that it has.
    pub records: Vec<String>,
}

/// Another answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct OtherAnswer {
    /// Its TTL. `None` for a denial.
    pub ttl: Option<u32>,
    /// Rdata in presentation format. `NXDOMAIN` for a denial.
    pub records: Vec<String>,
    /// Number of messages with this answer while another one was kept, or of a lower rank.
    pub messages: u64,
}

/// The first findings of a kind, and their number.
#[derive(Clone, Debug, Serialize)]
pub struct Findings<F> {
    /// Number of findings.
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
