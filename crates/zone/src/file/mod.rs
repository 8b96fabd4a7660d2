//! Zone files: from bytes to records (RFC 1035 5).
//!
//! ```text
//!   Source --> reader: one entry at a time --> scanner: directives, records --> load: all of them, or why not
//! ```
//! This module checks the text only. [`crate::check`] checks the contents of a zone.

// Input.
mod source;
pub use source::{Input, Opened, Slice, Source};

// Errors and their positions.
mod error;
pub use error::{FileError, FileErrors, FileLine, Reason, Warning, WarningKind};

// Entries, records, whole files.
mod entry;
mod generate;
mod load;
mod reader;
mod scanner;
pub use load::{Loaded, from_records, load};
pub use scanner::{LoadOptions, ScannedRecord, Scanner};

#[cfg(test)]
mod tests;
