//! `cargo xtask bench read`: how fast servers answer, ours and the others in turn (docs/history/read-path.md).
//!
//! ```text
//!   core 0: catlab load  --queries-->  core 1: echo | catamaran | knot | nsd | bind | powerdns | coredns, in turn
//! ```

mod answers;
#[path = "../support/catamaran_server.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod catamaran_server;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
mod guards;
#[path = "../support/load.rs"]
mod load;
mod load_time;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other bench wants")]
mod machine;
mod memory;
mod rivals;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod table;
mod zones;

#[path = "../support/echo.rs"]
mod echo;
#[path = "../support/sockets.rs"]
#[expect(dead_code, reason = "what only the other bench wants")]
mod sockets;

use conclusion::Beginning;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Row;

const HELP: &str = "\
cargo xtask bench read [--rounds N] [--seconds N] [--only udp,guards,weight] [--servers NAME,NAME..]
                       [--names N,N..] [--write DOCUMENT]

  --rounds N      turns of each server; the medians count (5)
  --seconds N     length of a turn (4)
  --only PARTS    not everything: udp (answers a second), guards (what rate limit and cookies cost), weight (memory
                  and time to load)
  --servers LIST  not all of echo, catamaran, knot, nsd, bind, powerdns, coredns
  --names LIST    how many names the zone has (100000,1000000)
  --write FILE    put the tables between the marks of this document
CATAMARAN_BIN is the server that is measured; otherwise the one beside this program.
Exit code 1: a budget is not met, or was not measured.
";

/// What the command line says.
pub(crate) struct Options {
    rounds: usize,
    seconds: u64,
    parts: Vec<String>,
    servers: Vec<String>,
    names: Vec<u32>,
    document: Option<PathBuf>,
    /// For what programs leave behind.
    folder: PathBuf,
    catlab: PathBuf,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
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
            match given.word.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--only" => options.parts = given.list(),
                "--servers" => options.servers = given.some_of(&rivals::NAMES)?,
                "--names" => {
                    options.names =
                        given.numbers()?.into_iter().map(|count| count.clamp(1, 100_000_000) as u32).collect();
                }
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.word)),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "role").is_some() {
        match words.next().as_deref() {
            Some("echo") => echo::echo(false),
            other => panic!("no such role: {other:?}"),
        }
        return ExitCode::SUCCESS;
    }
    command::run("read", Options::parse(words), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let mut rows: Vec<Row> = Vec::new();
    for part in &options.parts {
        rows.extend(match part.as_str() {
            "udp" => contest::udp(options)?,
            "guards" => guards::of_all(options)?,
            "weight" => memory::of_all(options)?,
            _ => return Err(format!("--only {part}: unknown\n{HELP}")),
        });
    }
    beginning.conclude("cargo xtask bench read", &rows, options.document.as_deref())
}
