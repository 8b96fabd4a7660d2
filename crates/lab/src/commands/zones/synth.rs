//! `catlab zones synth`: generates synthetic hierarchies.

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

The root has the names and addresses of the real root servers. Below it are top-level domains t1, t2 and so on, and
zones such as z17.t2 below them. Each zone has its own servers, named in the zone, at addresses of their own. Each zone
except the root has www, mail, alias (a CNAME), a wildcard below wild, MX and TXT. queries.txt has one question for each
zone without child zones. The same options give the same zones.";

#[derive(Args)]
pub(crate) struct SynthArguments {
    /// Number of zones, including the root and top-level domains.
    #[arg(long, value_name = "COUNT")]
    zones: usize,
    /// Levels of zones, including the root and top-level domains.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    depth: usize,
    /// Number of top-level domains [default: the square root of --zones].
    #[arg(long, value_name = "COUNT")]
    tlds: Option<usize>,
    /// Servers of each zone, except the root.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    servers: usize,
    /// Servers of the root.
    #[arg(long, value_name = "COUNT", default_value_t = 13)]
    root_servers: usize,
    /// Address families of the servers.
    #[arg(long, default_value = "both")]
    families: FamiliesArgument,
    /// Seed of the tree.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output folder. It is created. It may only hold a hierarchy if --force is given.
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

#[derive(Clone, Copy, ValueEnum)]
enum FamiliesArgument {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4 and IPv6.
    Both,
}

/// Writes the hierarchy.
pub(super) fn write(arguments: &SynthArguments) -> Result<bool, Box<dyn Error>> {
    let out = OutFolder::begin(&arguments.out, &HIERARCHY, arguments.force)?;
    let plan = SynthPlan {
        zone_count: arguments.zones,
        depth: arguments.depth,
        tld_count: arguments.tlds,
        server_count: arguments.servers,
        root_server_count: arguments.root_servers,
        families: match arguments.families {
            FamiliesArgument::V4 => Families::V4,
            FamiliesArgument::V6 => Families::V6,
            FamiliesArgument::Both => Families::Both,
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
