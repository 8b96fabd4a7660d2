//! `cargo xtask bench transports`: how fast servers answer over connections, ours and the others in turn, beside our
//! own UDP (docs/history/transports.md).
//!
//! ```text
//!   core 0: catlab load --transport T --connections C  --queries-->  core 1: catamaran | echo | knot | nsd | ...
//! ```

#[path = "../read/answers.rs"]
mod answers;
#[path = "../support/catamaran_server.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod catamaran_server;
#[path = "../support/command.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
mod echo;
#[path = "../support/load.rs"]
mod load;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod machine;
mod memory;
mod servers;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod table;
mod window;
#[path = "../read/zones.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod zones;

use conclusion::Beginning;
use lab::engine::Transport;
use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask bench transports [--rounds N] [--seconds N] [--transports tcp,dot,doh,doq] [--cells CxD,..]
                             [--servers NAME,..] [--names N] [--write DOCUMENT]

  --rounds N      turns of each server; the medians count (5)
  --seconds N     length of a turn, after its connections are open (4)
  --transports L  not all of tcp, dot, doh, doq
  --cells LIST    connections, and queries in flight on each (10x1,10x50,1000x1,1000x16,15000x1)
  --servers LIST  not all of catamaran, echo (over TCP: a bare loop), knot, nsd, bind, unbound
  --names N       how many names the zone has (100000)
  --write FILE    put the table between the marks of this document
CATAMARAN_BIN is the server that is measured; otherwise the one beside this program.
Exit code 1: a budget is not met, or was not measured.
";

/// How many connections, and how many queries wait on each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cell {
    connections: usize,
    depth: usize,
}

/// What the command line says.
pub(crate) struct Options {
    rounds: usize,
    seconds: u64,
    transports: Vec<Transport>,
    cells: Vec<Cell>,
    servers: Vec<String>,
    names: u32,
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
            transports: vec![Transport::Tcp, Transport::Dot, Transport::Doh, Transport::Doq],
            cells: cells("10x1,10x50,1000x1,1000x16,15000x1")?,
            servers: servers::NAMES.map(str::to_owned).into(),
            names: 100_000,
            document: None,
            folder: command::folder("transports"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.word.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--transports" => {
                    options.transports = given.value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--cells" => options.cells = cells(&given.value)?,
                "--servers" => options.servers = given.some_of(&servers::NAMES)?,
                "--names" => options.names = given.number()?.clamp(200, 10_000_000) as u32,
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.word)),
            }
        }
        if options.transports.contains(&Transport::Udp) {
            return Err("UDP is measured anyway: the others are held against it".into());
        }
        Ok(options)
    }
}

/// Reads `10x1,1000x16`.
fn cells(text: &str) -> Result<Vec<Cell>, String> {
    let cell = |word: &str| {
        let (connections, depth) = word.split_once('x')?;
        let cell = Cell { connections: connections.parse().ok()?, depth: depth.parse().ok()? };
        // All connections of a run are files of one process, and an ID each.
        ((1..=15_500).contains(&cell.connections) && (1..=1_000).contains(&cell.depth)).then_some(cell)
    };
    text.split(',').map(|word| cell(word).ok_or_else(|| format!("--cells {word}: write 1000x16"))).collect()
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "role").is_some() {
        match words.next().as_deref() {
            Some("echo") => echo::echo(),
            other => panic!("no such role: {other:?}"),
        }
        return ExitCode::SUCCESS;
    }
    command::run("transports", Options::parse(words), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let mut rows = contest::of_all(options)?;
    rows.extend(memory::of_all(options)?);
    beginning.conclude("cargo xtask bench transports", &rows, options.document.as_deref())
}
