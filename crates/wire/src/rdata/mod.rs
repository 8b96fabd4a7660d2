//! What rdata of each type consists of, in one table, and everything that follows from it: checking, decompression,
//! canonical form, equality, the names inside; scanning and printing text reads the same table elsewhere.

// The table.
mod layout;
pub use layout::{Field, NameRule, layout};

// Where a field ends, and whether its value is allowed.
mod check;
mod value;

// What is done with rdata by its fields.
mod canonical;
mod fields;
pub use canonical::{rdata_canonical, rdata_eq, rdata_lowercase};
pub use check::{RdataError, rdata_check};
pub use fields::{Fields, rdata_fields, rdata_names};
pub use value::digest_bytes;
