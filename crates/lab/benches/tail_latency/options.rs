//! The options of `cargo xtask bench tail-latency`.

use super::command;
use measure::Transport;
use std::path::PathBuf;
use std::str::FromStr;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench tail-latency [--rounds N] [--queries N] [--rate N] [--sides updates,load,transfer] [--names N]
                       [--changes N] [--names-each N] [--updates-over udp] [--server-cores N,..] [--tool-core N]
                       [--writer-core N] [--client-core N] [--keep FOLDER] [--write DOCUMENT]

  --rounds N        Turns of each side, alternately undisturbed and disturbed (5)
  --queries N       Queries of each side over all turns (8000000). At least five million must count
  --rate N          Queries per second. The default is half of the rate that a closed loop reaches
  --sides LIST      Use only these disturbances: updates, load (zones are added and removed, checkpoints are written),
                    transfer (AXFR)
  --names N         Names in the zone, and in each added zone (1000000)
  --changes N       Names to change per turn with updates (100000)
  --names-each N    Names per update (10)
  --updates-over T  Transport of the updates (tcp). Over udp, the packet workers check short single updates themselves:
                    use --names-each 1
  --server-cores L  Cores of the server. The default is all cores except those of the generator and the update sender
  --tool-core N     Core of the generator (0)
  --writer-core N   Core of the update sender. The default is the last core if there are at least four, otherwise that
                    of the generator
  --client-core N   Core of `zone add` and `dig`, which run at idle priority. The default is the last core
  --keep DIR        Write each second of each side to updates-still.csv, updates-disturbed.csv and so on, with p50, p99,
                    p99.9, p99.99 and the maximum. A relative path starts at the root of the workspace
  --write FILE      Write the table between the marks of this document
CATAMARAN_BIN names the server to measure. The default is the one next to this program.
Exits with 1 if a budget is not met or was not measured.
";

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) rounds: u64,
    pub(crate) queries: u64,
    pub(crate) rate: Option<f64>,
    pub(crate) sides: Vec<Disturbance>,
    pub(crate) names: u64,
    pub(crate) changes: u64,
    pub(crate) names_each: u64,
    pub(crate) updates_over: Transport,
    pub(crate) server_cores: Vec<usize>,
    pub(crate) tool_core: usize,
    pub(crate) writer_core: usize,
    pub(crate) client_core: usize,
    /// Folder for the files of all seconds.
    pub(crate) keep: Option<PathBuf>,
    pub(crate) document: Option<PathBuf>,
    /// Temporary files of the programs.
    pub(crate) folder: PathBuf,
    pub(crate) catlab: PathBuf,
}

impl Options {
    /// All cores that the bench uses.
    pub(crate) fn cores(&self) -> Vec<usize> {
        let mut cores = self.server_cores.clone();
        cores.extend([self.tool_core, self.writer_core, self.client_core]);
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut server_cores = None;
        let mut options = Self {
            rounds: 5,
            queries: 8_000_000,
            rate: None,
            sides: Disturbance::ALL.into(),
            names: 1_000_000,
            changes: 100_000,
            names_each: 10,
            updates_over: Transport::Tcp,
            server_cores: Vec::new(),
            tool_core: 0,
            writer_core: if cores >= 4 { cores - 1 } else { 0 },
            client_core: cores - 1,
            keep: None,
            document: None,
            folder: command::folder("tail-latency"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.option.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1),
                "--queries" => options.queries = given.number()?.max(1),
                "--rate" => options.rate = Some(given.number()?.max(1) as f64),
                "--sides" => options.sides = given.value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--names" => options.names = given.number()?.clamp(1_000, 10_000_000),
                "--changes" => options.changes = given.number()?.max(1),
                "--names-each" => options.names_each = given.number()?.clamp(1, 50),
                "--updates-over" => options.updates_over = given.value.parse()?,
                "--server-cores" => {
                    server_cores = Some(given.numbers()?.into_iter().map(|core| core as usize).collect::<Vec<_>>());
                }
                "--tool-core" => options.tool_core = given.number()? as usize,
                "--writer-core" => options.writer_core = given.number()? as usize,
                "--client-core" => options.client_core = given.number()? as usize,
                "--keep" => options.keep = Some(command::root().join(&given.value)),
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
            }
        }
        let others = [options.tool_core, options.writer_core];
        options.server_cores = server_cores.unwrap_or_else(|| (0..cores).filter(|one| !others.contains(one)).collect());
        if options.server_cores.is_empty() { Err("no core is left for the server".into()) } else { Ok(options) }
    }
}

/// A kind of disturbance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disturbance {
    /// Each update changes some names of the zone.
    Updates,
    /// A zone of the same size is added and removed repeatedly. The resulting log causes checkpoints.
    Load,
    /// The whole zone is transferred repeatedly.
    Transfer,
}

impl Disturbance {
    pub(crate) const ALL: [Self; 3] = [Self::Updates, Self::Load, Self::Transfer];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Updates => "updates",
            Self::Load => "load",
            Self::Transfer => "transfer",
        }
    }
}

impl FromStr for Disturbance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = Self::ALL.into_iter().find(|kind| kind.label() == text);
        kind.ok_or_else(|| format!("--sides {text}: write updates, load or transfer"))
    }
}
