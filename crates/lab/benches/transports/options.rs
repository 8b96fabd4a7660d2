//! The options of `cargo xtask bench transports`.

use super::command;
use super::servers;
use measure::Transport;
use std::path::PathBuf;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench transports [--rounds N] [--seconds N] [--transports tcp,dot,doh,doq] [--cells CxD,..]
                             [--servers NAME,..] [--names N] [--write DOCUMENT]

  --rounds N      Turns of each server; the medians count (5)
  --seconds N     Length of a turn after its connections are open (4)
  --transports L  Measure only these: tcp, dot, doh, doq
  --cells LIST    Connections, and queries in flight on each (10x1,10x50,1000x1,1000x16,15000x1)
  --servers LIST  Measure only these: catamaran, echo (a bare loop over TCP), knot, nsd, bind, unbound
  --names N       Names in the zone (100000)
  --write FILE    Write the table between the marks of this document
CATAMARAN_BIN names the server to measure. The default is the one next to this program.
Exits with 1 if a budget is not met or was not measured.
";

/// Number of connections, and number of queries in flight on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    pub(crate) connections: usize,
    pub(crate) depth: usize,
}

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) transports: Vec<Transport>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) servers: Vec<String>,
    pub(crate) names: u32,
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
            transports: vec![Transport::Tcp, Transport::Dot, Transport::Doh, Transport::Doq],
            cells: cells("10x1,10x50,1000x1,1000x16,15000x1")?,
            servers: servers::NAMES.map(str::to_owned).into(),
            names: 100_000,
            document: None,
            folder: command::folder("transports"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.option.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--transports" => {
                    options.transports = given.value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--cells" => options.cells = cells(&given.value)?,
                "--servers" => options.servers = given.some_of(&servers::NAMES)?,
                "--names" => options.names = given.number()?.clamp(200, 10_000_000) as u32,
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
            }
        }
        if options.transports.contains(&Transport::Udp) {
            return Err("UDP is always measured: the other transports are compared with it".into());
        }
        Ok(options)
    }
}

/// Parses `10x1,1000x16`.
fn cells(text: &str) -> Result<Vec<Cell>, String> {
    let cell = |word: &str| {
        let (connections, depth) = word.split_once('x')?;
        let cell = Cell { connections: connections.parse().ok()?, depth: depth.parse().ok()? };
        // Each connection of a run is an open file of one process, and each query in flight needs an ID.
        ((1..=15_500).contains(&cell.connections) && (1..=1_000).contains(&cell.depth)).then_some(cell)
    };
    text.split(',').map(|word| cell(word).ok_or_else(|| format!("--cells {word}: write 1000x16"))).collect()
}
