//! Recorded DNS traffic: reads what captures it, one message after the other, and writes it.
//!
//! ```text
//!   file --> unpack --> capture (link, IP, fragments, UDP, TCP streams) --+
//!                  +--> dnstap, C-DNS, text, binary, Zeek, and more ------+--> Message, one at a time --> writers
//!                                                                         +--> Tally: what could not be read, and why
//!   Message --> mutate (rules) or anonymize (key) --> Message
//! ```
//!
//! Nothing is dropped in silence: every frame, segment and line that gives no message is counted by its reason. Memory
//! is bounded by [`limits`], however long a trace is.
#![forbid(unsafe_code)]

pub mod limits;

// What is recorded.
mod message;
pub use message::{Message, Transport};
// What could not be read, by reason.
mod tally;
pub use tally::{Group, Tally, Unread};
mod error;
pub use error::TraceError;

// Files, as they lie there.
mod unpack;
// What they hold.
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
// Any of them.
mod reader;
pub use dnstap::DnstapSide;
pub use reader::{Format, Options, Reader, open};
mod writer;
pub use writer::Writer;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
// One line for each, for programs beside this one.
pub use reader::read_lines;
pub use text::write as write_line;
// What is in one.
mod summary;
pub use summary::Summary;

// What becomes of one.
pub mod anonymize;
mod extent;
pub mod mutate;
mod prefix;
pub use prefix::Prefix;
