//! `catlab hierarchy`: emulates all servers of a DNS hierarchy for a resolver.

mod ask;
mod compare;
mod options;
mod profile;
mod report;
mod resolver;
mod run;

pub(crate) use options::{EXAMPLES, HierarchyCommand};

use crate::out_folder::refuse_file;
use options::ProfileArguments;
use profile::Profile;
use std::error::Error;
use std::process::ExitCode;

/// Runs the command. The exit code of `run` is that of its program.
pub(crate) fn main(command: &HierarchyCommand, stops: &dyn Fn() -> u8) -> ExitCode {
    let done = match command {
        HierarchyCommand::Run(arguments) => run::run(arguments, stops),
        HierarchyCommand::Profile(arguments) => write_profile(arguments),
    };
    done.unwrap_or_else(|error| {
        eprintln!("catlab hierarchy: {error}");
        ExitCode::from(2)
    })
}

fn write_profile(arguments: &ProfileArguments) -> Result<ExitCode, Box<dyn Error>> {
    let profile = Profile::new(arguments.resolver, &arguments.settings, &arguments.out)?;
    refuse_file(&profile.config(), arguments.force)?;
    profile.write()?;
    println!("{}", profile.command().join(" "));
    Ok(ExitCode::SUCCESS)
}
