//! DNS messages: bytes to data and back.
//!
//! *Parsing* turns bytes into data, *composing* turns data into bytes. This crate knows no I/O and no clock, panics
//! on no input and allocates nothing on the query path.
//!
//! ```text
//!   bytes --> parse::Request --> (zone answers) --> compose::Composer --> bytes
//! ```
#![forbid(unsafe_code)]

pub mod limits;

// Names and numbers: what everything else is made of.
pub mod name;
pub mod number;
mod words;

// Bytes to data: the header, the request and which answer it gets at once, its records.
pub mod parse;
// What rdata of each type consists of: checked, decompressed, lower-cased, compared.
pub mod rdata;

// Data to bytes: the response.
pub mod compose;
// A message built by hand.
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
