//! Recorded DNS traffic: reads and writes traces, message by message.
//!
//! ```text
//!   file --> unpack --> capture (link, IP, fragments, UDP, TCP streams) --+
//!                  +--> dnstap, C-DNS, text, binary, Zeek, and more ------+--> Message, one at a time --> writers
//!                                                                         +--> Tally: what could not be read, and why
//!   Message --> mutate (rules) or anonymize (key) --> Message
//! ```
//!
//! Nothing is dropped silently: every frame, segment and line without a message is counted under one reason. [`limits`]
//! bounds the memory for traces of any length.
#![forbid(unsafe_code)]

pub mod limits;

// Messages.
mod message;
pub use message::{Message, Transport};
// Counts of unread data.
mod tally;
pub use tally::{Group, Tally, UnreadReason};
mod error;
pub use error::TraceError;

// Files and compression.
mod unpack;
// Formats.
mod binary;
mod capture;
mod cdns;
mod dnsperf;
mod dnstap;
mod dnsviz;
mod fsdb;
mod lines;
mod message_queue;
mod mnemonics;
mod rpl;
mod text;
pub use mnemonics::{class, opcode, rcode, rtype};
mod zeek;
// The reader of all formats.
mod reader;
pub use dnstap::DnstapSide;
pub use reader::{Format, Options, Reader, detect, open};
mod writer;
pub use writer::Writer;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
// Lines of text, for other programs.
pub use reader::read_lines;
pub use text::write as write_line;
// Summary of a trace.
mod intervals;
mod summary;
pub use intervals::Intervals;
pub use summary::Summary;

// Changes to a trace.
pub mod anonymize;
mod extent;
pub mod mutate;
mod prefix;
pub use prefix::Prefix;
