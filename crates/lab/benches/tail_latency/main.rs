//! `cargo xtask bench tail-latency`: whether clients notice that zones change (docs/history/calm.md).
//!
//! ```text
//!   tool core: catlab load at half of what the server can  --queries-->  server cores: catamaran, a cluster of one
//!   writer core: updates | zone add, zone remove | dig AXFR  ----------->
//! ```

#[path = "../support/catamaran_server.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod catamaran_server;
#[path = "../support/command.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod disturbance;
#[path = "../support/document.rs"]
mod document;
mod every_second;
#[path = "../support/load.rs"]
mod load;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod machine;
mod sides;
mod stops;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod table;

use conclusion::Beginning;
use disturbance::Kind;
use lab::engine::Transport;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask bench tail-latency [--rounds N] [--queries N] [--rate N] [--sides updates,load,transfer] [--names N]
                       [--changes N] [--names-each N] [--updates-over udp] [--server-cores N,..] [--tool-core N]
                       [--writer-core N] [--client-core N] [--keep FOLDER] [--write DOCUMENT]

  --rounds N        turns of each side, still and disturbed by turns (5)
  --queries N       queries of each side, over all of its turns (8000000); five million have to count
  --rate N          queries a second; half of what a closed loop reaches otherwise
  --sides LIST      not all of updates, load (zones come and go, checkpoints are written), transfer (AXFR)
  --names N         how many names the zone has, and each that comes and goes (1000000)
  --changes N       names that change while a side is disturbed by updates (100000)
  --names-each N    names in each of these updates (10)
  --updates-over T  what these updates come over (tcp); over udp the packet workers themselves check those that come
                    alone and are short: --names-each 1
  --server-cores L  those of the server; all but the others' otherwise
  --tool-core N     that of the generator (0)
  --writer-core N   that of the updates' sender; the last one where there are four or more, the generator's otherwise
  --client-core N   that of `zone add` and `dig`, which are idle threads there; the same where there are four or more, a
                    core of the server otherwise: the generator leaves nothing of its own
  --keep DIR        write every second of each side there, a row each with p50, p99, p99.9, p99.99 and the slowest:
                    updates-still.csv, updates-disturbed.csv, and so on; a relative path counts from the root of the
                    workspace
  --write FILE      put the table between the marks of this document
CATAMARAN_BIN is the server that is measured; otherwise the one beside this program.
Exit code 1: a budget is not met, or was not measured.
";

/// What the command line says.
pub(crate) struct Options {
    rounds: u64,
    queries: u64,
    rate: Option<f64>,
    sides: Vec<Kind>,
    names: u64,
    changes: u64,
    names_each: u64,
    updates_over: Transport,
    server_cores: Vec<usize>,
    tool_core: usize,
    writer_core: usize,
    client_core: usize,
    /// For every second of each side.
    keep: Option<PathBuf>,
    document: Option<PathBuf>,
    /// For what programs leave behind.
    folder: PathBuf,
    catlab: PathBuf,
}

impl Options {
    /// All that something of the bench runs on.
    fn cores(&self) -> Vec<usize> {
        let mut cores = self.server_cores.clone();
        cores.extend([self.tool_core, self.writer_core, self.client_core]);
        cores.sort_unstable();
        cores.dedup();
        cores
    }

    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut server_cores = None;
        let mut options = Self {
            rounds: 5,
            queries: 8_000_000,
            rate: None,
            sides: Kind::ALL.into(),
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
            match given.word.as_str() {
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
                _ => return Err(format!("unknown option {}\n{HELP}", given.word)),
            }
        }
        let others = [options.tool_core, options.writer_core];
        options.server_cores = server_cores.unwrap_or_else(|| (0..cores).filter(|one| !others.contains(one)).collect());
        if options.server_cores.is_empty() { Err("no core is left for the server".into()) } else { Ok(options) }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["role", stops::ROLE, file] = *words.iter().map(String::as_str).collect::<Vec<_>>() {
        return match stops::watch(file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{file}: {error}");
                ExitCode::from(2)
            }
        };
    }
    command::run("tail-latency", Options::parse(words.into_iter()), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let rows = sides::of_all(options)?;
    beginning.conclude("cargo xtask bench tail-latency", &rows, options.document.as_deref())
}
