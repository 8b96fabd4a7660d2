//! The options of `catlab hierarchy`.

use crate::arguments::ReadArguments;
use crate::out_folder::Force;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use testbed::Kind;
use testbed::resolver::Resolver;

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab zones synth --zones 1000 --out tree
  catlab hierarchy run tree -- dig @198.41.0.4 www.z35.t3 A
  catlab hierarchy run tree --resolver unbound -- dig @127.0.0.1 www.z35.t3 A
  catlab hierarchy run tree --resolver bind --ask tree/queries.txt --out run1
  catlab hierarchy run tree --resolver bind --ask tree/queries.txt --rounds 2 --out run2
  catlab hierarchy run zones --resolver unbound --compare upstream.pcap.xz
  catlab hierarchy run tree --backend nsd --resolver unbound -- dig @127.0.0.1 www.z35.t3 A
  catlab hierarchy profile unbound --minimisation off --out unbound

Runs the program in a network namespace. Its only route leads to another namespace that has all addresses of the
hierarchy. There one process answers for all servers of all zones over UDP and TCP, IPv4 and IPv6. It selects the zone
by the destination address. Nothing else is reachable. Addresses without a zone answer REFUSED and are listed in the
report.

Leftovers of a crashed run are removed when the next run starts, or with `catlab net clean`.
Needs root and iproute2.";

#[derive(Subcommand)]
pub(crate) enum HierarchyCommand {
    /// Run a program in a network where all servers of the hierarchy answer, optionally with a resolver.
    #[command(after_help = EXAMPLES)]
    Run(Box<RunArguments>),
    /// Write the configuration and root hints of a resolver for the emulated hierarchy.
    Profile(ProfileArguments),
}

#[derive(Args)]
pub(crate) struct RunArguments {
    /// Folder with hierarchy.json, from `catlab zones`.
    pub(super) folder: PathBuf,
    /// Start this resolver at 127.0.0.1 first. The program starts when the resolver listens.
    #[arg(long)]
    pub(super) resolver: Option<ResolverArgument>,
    #[command(flatten)]
    pub(super) settings: Settings,
    /// Ask the resolver each question of this file (`NAME TYPE` lines) in turn, and count its upstream queries.
    #[arg(long, value_name = "FILE", requires = "resolver")]
    pub(super) ask: Option<PathBuf>,
    /// Ask all questions this many times. From the second time on, answers may come from the cache of the resolver.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        requires = "ask",
        value_parser = clap::value_parser!(u16).range(1..)
    )]
    pub(super) rounds: u16,
    /// Ask the resolver each question that servers answered in this trace. Compare the RCODE and the answer section as
    /// sets without TTLs. Without a program, exit with 1 if an answer differs. May be given several times.
    #[arg(long, value_name = "TRACE", requires = "resolver", conflicts_with = "ask")]
    pub(super) compare: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) read: ReadArguments,
    /// Let servers of this kind answer instead of catlab. One server is started for each level of the hierarchy.
    #[arg(long, value_name = "SERVER")]
    pub(super) backend: Option<BackendArgument>,
    /// Number of threads that answer. Each has its own sockets.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(super) threads: usize,
    /// Write the report as JSON; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write report.json, upstream.txt (each query to a server) and the log of the resolver to this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) force: Force,
    /// Program and its arguments.
    #[arg(last = true, required_unless_present_any = ["ask", "compare"], value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

/// A server that can be under test.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BackendArgument {
    /// catamaran.
    Catamaran,
    /// NSD.
    Nsd,
    /// Knot DNS.
    Knot,
    /// BIND.
    Bind,
}

impl BackendArgument {
    pub(super) const fn kind(self) -> Kind {
        match self {
            Self::Catamaran => Kind::Catamaran,
            Self::Nsd => Kind::Nsd,
            Self::Knot => Kind::Knot,
            Self::Bind => Kind::Bind,
        }
    }
}

/// A supported resolver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ResolverArgument {
    /// Unbound.
    Unbound,
    /// BIND.
    Bind,
    /// PowerDNS Recursor.
    Pdns,
    /// Knot Resolver.
    Knot,
}

impl ResolverArgument {
    pub(super) const fn resolver(self) -> Resolver {
        match self {
            Self::Unbound => Resolver::Unbound,
            Self::Bind => Resolver::Bind,
            Self::Pdns => Resolver::Pdns,
            Self::Knot => Resolver::Knot,
        }
    }
}

#[derive(Args)]
pub(crate) struct ProfileArguments {
    /// Kind of resolver.
    pub(super) resolver: ResolverArgument,
    #[command(flatten)]
    pub(super) settings: Settings,
    /// Output folder.
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: PathBuf,
    #[command(flatten)]
    pub(super) force: Force,
}

/// Settings of a resolver.
#[derive(Args)]
pub(super) struct Settings {
    /// Validate with this trust anchor: a zone file with DS or DNSKEY records of the root. Without this option the
    /// resolver does not validate.
    #[arg(long, value_name = "FILE")]
    pub(super) anchor: Option<PathBuf>,
    /// Accept expired signatures, as in recorded zones (Unbound and BIND only).
    #[arg(long, requires = "anchor")]
    pub(super) expired: bool,
    /// QNAME minimisation (RFC 9156). The default is that of the resolver.
    #[arg(long, value_name = "on|off", value_parser = parse_switch)]
    pub(super) minimisation: Option<bool>,
    /// Query servers over IPv4 only.
    #[arg(long)]
    pub(super) ipv4_only: bool,
    /// Do not configure root hints: the resolver uses its own.
    #[arg(long)]
    pub(super) own_hints: bool,
}

fn parse_switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text}: write on or off")),
    }
}
