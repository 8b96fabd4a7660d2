//! The command line.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;

/// Run real nodes under faults, and check the histories of their clients
#[derive(Parser, Debug, Clone)]
#[command(
    name = "cargo xtask torture",
    after_help = "\
Examples:
  cargo xtask torture                                  every row once, in less than 6 minutes
  cargo xtask torture --list                           name the rows
  cargo xtask torture --rows kill,power --rounds 50    these rows 50 times each
  cargo xtask torture --nodes both --seconds 28800     all rows repeatedly for eight hours
  cargo xtask torture --rows cut --seed 7 --binary target/gate/catamaran
  cargo xtask torture --doctored                       show that the checks find wrong histories

Needs root, iproute2, util-linux, e2fsprogs and Go. The row `clock` needs faketime, and `two-builds` needs
CATAMARAN_PREVIOUS or --previous. Exit codes: 0 all runs passed, 1 a run failed, 2 wrong command line."
)]
pub(crate) struct Arguments {
    /// Rows to run, separated by commas. `kill` means all rows that begin with `kill-`
    #[arg(long, value_delimiter = ',')]
    pub(crate) rows: Vec<String>,
    /// Run each row this many times
    #[arg(long, default_value_t = 1)]
    pub(crate) rounds: u64,
    /// Start new rounds for this many seconds, instead of --rounds
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
    /// Size of the clusters. By default, each row has its own size
    #[arg(long, value_enum)]
    pub(crate) nodes: Option<Nodes>,
    /// Seed of the first run; each further run adds one
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The catamaran program to run
    #[arg(long)]
    pub(crate) binary: Option<PathBuf>,
    /// Plant the bug with this number; needs a program with the feature `planted`
    #[arg(long)]
    pub(crate) planted: Option<u32>,
    /// A catamaran program of the previous feature level (default: CATAMARAN_PREVIOUS)
    #[arg(long)]
    pub(crate) previous: Option<PathBuf>,
    /// Number of clients that send updates
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) clients: u32,
    /// Updates per second of all clients together
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// Milliseconds that a fault lasts, plus or minus half
    #[arg(long, default_value_t = 2000)]
    pub(crate) hold_ms: u64,
    /// Folder for the histories, logs and disks of failed runs
    #[arg(long, default_value = "target/torture")]
    pub(crate) keep: PathBuf,
    /// Write the results to this file, as JSON
    #[arg(long)]
    pub(crate) json: Option<PathBuf>,
    /// Folder for disk images, up to 224 MiB per node
    #[arg(long)]
    pub(crate) images: Option<PathBuf>,
    /// Stop after the first failed run
    #[arg(long)]
    pub(crate) fail_fast: bool,
    /// The built checker; by default it is built from xtask/torture-checker
    #[arg(long)]
    pub(crate) checker: Option<PathBuf>,
    /// Check only doctored histories, and run no cluster
    #[arg(long)]
    pub(crate) doctored: bool,
    /// Check a history that was kept, and run no cluster
    #[arg(long)]
    pub(crate) check: Option<PathBuf>,
    /// List the rows and exit
    #[arg(long)]
    pub(crate) list: bool,
}

/// Sizes of clusters.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nodes {
    /// Three nodes.
    #[value(name = "3")]
    Three,
    /// Five nodes.
    #[value(name = "5")]
    Five,
    /// Each row with three nodes, then with five.
    Both,
}
