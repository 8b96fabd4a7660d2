//! What is changed in a trace before it is written or sent: plans of [`trace::mutate`] out of files, and programs that
//! change it as text.

// Rules as TOML, and the words in them, which options of the command line take too.
mod rules;
mod values;
pub use rules::{parse_rules, read_rules};
pub use values::{TransportShares, parse_edns, parse_id, parse_on_off, parse_server, parse_transports, seconds_to_ns};

// Any program, between two pipes.
mod filter_command;
pub(crate) use filter_command::no_lines;
pub use filter_command::{FilterCommand, FilterError, FilterExit, Pipe};

// What it reads.
mod filter_input;
pub(crate) use filter_input::FilterInput;
pub use filter_input::FilterInputError;

// The same while it is read on, and what ends it early.
mod streaming_filter;
pub(crate) use streaming_filter::{KillHandle, StreamEnd, StreamingFilter};

// What such a program made of a trace, for a replay.
mod temp_trace;
pub use temp_trace::{TempTrace, TempTraceError};
