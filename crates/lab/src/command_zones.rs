//! `catlab zones`: zones for servers under test.

mod build;
mod fetch;
mod merge;
mod told;

use clap::Subcommand;
use std::process::ExitCode;

/// What can be done with zones.
#[derive(Subcommand)]
pub(crate) enum Zones {
    /// Rebuilds zones from recorded traffic: a zone file for each, and which address serves which zones.
    #[command(after_help = build::EXAMPLES)]
    Build(build::BuildArguments),
    /// Makes one hierarchy of several that were built apart.
    #[command(after_help = merge::EXAMPLES)]
    Merge(merge::MergeArguments),
}

/// Does it.
pub(crate) fn main(zones: &Zones) -> ExitCode {
    let (word, done) = match zones {
        Zones::Build(arguments) => ("build", build::build(arguments)),
        Zones::Merge(arguments) => ("merge", merge::merge(arguments)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("catlab zones {word}: {error}");
            ExitCode::from(2)
        }
    }
}
