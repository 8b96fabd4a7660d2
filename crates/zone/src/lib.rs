//! What a zone holds and answers.
#![forbid(unsafe_code)]

mod record;

pub use record::{Changeset, Record, ZoneId};
