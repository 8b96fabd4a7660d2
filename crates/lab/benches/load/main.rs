//! `cargo xtask bench load`: how fast the load engine is, and how true to its plan (docs/history/load.md).
//!
//! ```text
//!   core 0: bare loop | catlab load | dnsperf, in turn  --queries-->  core 1: echo
//!   core 0: catlab load at a rate                       --queries-->  core 1: far end, which notes the kernel's stamps
//! ```

#[path = "../support/command.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
#[path = "../support/echo.rs"]
mod echo;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other bench wants")]
mod machine;
mod pacing;
mod roles;
#[path = "../support/sockets.rs"]
mod sockets;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod table;

use conclusion::Beginning;
use lab::workload::{self, Extras, Reading};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use table::Row;

/// Names in the query file, all of one length, so that every query is as long.
const NAME_COUNT: u32 = 10_000;

const HELP: &str = "\
cargo xtask bench load [--rounds N] [--seconds N] [--only udp,tcp,dot,pacing,busy]
                       [--catlab PROGRAM] [--write DOCUMENT]

  --rounds N     turns of each tool; the medians count (7)
  --seconds N    length of a turn (3)
  --only PARTS   not everything
  --catlab FILE  another build of catlab
  --write FILE   put the table between the marks of this document
Exit code 1: a budget is not met, or was not measured.
";

/// What the command line says.
pub(crate) struct Options {
    rounds: usize,
    seconds: u64,
    parts: Vec<String>,
    document: Option<PathBuf>,
    /// For what programs leave behind.
    folder: PathBuf,
    queries: PathBuf,
    catlab: PathBuf,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let folder = command::folder("load");
        let parts = ["udp", "tcp", "dot", "pacing", "busy"].map(str::to_owned).into();
        let queries = folder.join("queries");
        let catlab = env!("CARGO_BIN_EXE_catlab").into();
        let mut options = Self { rounds: 7, seconds: 3, parts, document: None, folder, queries, catlab };
        for given in command::options(words, HELP)? {
            match given.word.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--only" => options.parts = given.list(),
                "--catlab" => options.catlab = given.value.into(),
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
        role(&words.collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    command::run("load", Options::parse(words), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let names = (0..NAME_COUNT).map(|number| format!("q{number:06}.example. A\n")).collect::<String>();
    std::fs::write(&options.queries, names).map_err(|error| error.to_string())?;
    let beginning = Beginning::now();
    let mut rows: Vec<Row> = Vec::new();
    for part in &options.parts {
        rows.extend(match part.as_str() {
            "udp" => contest::udp(options)?,
            "tcp" | "dot" => contest::stream(options, part)?,
            "pacing" => pacing::alone(options)?,
            "busy" => pacing::among_busy(options)?,
            _ => return Err(format!("--only {part}: unknown\n{HELP}")),
        });
    }
    beginning.conclude("cargo xtask bench load", &rows, options.document.as_deref())
}

fn role(words: &[String]) {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["echo"] => echo::echo(true),
        ["far-end", notes, busy] => roles::far_end(Path::new(notes), *busy == "busy"),
        ["bare", server, queries, seconds] => {
            let strictly = Reading { is_strict: true, ..Reading::default() };
            let (messages, _) =
                workload::read(Path::new(queries), strictly, &Extras::default()).expect("the query file");
            let list: Vec<Vec<u8>> = (0..messages.len()).map(|index| messages.at(index).to_vec()).collect();
            let server: SocketAddr = server.parse().expect("an address");
            let duration = Duration::from_secs(seconds.parse().expect("a number of seconds"));
            roles::bare(server, &list, duration, contest::IN_FLIGHT, contest::SOCKETS);
        }
        other => panic!("no such role: {other:?}"),
    }
}
