//! Zones rebuilt from traffic at a resolver's upstream side, or at a server.
//!
//! ```text
//!   messages --> Survey: where zones begin, who serves them --> Map
//!   messages --> Assembly (with the Map): every record into its zone --> Built: zones, servers, report
//! ```
//!
//! The messages are looked at twice: which zone a record belongs to is often said by a later message. Nothing is
//! fetched. What a zone needs and nobody sent is made and marked; where answers contradict each other the first in the
//! best place is kept, and the others are told. Memory is bounded by [`crate::limits`], whatever the messages hold.

// What a message says.
mod response;
mod rrset;
pub use response::LeftOut;
// Where zones begin.
mod map;
mod probe;
mod survey;
pub use map::Map;
pub use survey::Survey;
// What they hold.
mod assembly;
mod contradiction;
mod draft;
pub use assembly::Assembly;
// How their servers answer.
mod behavior_votes;
// What a resolver may add.
mod fetch;
// Those of several builds.
mod merge;
pub use merge::Merge;
// Whether a resolver finds in them what the traffic said.
mod observed_answers;
pub use observed_answers::{Fidelity, ObservedAnswers, Other, Question, Several, Verdict};
// That it becomes a zone that servers load.
mod finish;
mod repair;
// What is to be known of it.
mod report;
pub use report::{Conflict, Dropped, Findings, KeptAnswer, Made, OtherAnswer, Report, ZoneReport};

use crate::ServerBehavior;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::name::Name;
use zone::Record;

/// What becomes of signatures, and of what belongs to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dnssec {
    /// Zones have none of it.
    Off,
    /// They stay as they were captured: valid at the time of the capture, and only as whole as what was captured.
    Keep,
}

/// Zones, and what is to be known of them.
pub struct Built {
    /// In canonical order of their names.
    pub zones: Vec<BuiltZone>,
    /// Servers that answer differently from ours, by address.
    pub behaviors: BTreeMap<IpAddr, ServerBehavior>,
    /// What was made, left out, and contradicts itself.
    pub report: Report,
    /// Every RRset that was sent in two ways, of which the report has the first.
    pub conflicts: Vec<Conflict>,
}

/// One zone that servers load.
pub struct BuiltZone {
    /// Its apex, in lower case.
    pub apex: Name,
    /// Its records: the SOA first, then by owner in canonical order.
    pub records: Vec<BuiltRecord>,
    /// Every address that serves it.
    pub servers: Vec<IpAddr>,
}

/// Why something is there that nobody sent, in a few words; out of the file of a zone that was built before, or ours.
pub type Why = Cow<'static, str>;

/// One record.
pub struct BuiltRecord {
    /// The record.
    pub record: Record,
    /// Why it is there although nobody sent it; `None` of what was sent.
    pub made: Option<Why>,
}
