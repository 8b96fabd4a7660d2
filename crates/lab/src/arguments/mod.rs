//! Options that several commands share.

mod connections;
mod expectations;
mod freshness;
mod mutation;
mod parse;
mod queries;
mod replay;
mod target;

pub(crate) use expectations::REFERENCE;
pub(crate) use freshness::FreshnessArguments;
pub(crate) use mutation::{FileMutationArguments, parse_prefix};
pub(crate) use parse::{parse_duration, parse_name, parse_subnet, parse_types};
pub(crate) use queries::{QueryArguments, Types};
pub(crate) use replay::ReplayArguments;
pub(crate) use target::{Ownership, Target};
