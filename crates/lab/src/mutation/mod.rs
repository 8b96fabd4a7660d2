//! What is changed in a trace before it is written or sent: plans of [`trace::mutate`] out of files, and programs that
//! change it as text.

// Rules as TOML, and the words in them, which options of the command line take too.
mod rules;
mod words;
pub use rules::{parse_rules, read_rules};
pub use words::{TransportShares, parse_edns, parse_id, parse_on_off, parse_server, parse_transports, seconds_to_ns};

// Any program, between two pipes.
mod through;
pub(crate) use through::no_lines;
pub use through::{Ended, Pipe, Through, ThroughError};

// What it reads.
mod fed;
pub(crate) use fed::Fed;
pub use fed::FedError;

// The same while it is read on, and what ends it early.
mod live;
pub(crate) use live::{Leash, Live, LiveEnd};

// What such a program made of a trace, for a replay.
mod spool;
pub use spool::{Spool, SpoolError};
