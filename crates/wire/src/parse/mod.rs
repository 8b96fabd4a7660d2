//! Parses messages in place, without allocation.
//!
//! [`parse_request`] accepts a request, or decides on an error that needs neither zone nor key. [`Message`] reads any
//! message, including responses.

pub use crate::name_buf::NameBuf;

mod header;
pub use header::Header;

// Questions and records of any message.
mod message;
pub use message::{FirstQuestion, Message, ParseError, Question, RecordView, Records, Section};

// The pseudo-records: EDNS and TSIG, layout only.
pub mod edns;
pub use edns::{Cookie, EdnsIn, EdnsRequest};
pub mod tsig;

// Requests, and why a message is rejected.
mod reason;
mod request;
pub use reason::{DropReason, RejectReason};
pub use request::{Parsed, Reject, Request, parse_request};
