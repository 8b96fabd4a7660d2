//! Records in presentation format: text to rdata and back.
//!
//! Both directions follow `wire::rdata::layout`, the same table as the parser, so all three support the same types.

// Entries, tokens, words.
pub mod token;
pub mod words;

// Errors in text, and their messages.
mod error;
mod fault;
mod fields;
pub use error::TextError;
pub(crate) use fault::excerpt;
pub use fault::{Fault, Part};

// Kinds of fields.
mod addresses;
mod bitmaps;
mod bytes;
mod location;
mod mnemonic;
mod names;
mod numbers;
mod parameters;
pub use mnemonic::{print_rtype, scan_rtype};
pub(crate) use names::is_undotted;
pub use names::{print_name, scan_name};
pub use numbers::{calendar_date, scan_period};

// Rdata and records.
mod print;
mod scan;
pub use print::{print_rdata, print_record};
pub use scan::{scan_rdata, scan_rdata_text};

#[cfg(test)]
mod tests;
