//! `cargo xtask bench write`: how fast catamaran and other servers take signed updates, measured in turn
//! (docs/history/write-path.md).
//!
//! ```text
//!   closed, open
//!   catlab load  --signed updates, each of a new name-->  catamaran with 1, 3, 5 nodes | bare | bind | knot | powerdns
//!   dig AXFR of every node: checks that every acknowledged update is there
//!
//!   queries, quiet
//!   catlab load  --queries-->              catamaran with 3 nodes
//!   catlab load  --updates, closed loop--> the same
//!
//!   kills, partitions, one-way, away
//!   clients at every node  --queries, updates-->  catamaran, each node in its own network namespace
//!   kill -9 | nftables
//! ```

mod away;
mod bare;
mod clients;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
mod fault;
mod faults;
mod hosts;
#[path = "../support/load_run.rs"]
mod load_run;
mod lost;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod machine;
mod net;
mod options;
mod queries;
mod quiet;
mod rivals;
mod side;
mod sides;
#[path = "../support/sockets.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod sockets;
#[path = "../support/table.rs"]
mod table;
mod tally;
mod unanswered;
mod zone;

use conclusion::Beginning;
use options::{GROUPS, OPEN, Options};
use std::process::ExitCode;
use table::Row;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["role", "bare", log, node, leader @ ..] = &*words.iter().map(String::as_str).collect::<Vec<_>>() {
        bare::role(log, node, leader.first().copied());
        return ExitCode::SUCCESS;
    }
    command::run("write", Options::parse(words.into_iter()), |options| &options.folder, bench)
}

/// Runs the bench and returns whether every budget was met.
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
            "kills" | "one-way" => faults::of_group(options, parts)?,
            "away" => away::away(options)?,
            "quiet" => quiet::saturated(options)?,
            other => unreachable!("{other} is no group"),
        };
        is_met &= beginning.conclude(marks, &rows, options.document.as_deref())?;
    }
    Ok(is_met)
}

/// Runs a contest for each rate. Each has its own marks, so it can be repeated alone.
fn open(options: &Options) -> Result<bool, String> {
    let mut is_met = true;
    for &rate in &options.rates {
        let beginning = Beginning::now();
        let rows = contest::open(options, rate)?;
        is_met &= beginning.conclude(&format!("{OPEN} {rate}"), &rows, options.document.as_deref())?;
    }
    Ok(is_met)
}
