//! What a run leaves behind: its summary, and how it came about.

// Can the figures be trusted, and who set the limit.
mod verdict;
// summary.json.
mod agents;
mod replay;
mod summary;
// manifest.json.
mod manifest;
// The terminal, in our words and in dnsperf's.
mod dnsperf_text;
mod text;
// What was recorded, second by second.
mod lines;
mod recording;
// The run folder, and what other programs left.
pub mod folder;
mod import;
mod run;
// Several as one.
mod merge;
// The page with the pictures.
mod page;
mod palette;
// Single pictures.
pub mod pictures;
// Whether one run is slower than another.
pub mod regression;

pub use crate::measure::{ConnectionRow, Distribution, Quantiles, Row};
pub use agents::AgentFigures;
pub use dnsperf_text::dnsperf_text;
pub use lines::{Client, Event, Sample, Sighting};
pub use manifest::Manifest;
pub use merge::{MergeError, merge, merge_agents};
pub use page::page;
pub use recording::{Account, Recording, Timeouts};
pub use replay::{ReplayFigures, ReplayOf, Shares};
pub use run::Run;
pub use summary::{ConnectionSummary, Summary, TransportSummary};
pub use text::{duration, outline};
pub use verdict::{Limit, LimitSide, Rules, Validity, busiest, judge};
