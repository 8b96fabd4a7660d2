//! Bytes to data, in place: nothing here allocates.
//!
//! [`parse_request`] decides which answer a message gets as far as neither a zone nor a key is needed; [`Message`]
//! reads any message, responses too.

// A name on the stack, its compression pointers followed.
mod name_buf;
pub use name_buf::NameBuf;
pub(crate) use name_buf::{Steps, read_name};

mod header;
pub use header::Header;

// Sections: the question and the records of a message.
mod message;
pub use message::{FirstQuestion, Message, ParseError, Question, RecordView, Records, Section};

// The pseudo-records: EDNS and TSIG, layout only.
pub mod edns;
pub use edns::{Cookie, EdnsIn, EdnsRequest};
pub mod tsig;

// What a request is, or why it is none.
mod reason;
mod request;
pub use reason::{DropReason, RejectReason};
pub use request::{Parsed, Reject, Request, parse_request};

/// Two bytes at `at`, in network order.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&chunk| u16::from_be_bytes(chunk))
}

/// Four bytes at `at`, in network order.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&chunk| u32::from_be_bytes(chunk))
}
