//! What a run leaves behind: its summary, and how it came about.

// Can the figures be trusted, and who set the limit.
mod verdict;
// summary.json.
mod summary;
// manifest.json.
mod manifest;
// The terminal.
mod text;

pub use manifest::Manifest;
pub use summary::{ConnectionSummary, Quantiles, Summary, TransportSummary};
pub use text::{duration, outline};
pub use verdict::{Limit, LimitSide, Rules, Validity, judge};
