//! Options that several commands share.

mod asking;
mod connections;
mod expectations;
mod freshness;
mod mutation;
mod parse;
mod replayed;
mod target;

pub(crate) use asking::{Asking, Types};
pub(crate) use expectations::REFERENCE;
pub(crate) use freshness::FreshnessArguments;
pub(crate) use mutation::{WrittenArguments, parse_prefix};
pub(crate) use parse::{parse_duration, parse_name, parse_subnet, parse_types};
pub(crate) use replayed::Replayed;
pub(crate) use target::{Ownership, Target};
