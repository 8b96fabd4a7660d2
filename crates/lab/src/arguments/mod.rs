//! Options that several commands share.

mod client_classes;
mod connections;
mod expectations;
mod freshness;
mod mutation;
mod parse;
mod queries;
mod reading;
mod replay;
mod target;

pub(crate) use client_classes::ClientClassArguments;
pub(crate) use expectations::REFERENCE;
pub(crate) use freshness::FreshnessArguments;
pub(crate) use mutation::{FileMutationArguments, parse_prefix};
pub(crate) use parse::{Types, parse_name, parse_port, parse_subnet, parse_types};
pub(crate) use queries::QueryArguments;
pub(crate) use reading::{ReadArguments, open, open_all_sides, open_or_queries};
pub(crate) use replay::ReplayArguments;
pub(crate) use report::parse_duration;
pub(crate) use target::{Ownership, Target};
