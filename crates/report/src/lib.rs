//! The results of a run: stored in a folder, merged, compared with another run, and drawn.
//!
//! ```text
//!   recording, summary, manifest --> folder --> page, pictures, regression
//!   results of other programs --> import --^
//!   run folders of many hosts --> merge ---^
//! ```

#![forbid(unsafe_code)]

pub mod limits;

// Whether the results are valid, and which side was the limit.
pub mod reasons;
mod rules;
mod verdict;
// summary.json.
mod agents;
mod client_latency;
mod monitor_figures;
mod replay;
mod second_figures;
mod second_series;
mod summary;
// manifest.json.
mod manifest;
// Terminal output, in our format and in dnsperf's.
mod dnsperf_text;
mod duration;
mod text;
// Recorded data, second by second.
mod lines;
mod recording;
// The run folder, and results of other programs.
pub mod folder;
mod import;
mod read_run;
mod run;
// Merged runs.
mod merge;
// The HTML report.
mod page;
mod palette;
// Single charts.
pub mod pictures;
// Comparison of two runs.
pub mod regression;

use measure::{ConnectionRow, Distribution, Quantiles, Row};

pub use agents::AgentFigures;
pub use client_latency::{ClassLatency, ClientLatency, RttLatency};
pub use dnsperf_text::dnsperf_text;
pub use duration::{duration, parse_duration};
pub use lines::{Client, Event, Sample, Sighting};
pub use manifest::{Manifest, host_name, without_secret};
pub use merge::{MergeError, merge, merge_agents};
pub use monitor_figures::MonitorFigures;
pub use page::{PAGE_STYLE, escape, page};
pub use recording::{Recording, Timeouts, TransportRows};
pub use replay::{ReplayFigures, ReplaySettings, Shares};
pub use rules::Rules;
pub use run::Run;
pub use second_figures::SecondFigures;
pub use second_series::{is_second_series, second_series, second_series_names};
pub use summary::{ConnectionSummary, SCHEMA_VERSION, Summary, TransportSummary};
pub use text::outline;
pub use verdict::{Limit, LimitSide, Validity};
