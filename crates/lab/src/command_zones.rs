//! `catlab zones`: zones for servers under test.

mod build;
mod fetch;
mod harvest;
mod marks;
mod merge;
mod sign;
mod synth;
mod told;

use clap::Subcommand;
use std::process::ExitCode;

/// What can be done with zones.
#[derive(Subcommand)]
pub(crate) enum Zones {
    /// Rebuilds zones from recorded traffic: a zone file for each, and which address serves which zones.
    #[command(after_help = build::EXAMPLES)]
    Build(Box<build::BuildArguments>),
    /// Asks each question once of a cold resolver, and captures what that asks others.
    #[command(after_help = harvest::EXAMPLES)]
    Harvest(harvest::HarvestArguments),
    /// Makes one hierarchy of several that were built apart.
    #[command(after_help = merge::EXAMPLES)]
    Merge(merge::MergeArguments),
    /// Signs all zones of a folder anew, from the root down, under a key of one's own.
    #[command(after_help = sign::EXAMPLES)]
    Sign(sign::SignArguments),
    /// Makes a hierarchy up, as large as wanted.
    #[command(after_help = synth::EXAMPLES)]
    Synth(synth::SynthArguments),
}

/// Does it.
pub(crate) fn main(zones: &Zones, stops: &dyn Fn() -> u8) -> ExitCode {
    let (word, done) = match zones {
        Zones::Harvest(arguments) => ("harvest", harvest::harvest(arguments, stops)),
        Zones::Sign(arguments) => ("sign", sign::sign_folder(arguments)),
        Zones::Synth(arguments) => ("synth", synth::write(arguments)),
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
