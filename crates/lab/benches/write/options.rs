//! The options of `cargo xtask bench write`.

use super::command::{self, OptionValue};
use super::side::Side;
use std::path::PathBuf;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench write [--only PARTS] [--rounds N] [--seconds N] [--names N] [--write DOCUMENT]
                        [--in-flight N] [--rates N,N..] [--samples N] [--servers NAME,NAME..]
                        [--query-rate N] [--faults N] [--update-rate N] [--minutes N] [--pictures FOLDER]

  --only PARTS    Run only these parts, or all (closed,open): closed (updates per second), open (latency of updates),
                  queries (latency of queries during the closed loop), kills (kill -9), partitions (a node is cut off),
                  one-way (a node is cut off in one direction), away (nodes miss 100,000 entries), quiet (no election
                  while all cores are saturated). kills, partitions, one-way and away need root and nftables
  --rounds N      Turns of each server, in alternating order (4)
  --seconds N     Length of a turn of the closed loop (10)
  --names N       Names in the zone at the start (10000)
  --write FILE    Write the tables between the marks of this document
  --pictures DIR  Draw the latencies of the open loop, and answered shares around faults. A relative path starts at the
                  root of the workspace
closed and open:
  --in-flight N   Updates in flight in the closed loop (512)
  --rates LIST    Updates per second in the open loop. Each rate is measured separately (16,32,64,128)
  --samples N     Updates of each server over all turns, at 128 per second and above. Lower rates get a tenth (20000)
  --servers LIST  Measure only these: catamaran-1, catamaran-3, catamaran-5, bare-3 (open loop: three processes that
                  only replicate and sync), bind, knot, powerdns
queries:
  --query-rate N  Queries per second (5000)
kills, partitions and one-way:
  --faults N      Faults of each kind, for the leader and for a follower (10). Each takes 8 seconds
  --update-rate N Updates per second at each node (200), in addition to 500 queries
away and quiet:
  --minutes N     Duration (10 for away, 60 for quiet). A shorter run does not meet the budgets
CATAMARAN_BIN names the server to measure. The default is the one next to this program.
Exits with 1 if a budget is not met or was not measured, or if an acknowledged update is missing on a node.
";

/// Parts of the bench, by the marks of their figures in the document.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("cargo xtask bench write --only closed", &["closed"]),
    // The rate follows. Each rate has its own marks.
    (OPEN, &["open"]),
    ("cargo xtask bench write --only queries", &["queries"]),
    ("cargo xtask bench write --only kills,partitions", &["kills", "partitions"]),
    ("cargo xtask bench write --only one-way", &["one-way"]),
    ("cargo xtask bench write --only away", &["away"]),
    ("cargo xtask bench write --only quiet", &["quiet"]),
];

/// The marks of the open loop, without the rate.
pub(crate) const OPEN: &str = "cargo xtask bench write --only open --rates";

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) rounds: u64,
    pub(crate) seconds: u64,
    pub(crate) in_flight: u64,
    pub(crate) rates: Vec<u64>,
    pub(crate) samples: u64,
    pub(crate) names: u64,
    pub(crate) query_rate: u64,
    pub(crate) faults: u64,
    pub(crate) update_rate: u64,
    /// Query rate at each node during updates.
    pub(crate) query_rate_each: u64,
    pub(crate) minutes: Option<u64>,
    pub(crate) parts: Vec<String>,
    pub(crate) sides: Vec<Side>,
    pub(crate) pictures: Option<PathBuf>,
    pub(crate) document: Option<PathBuf>,
    /// Temporary files of the programs.
    pub(crate) folder: PathBuf,
    pub(crate) catlab: PathBuf,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
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
        match given.option.as_str() {
            "--rounds" => self.rounds = given.number()?.max(1),
            "--seconds" => self.seconds = given.number()?.max(2),
            "--in-flight" => self.in_flight = given.number()?.max(1),
            "--rates" => self.rates = given.numbers()?,
            "--samples" => self.samples = given.number()?.max(10),
            "--names" => self.names = given.number()?.max(1),
            "--query-rate" => self.query_rate = given.number()?.max(1),
            "--faults" => self.faults = given.number()?.max(1),
            // Each message of a client needs its own ID.
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
            _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
        }
        Ok(())
    }

    pub(crate) fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|one| one == part)
    }
}
