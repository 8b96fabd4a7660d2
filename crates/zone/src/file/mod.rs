//! Zone files: from bytes to records (RFC 1035 5).
//!
//! ```text
//!   Source --> reader: one entry at a time --> scanner: directives, records --> load: all of them, or why not
//! ```
//! What a zone may hold is the matter of [`crate::check`]; here only the text is judged.

// Where bytes come from.
mod source;
pub use source::{Input, Opened, Slice, Source};

// What can be wrong, and where.
mod error;
pub use error::{FileError, FileErrors, FileLine, Reason, Warning, WarningKind};

// Entries, records, the whole file.
mod entry;
mod generate;
mod load;
mod reader;
mod scanner;
pub use load::{Loaded, from_records, load};
pub use scanner::{LoadOptions, Scanned, Scanner};

#[cfg(test)]
mod tests;
