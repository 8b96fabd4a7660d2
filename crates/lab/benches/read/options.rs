//! The options of `cargo xtask bench read`.

use super::command;
use super::rivals;
use std::path::PathBuf;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench read [--rounds N] [--seconds N] [--only udp,guards,weight] [--servers NAME,NAME..]
                       [--names N,N..] [--write DOCUMENT]

  --rounds N      Turns of each server; the medians count (5)
  --seconds N     Length of a turn (4)
  --only PARTS    Run only these parts: udp (answers per second), guards (cost of rate limiting and cookies), weight
                  (memory and loading time)
  --servers LIST  Measure only these: echo, catamaran, knot, nsd, bind, powerdns, coredns
  --names LIST    Numbers of names in the zone (100000,1000000)
  --write FILE    Write the tables between the marks of this document
CATAMARAN_BIN names the server to measure. The default is the one next to this program.
Exits with 1 if a budget is not met or was not measured.
";

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) parts: Vec<String>,
    pub(crate) servers: Vec<String>,
    pub(crate) names: Vec<u32>,
    pub(crate) document: Option<PathBuf>,
    /// Temporary files of the programs.
    pub(crate) folder: PathBuf,
    pub(crate) catlab: PathBuf,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 5,
            seconds: 4,
            parts: ["udp", "guards", "weight"].map(str::to_owned).into(),
            servers: rivals::NAMES.map(str::to_owned).into(),
            names: vec![100_000, 1_000_000],
            document: None,
            folder: command::folder("read"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.option.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--only" => options.parts = given.list(),
                "--servers" => options.servers = given.some_of(&rivals::NAMES)?,
                "--names" => {
                    options.names =
                        given.numbers()?.into_iter().map(|count| count.clamp(1, 100_000_000) as u32).collect();
                }
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
            }
        }
        Ok(options)
    }
}
