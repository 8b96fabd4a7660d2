//! Zones rebuilt from traffic at a resolver's upstream side, or at a server.
//!
//! ```text
//!   messages --> Survey: where zones begin, and their servers --> Map
//!   messages --> Assembly (with the Map): every record into its zone --> Built: zones, servers, report
//! ```
//!
//! There are two passes, because a later message often shows the zone of a record. Nothing is fetched. Missing records
//! that a zone needs are made up and marked. If answers contradict each other, the first one from the best source is
//! kept, and the others are reported. [`crate::limits`] bounds the memory.

// The contents of a message.
mod response;
mod rrset;
pub use response::SkipReason;
// Where zones begin.
mod map;
mod probe;
mod survey;
pub use map::Map;
pub use survey::Survey;
// The records of the zones.
mod assembly;
mod contradiction;
mod draft;
pub use assembly::Assembly;
// The behavior of their servers.
mod behavior_votes;
// What a resolver can add.
mod fetch;
// Merging several builds.
mod merge;
pub use merge::Merge;
// Whether a resolver finds in the zones what the traffic said.
mod observed_answers;
pub use observed_answers::{Fidelity, ObservedAnswers, Question, ResolverMismatch, SeveralAnswers, Verdict};
// Completing zones so that servers load them.
mod finish;
mod repair;
// The report.
mod report;
pub use report::{Conflict, DroppedRrset, Findings, InventedRrset, KeptAnswer, OtherAnswer, Report, ZoneReport};

use crate::ServerBehavior;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::name::Name;
use zone::Record;

/// What to do with DNSSEC records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dnssec {
    /// Remove them.
    Off,
    /// Keep them as captured. They are valid at the time of the capture, and only as complete as the capture.
    Keep,
}

/// Rebuilt zones and their report.
pub struct Built {
    /// In canonical order of their names.
    pub zones: Vec<BuiltZone>,
    /// Servers that behave differently from ours, by address.
    pub behaviors: BTreeMap<IpAddr, ServerBehavior>,
    /// What was made up, left out or contradictory.
    pub report: Report,
    /// Every RRset that was sent with different contents. The report only has the first ones.
    pub conflicts: Vec<Conflict>,
}

/// A zone that servers load.
pub struct BuiltZone {
    /// Its apex, in lower case.
    pub apex: Name,
    /// Its records: the SOA first, then by owner in canonical order.
    pub records: Vec<BuiltRecord>,
    /// Every address that serves it.
    pub servers: Vec<IpAddr>,
}

/// Why a record is made up, in a few words.
pub type Reason = Cow<'static, str>;

/// One record.
pub struct BuiltRecord {
    /// The record.
    pub record: Record,
    /// Why the record is made up. `None` if it was sent.
    pub made: Option<Reason>,
}
