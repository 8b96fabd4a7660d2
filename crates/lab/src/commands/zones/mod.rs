//! `catlab zones`: zones for servers under test.

mod build;
mod fetch;
mod harvest;
mod marks;
mod merge;
mod print_report;
mod sign;
mod sign_rsa;
mod synth;

use clap::Subcommand;
use std::process::ExitCode;

/// The commands for zones.
#[derive(Subcommand)]
pub(crate) enum Zones {
    /// Rebuild zones from recorded traffic.
    #[command(after_help = build::EXAMPLES)]
    Build(Box<build::BuildArguments>),
    /// Send each question once to a resolver with a cold cache, and capture its upstream traffic.
    #[command(after_help = harvest::EXAMPLES)]
    Harvest(harvest::HarvestArguments),
    /// Merge several hierarchies into one.
    #[command(after_help = merge::EXAMPLES)]
    Merge(merge::MergeArguments),
    /// Sign all zones of a hierarchy with a new key.
    #[command(after_help = sign::EXAMPLES)]
    Sign(sign::SignArguments),
    /// Sign one zone with RSA keys of several sizes.
    #[command(after_help = sign_rsa::EXAMPLES)]
    SignRsa(sign_rsa::SignRsaArguments),
    /// Generate a synthetic hierarchy of any size.
    #[command(after_help = synth::EXAMPLES)]
    Synth(synth::SynthArguments),
}

/// Runs the command.
pub(crate) fn main(zones: &Zones, stops: &dyn Fn() -> u8) -> ExitCode {
    let (command, done) = match zones {
        Zones::Harvest(arguments) => ("harvest", harvest::harvest(arguments, stops)),
        Zones::Sign(arguments) => ("sign", sign::sign_folder(arguments)),
        Zones::SignRsa(arguments) => ("sign-rsa", sign_rsa::sign(arguments)),
        Zones::Synth(arguments) => ("synth", synth::write(arguments)),
        Zones::Build(arguments) => ("build", build::build(arguments)),
        Zones::Merge(arguments) => ("merge", merge::merge(arguments)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("catlab zones {command}: {error}");
            ExitCode::from(2)
        }
    }
}
