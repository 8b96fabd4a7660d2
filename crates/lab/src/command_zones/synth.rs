//! `catlab zones synth`: hierarchies that nobody has.

use crate::out_folder::{Force, HIERARCHY, OutFolder};
use clap::{Args, ValueEnum};
use hierarchy::synth::{Families, QUERIES, SynthPlan};
use std::error::Error;
use std::path::PathBuf;

/// Ends the examples of `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones synth --zones 1000 --out tree
  catlab zones synth --zones 100000 --depth 4 --servers 2 --seed 7 --out large
  catlab hierarchy run tree --resolver unbound --ask tree/queries.txt

A root with the names and addresses of the real one, top-level domains t1, t2, ..., zones z17.t2 below them, and so on.
Each has servers of its own, named in it, at addresses that no other zone has. Each zone but the root has www, mail,
alias (a CNAME), a wildcard below wild, MX and TXT. queries.txt has a question for each zone without a zone below it.
The same options make the same zones.";

#[derive(Args)]
pub(crate) struct SynthArguments {
    /// Zones, the root and top-level domains counted.
    #[arg(long, value_name = "COUNT")]
    zones: usize,
    /// Levels of zones, the root and top-level domains counted.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    depth: usize,
    /// Top-level domains [default: the square root of the zones].
    #[arg(long, value_name = "COUNT")]
    tlds: Option<usize>,
    /// Servers of each zone but the root.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    servers: usize,
    /// Servers of the root: so many letters, from A on.
    #[arg(long, value_name = "COUNT", default_value_t = 13)]
    root_servers: usize,
    /// Families of the addresses of servers.
    #[arg(long, default_value = "both")]
    families: FamiliesWord,
    /// Decides which zone is below which.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output folder. It is created. It may only hold a hierarchy if --force is given.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(Clone, Copy, ValueEnum)]
enum FamiliesWord {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// An address of each.
    Both,
}

/// Writes it.
pub(super) fn write(arguments: &SynthArguments) -> Result<bool, Box<dyn Error>> {
    let out = OutFolder::begin(&arguments.out, &HIERARCHY, arguments.force)?;
    let plan = SynthPlan {
        zone_count: arguments.zones,
        depth: arguments.depth,
        tld_count: arguments.tlds,
        server_count: arguments.servers,
        root_server_count: arguments.root_servers,
        families: match arguments.families {
            FamiliesWord::V4 => Families::V4,
            FamiliesWord::V6 => Families::V6,
            FamiliesWord::Both => Families::Both,
        },
        seed: arguments.seed,
    };
    let made = plan.write(out.path())?;
    out.commit()?;
    let (zones, tlds, addresses) = (made.zone_count, made.tld_count, made.address_count);
    println!("{zones} zones, {tlds} of them top-level domains, at {addresses} addresses");
    println!("{} questions in {}", made.query_count, arguments.out.join(QUERIES).display());
    Ok(true)
}
