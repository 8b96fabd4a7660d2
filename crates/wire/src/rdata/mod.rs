//! The layout of each type's rdata in one table, and its uses: checks, decompression, canonical form, equality, and
//! names inside rdata. The scanner and the printer of text use the same table.

// The table.
mod layout;
pub use layout::{Field, NameRule, layout};

// Length and validity of each field.
mod check;
mod error;
mod value;

// Operations on rdata by field.
mod canonical;
mod fields;
pub use canonical::{rdata_canonical, rdata_eq, rdata_lowercase};
pub use check::rdata_check;
pub use error::RdataError;
pub use fields::{Fields, rdata_fields, rdata_names};
pub use value::digest_bytes;
