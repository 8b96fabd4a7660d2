//! Changes of a trace before it is written or sent: plans of [`trace::mutate`] from files, and filter commands.

// Rules in TOML, and values that options also accept.
mod rules;
mod values;
pub use rules::{parse_rules, read_rules};
pub use values::{TransportShares, parse_edns, parse_id, parse_on_off, parse_server, parse_transports, seconds_to_ns};

// Filter commands.
mod filter_command;
pub(crate) use filter_command::no_lines;
pub use filter_command::{FilterCommand, FilterError, FilterExit, Pipe};

// Their input.
mod filter_input;
pub(crate) use filter_input::FilterInput;
pub use filter_input::FilterInputError;

// A filter command whose output is sent while it runs.
mod streaming_filter;
pub(crate) use streaming_filter::{KillHandle, StreamEnd, StreamingFilter};

// The stored output of a filter command, for a replay.
mod temp_trace;
pub use temp_trace::{TempTrace, TempTraceError};
