//! `catlab hierarchy`: the servers of a DNS hierarchy, all of them, for a resolver that finds its way through it.

mod ask;
mod compare;
mod profile;
mod report;
mod resolver;
mod run;

use crate::command_trace::ReadArguments;
use crate::out_folder::{Force, refuse_file};
use clap::{Args, Subcommand, ValueEnum};
use lab::peers::Kind;
use profile::{Profile, Resolver};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab zones synth --zones 1000 --out tree
  catlab hierarchy run tree -- dig @198.41.0.4 www.z35.t3 A
  catlab hierarchy run tree --resolver unbound -- dig @127.0.0.1 www.z35.t3 A
  catlab hierarchy run tree --resolver bind --ask tree/queries.txt --out run1
  catlab hierarchy run zones --resolver unbound --compare upstream.pcap.xz
  catlab hierarchy run tree --backend nsd --resolver unbound -- dig @127.0.0.1 www.z35.t3 A
  catlab hierarchy profile unbound --minimisation off --out unbound

The program runs on a machine (a network namespace) whose only way leads to another one that has every address: there
one process answers for every server of every zone, over UDP and TCP, IPv4 and IPv6, and chooses the zone by the address
that was asked. Nothing else is reached. Addresses that no zone names refuse, and are listed.

Whatever a run, or a crash of one, has left behind is removed when the next one starts, or by `catlab net clean`.
It takes root and iproute2.";

#[derive(Subcommand)]
pub(crate) enum HierarchyCommand {
    /// Runs a program where every address of the hierarchy answers; with a resolver of its own, if wanted.
    #[command(after_help = EXAMPLES)]
    Run(Box<RunArguments>),
    /// Writes what a resolver needs to walk a hierarchy: configuration and root hints.
    Profile(ProfileArguments),
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// The hierarchy: a folder with hierarchy.json, of `catlab zones`.
    folder: PathBuf,
    /// A resolver that is started first and answers at 127.0.0.1; the program starts when it listens.
    #[arg(long)]
    resolver: Option<Resolver>,
    #[command(flatten)]
    settings: Settings,
    /// Asks the resolver each question of this file, one after the other (`name type` in each line), and counts what
    /// it asks upstream for it.
    #[arg(long, value_name = "FILE", requires = "resolver")]
    ask: Option<PathBuf>,
    /// Asks the resolver each question that servers answered in this trace, may be given several times, and compares:
    /// RCODE and answer section as sets, TTLs apart. Exit code 1 if one differs.
    #[arg(long, value_name = "TRACE", requires = "resolver", conflicts_with = "ask")]
    compare: Vec<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    /// Servers under test answer: as many of them are started as the hierarchy has levels, each with the zones of one,
    /// behind the addresses of all.
    #[arg(long, value_name = "SERVER")]
    backend: Option<BackendWord>,
    /// Threads that answer; each has sockets of its own.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    threads: usize,
    /// Writes the report as JSON, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes report.json, upstream.txt (each query to a server) and what the resolver said into a folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// The program and its arguments.
    #[arg(last = true, required_unless_present_any = ["ask", "compare"], value_name = "COMMAND")]
    command: Vec<String>,
}

/// A server that can be under test.
#[derive(Clone, Copy, ValueEnum)]
enum BackendWord {
    /// This project's.
    Catamaran,
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// BIND.
    Bind,
}

impl BackendWord {
    const fn kind(self) -> Kind {
        match self {
            Self::Catamaran => Kind::Catamaran,
            Self::Nsd => Kind::Nsd,
            Self::Knot => Kind::Knot,
            Self::Bind => Kind::Bind,
        }
    }
}

#[derive(Args)]
pub(crate) struct ProfileArguments {
    /// Which resolver.
    resolver: Resolver,
    #[command(flatten)]
    settings: Settings,
    /// Where it is written.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// How a resolver is set up.
#[derive(Args)]
struct Settings {
    /// Validates, with this trust anchor: DS or DNSKEY records of the root as a zone file has them. Without it nothing
    /// is validated.
    #[arg(long, value_name = "FILE")]
    anchor: Option<PathBuf>,
    /// Takes signatures whose time is over, as those of recorded zones are (Unbound and BIND).
    #[arg(long, requires = "anchor")]
    expired: bool,
    /// QNAME minimisation (RFC 9156); as the resolver has it without this.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    minimisation: Option<bool>,
    /// Asks servers over IPv4 only.
    #[arg(long)]
    ipv4_only: bool,
    /// Leaves out the root hints: the resolver has its own.
    #[arg(long)]
    own_hints: bool,
}

/// Does what was asked; the exit code of `run` is its program's.
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

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text}: there are on and off")),
    }
}
