//! Turns the outcome of a run into its results: verdict, summary and recording.
//!
//! The engine does not know how results are stored, and reports do not know the engine. This module connects them.

mod judge;
mod recording;
mod replay;
mod rows;
mod summary;

pub use judge::{busiest, judge};
pub use recording::{recording, recording_of};
pub use replay::describe_whole_trace;
pub use rows::write_error;
pub use summary::summary;
