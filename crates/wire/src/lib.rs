//! DNS messages: bytes to data and back.
//!
//! *Parsing* turns bytes into data, *composing* turns data into bytes. This crate has no I/O and no clock. It does not
//! panic on any input, and does not allocate on the query path.
//!
//! ```text
//!   bytes --> parse::Request --> (zone answers) --> compose::Composer --> bytes
//! ```
#![forbid(unsafe_code)]

pub mod limits;

// Names and numbers.
pub mod name;
pub mod number;
mod words;
// Reading names, which follows compression pointers, and integers.
mod integers;
mod name_buf;

// Parsing: headers, requests and early errors, records.
pub mod parse;
// Rdata: layouts, checks, decompression, canonical form, equality.
pub mod rdata;

// Composing responses.
pub mod compose;
// Building any message.
pub mod builder;

pub use builder::MessageBuilder;
pub use compose::{Composer, EdnsOut, Full, Mark, ZoneVersionOut};
pub use name::{Name, NameError, NameRef};
pub use number::{Class, Opcode, Rcode, Rtype, Serial};
pub use parse::{
    DropReason, EdnsIn, Header, Message, NameBuf, ParseError, Parsed, Question, RecordView, Records, Reject,
    RejectReason, Request, Section, parse_request,
};
pub use rdata::{
    Field, NameRule, RdataError, layout, rdata_canonical, rdata_check, rdata_eq, rdata_fields, rdata_lowercase,
    rdata_names,
};
