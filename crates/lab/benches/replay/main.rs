//! `cargo xtask bench replay`: how near to a trace its queries arrive, and how fast they can be sent
//! (docs/history/replay.md).
//!
//! ```text
//!   core 0: catlab replay                     --queries-->  core 1: far end, which notes the kernel's stamps, and for
//!                                                                   connections a server that notes what it reads
//!   core 0: bare loops | catlab replay --fast --queries-->  a socket that nobody reads
//! ```

#[path = "../support/command.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
// Pictures of what was measured.
#[path = "../support/document.rs"]
mod document;
#[path = "../support/echo.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod echo;
mod fast;
mod timing_plot;
// How far from its plan a trace arrived.
mod judged;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod machine;
#[path = "../load/roles.rs"]
#[expect(dead_code, reason = "its bare loop waits for answers")]
mod roles;
#[path = "../support/sockets.rs"]
mod sockets;
// A loop that sends from many addresses.
mod pktinfo;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod table;
mod timing;
mod traces;
// The far end of connections.
mod witness;

use conclusion::Beginning;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask bench replay [--repeats N] [--seconds N] [--skip N] [--only timing,fast]
                         [--traces NAMES] [--rounds N] [--catlab PROGRAM] [--write DOCUMENT] [--pictures FOLDER]

  --repeats N    runs of each trace; the medians count (5)
  --seconds N    how long the traces are (60)
  --skip N       so many seconds at the beginning are left out (20)
  --only PARTS   not everything
  --traces NAMES of timing only these: syn-0 to syn-4, 20us, b-root, tcp, dot, doh, doq
  --rounds N     turns of each tool as fast as it can (7)
  --catlab FILE  another build of catlab
  --write FILE   put the table between the marks of this document
  --pictures DIR draw distances, intervals, rates of seconds, and what goes as fast as can be; a relative path counts
                 from the root of the workspace
Exit code 1: a budget is not met, or was not measured.
";

/// What the command line says.
pub(crate) struct Options {
    repeats: usize,
    rounds: usize,
    seconds: u64,
    skip: u64,
    parts: Vec<String>,
    traces: Vec<String>,
    document: Option<PathBuf>,
    pictures: Option<PathBuf>,
    /// For what programs leave behind.
    folder: PathBuf,
    catlab: PathBuf,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            repeats: 5,
            rounds: 7,
            seconds: 60,
            skip: 20,
            parts: ["timing", "fast"].map(str::to_owned).into(),
            traces: traces::words().into_iter().map(str::to_owned).collect(),
            document: None,
            pictures: None,
            folder: command::folder("replay"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.word.as_str() {
                "--repeats" => options.repeats = given.number()?.max(1) as usize,
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--skip" => options.skip = given.number()?,
                "--only" => options.parts = given.some_of(&["timing", "fast"])?,
                "--traces" => options.traces = given.some_of(&traces::words())?,
                "--catlab" => options.catlab = given.value.into(),
                "--pictures" => options.pictures = Some(command::root().join(&given.value)),
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.word)),
            }
        }
        if options.skip >= options.seconds {
            return Err(format!("--skip {}: nothing is left of {} s", options.skip, options.seconds));
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
    command::run("replay", Options::parse(words), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let mut rows = Vec::new();
    for part in &options.parts {
        rows.extend(if part == "fast" { fast::rows(options)? } else { timing::rows(options)? });
    }
    beginning.conclude("cargo xtask bench replay", &rows, options.document.as_deref())
}

fn role(words: &[String]) {
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["far-end", notes] => roles::far_end(Path::new(notes), false),
        ["witness", notes] => witness::witness(Path::new(notes)),
        ["silent"] => fast::silent(),
        ["bare", server, seconds] => fast::bare(server, seconds),
        ["sourced", server, seconds] => fast::sourced(server, seconds, false),
        ["identified", server, seconds] => fast::sourced(server, seconds, true),
        other => panic!("no such role: {other:?}"),
    }
}
