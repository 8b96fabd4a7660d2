//! `cargo xtask bench write`: how fast servers take signed updates, ours and the others in turn
//! (docs/experiments/write-path.md).
//!
//! ```text
//!   catlab load  --signed updates, each of a new name-->  catamaran with 1, 3, 5 nodes | bind | knot | powerdns
//!   dig AXFR of every node: each update that was acknowledged is there
//! ```

#[path = "../support/command.rs"]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
#[path = "../support/load.rs"]
mod load;
mod lost;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod machine;
#[path = "../support/own.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod own;
mod rivals;
mod sides;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod table;

use conclusion::Beginning;
use sides::Side;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Row;

const HELP: &str = "\
cargo xtask bench write [--rounds N] [--seconds N] [--in-flight N] [--rates N,N..] [--samples N] [--names N]
                        [--only closed,open] [--servers NAME,NAME..] [--write DOCUMENT]

  --rounds N      turns of each server, in one order and then in the other (4)
  --seconds N     length of a turn of the closed loop (10)
  --in-flight N   updates that wait at one time in the closed loop (512)
  --rates LIST    updates a second of the open loop, each a contest of its own (16,32,64,128)
  --samples N     updates of each server at 128 a second and above, over all of its turns; a tenth of it below (20000)
  --names N       names that the zone has before (10000)
  --only PARTS    not both of closed (updates a second) and open (how long each takes)
  --servers LIST  not all of catamaran-1, catamaran-3, catamaran-5, bind, knot, powerdns
  --write FILE    put the table between the marks of this document
CATAMARAN_BIN is the server that is measured; otherwise the one beside this program.
Exit code 1: a budget is missed, or an acknowledged update is not on every node.
";

/// What the command line says.
pub(crate) struct Options {
    rounds: u64,
    seconds: u64,
    in_flight: u64,
    rates: Vec<u64>,
    samples: u64,
    names: u64,
    parts: Vec<String>,
    sides: Vec<Side>,
    document: Option<PathBuf>,
    /// For what programs leave behind.
    folder: PathBuf,
    catlab: PathBuf,
}

impl Options {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            rounds: 4,
            seconds: 10,
            in_flight: 512,
            rates: vec![16, 32, 64, 128],
            samples: 20_000,
            names: 10_000,
            parts: ["closed", "open"].map(str::to_owned).into(),
            sides: Side::ALL.into(),
            document: None,
            folder: command::folder("write"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.word.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1),
                "--seconds" => options.seconds = given.number()?.max(2),
                "--in-flight" => options.in_flight = given.number()?.max(1),
                "--rates" => options.rates = given.numbers()?,
                "--samples" => options.samples = given.number()?.max(10),
                "--names" => options.names = given.number()?,
                "--only" => options.parts = given.some_of(&["closed", "open"])?,
                "--servers" => {
                    let names = Side::ALL.map(Side::name);
                    let names = given.some_of(&names)?;
                    options.sides =
                        Side::ALL.into_iter().filter(|side| names.iter().any(|name| name == side.name())).collect();
                }
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.word)),
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    command::run("write", Options::parse(std::env::args().skip(1)), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let mut rows: Vec<Row> = Vec::new();
    if options.parts.iter().any(|part| part == "closed") {
        rows.extend(contest::closed(options)?);
    }
    if options.parts.iter().any(|part| part == "open") {
        for &rate in &options.rates {
            rows.extend(contest::open(options, rate)?);
        }
    }
    beginning.conclude("cargo xtask bench write", &rows, options.document.as_deref())
}
