//! `cargo xtask bench write`: how fast servers take signed updates, ours and the others in turn
//! (docs/history/write-path.md).
//!
//! ```text
//!   closed, open
//!   catlab load  --signed updates, each of a new name-->  catamaran with 1, 3, 5 nodes | bare | bind | knot | powerdns
//!   dig AXFR of every node: each update that was acknowledged is there
//!
//!   queries, quiet
//!   catlab load  --queries-->              catamaran with 3 nodes
//!   catlab load  --updates, closed loop--> the same
//!
//!   kills, partitions, one-way, away
//!   clients at every node  --queries, updates-->  catamaran, each node in a network namespace of its own
//!   kill -9 | nftables
//! ```

mod away;
mod bare;
#[path = "../support/catamaran_server.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod catamaran_server;
mod clients;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
mod faults;
mod hosts;
#[path = "../support/load.rs"]
mod load;
mod lost;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod machine;
mod net;
mod queries;
mod quiet;
mod rivals;
mod sides;
#[path = "../support/sockets.rs"]
#[expect(dead_code, reason = "what only the other benches want")]
mod sockets;
#[path = "../support/table.rs"]
mod table;
mod tally;
mod unanswered;

use command::OptionValue;
use conclusion::Beginning;
use sides::Side;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Row;

const HELP: &str = "\
cargo xtask bench write [--only PARTS] [--rounds N] [--seconds N] [--names N] [--write DOCUMENT]
                        [--in-flight N] [--rates N,N..] [--samples N] [--servers NAME,NAME..]
                        [--query-rate N] [--faults N] [--update-rate N] [--minutes N] [--pictures FOLDER]

  --only PARTS    some of closed (updates a second), open (how long each takes), queries (at a fixed rate, during the
                  closed loop), kills (kill -9), partitions (a node and the others do not reach each other), one-way
                  (in one direction), away (nodes that miss 100,000 entries), quiet (no election with all cores
                  saturated), or all; closed,open unless given. kills, partitions, one-way and away take root and
                  nftables
  --rounds N      turns of each server, in one order and then in the other (4)
  --seconds N     length of a turn of the closed loop (10)
  --names N       names that the zone has before (10000)
  --write FILE    put the tables between the marks of this document
  --pictures DIR  draw the latencies of the open loop, and what happened around faults; a relative path counts from the
                  root of the workspace
of closed and open:
  --in-flight N   updates that wait at one time in the closed loop (512)
  --rates LIST    updates a second of the open loop, each a contest of its own (16,32,64,128)
  --samples N     updates of each server at 128 a second and above, over all of its turns; a tenth of it below (20000)
  --servers LIST  not all of catamaran-1, catamaran-3, catamaran-5, bare-3 (open loop: three processes that replicate
                  and sync, and do nothing else), bind, knot, powerdns
of queries:
  --query-rate N  queries a second (5000)
of kills, partitions and one-way:
  --faults N      of each kind, of the leader and of a follower (10); each takes 8 seconds
  --update-rate N updates a second at each node (200), and 500 queries
of away and quiet:
  --minutes N     how long (10 of away, 60 of quiet: what their budgets name; a shorter run does not meet them)
CATAMARAN_BIN is the server that is measured; otherwise the one beside this program.
Exit code 1: a budget is not met or was not measured, or an acknowledged update is not on every node.
";

/// Parts of the bench, by the marks in the document between which their figures stand.
const GROUPS: [(&str, &[&str]); 7] = [
    ("cargo xtask bench write --only closed", &["closed"]),
    // Followed by the rate: each has marks of its own.
    (OPEN, &["open"]),
    ("cargo xtask bench write --only queries", &["queries"]),
    ("cargo xtask bench write --only kills,partitions", &["kills", "partitions"]),
    ("cargo xtask bench write --only one-way", &["one-way"]),
    ("cargo xtask bench write --only away", &["away"]),
    ("cargo xtask bench write --only quiet", &["quiet"]),
];

/// Marks of the open loop, before the rate.
const OPEN: &str = "cargo xtask bench write --only open --rates";

/// What the command line says.
pub(crate) struct Options {
    rounds: u64,
    seconds: u64,
    in_flight: u64,
    rates: Vec<u64>,
    samples: u64,
    names: u64,
    query_rate: u64,
    faults: u64,
    update_rate: u64,
    /// At each node, beside the updates.
    query_rate_each: u64,
    minutes: Option<u64>,
    parts: Vec<String>,
    sides: Vec<Side>,
    pictures: Option<PathBuf>,
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
            query_rate: 5_000,
            faults: 10,
            update_rate: 200,
            query_rate_each: 500,
            minutes: None,
            parts: ["closed", "open"].map(str::to_owned).into(),
            sides: Side::ALL.into(),
            pictures: None,
            document: None,
            folder: command::folder("write"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            options.take(&given)?;
        }
        Ok(options)
    }

    fn take(&mut self, given: &OptionValue) -> Result<(), String> {
        match given.word.as_str() {
            "--rounds" => self.rounds = given.number()?.max(1),
            "--seconds" => self.seconds = given.number()?.max(2),
            "--in-flight" => self.in_flight = given.number()?.max(1),
            "--rates" => self.rates = given.numbers()?,
            "--samples" => self.samples = given.number()?.max(10),
            "--names" => self.names = given.number()?.max(1),
            "--query-rate" => self.query_rate = given.number()?.max(1),
            "--faults" => self.faults = given.number()?.max(1),
            // A client has an ID for each of its messages.
            "--update-rate" => self.update_rate = given.number()?.clamp(1, 2_000),
            "--minutes" => self.minutes = Some(given.number()?.clamp(1, 600)),
            "--only" if given.value == "all" => {
                self.parts = GROUPS.iter().flat_map(|(_, parts)| *parts).map(|&part| part.to_owned()).collect();
            }
            "--only" => self.parts = given.some_of(&GROUPS.map(|(_, parts)| parts).concat())?,
            "--servers" => {
                let names = given.some_of(&Side::ALL.map(Side::name))?;
                self.sides =
                    Side::ALL.into_iter().filter(|side| names.iter().any(|name| name == side.name())).collect();
            }
            "--pictures" => self.pictures = Some(command::root().join(&given.value)),
            "--write" => self.document = Some((&*given.value).into()),
            _ => return Err(format!("unknown option {}\n{HELP}", given.word)),
        }
        Ok(())
    }

    fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|one| one == part)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["role", "bare", log, node, leader @ ..] = &*words.iter().map(String::as_str).collect::<Vec<_>>() {
        bare::role(log, node, leader.first().copied());
        return ExitCode::SUCCESS;
    }
    command::run("write", Options::parse(words.into_iter()), |options| &options.folder, bench)
}

/// Gives whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let mut is_met = true;
    for (marks, parts) in GROUPS {
        if !parts.iter().any(|part| options.has(part)) {
            continue;
        }
        if marks == OPEN {
            is_met &= open(options)?;
            continue;
        }
        let beginning = Beginning::now();
        let rows: Vec<Row> = match parts[0] {
            "closed" => contest::closed(options)?,
            "queries" => queries::during_updates(options)?,
            "kills" | "one-way" => faults::of_parts(options)?,
            "away" => away::away(options)?,
            "quiet" => quiet::saturated(options)?,
            other => unreachable!("{other} is no group"),
        };
        is_met &= beginning.conclude(marks, &rows, options.document.as_deref())?;
    }
    Ok(is_met)
}

/// A contest for each rate, with marks of its own: so one can be measured anew without the others.
fn open(options: &Options) -> Result<bool, String> {
    let mut is_met = true;
    for &rate in &options.rates {
        let beginning = Beginning::now();
        let rows = contest::open(options, rate)?;
        is_met &= beginning.conclude(&format!("{OPEN} {rate}"), &rows, options.document.as_deref())?;
    }
    Ok(is_met)
}
