//! `cargo xtask bench replay`: how closely queries arrive to the times of their trace, and how fast they can be sent
//! (docs/history/replay.md).
//!
//! ```text
//!   core 0: catlab replay                     --queries-->  core 1: far end, records kernel timestamps;
//!                                                                   for connections, when the server read a query
//!   core 0: bare loops | catlab replay --fast --queries-->  a socket that nobody reads
//! ```

#[path = "../support/command.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
// Plots of the results.
#[path = "../support/document.rs"]
mod document;
#[path = "../support/echo.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod echo;
mod fast;
mod timing_plot;
// Compares the arrival of a trace with its plan.
mod judged;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod machine;
#[path = "../load/roles.rs"]
#[expect(dead_code, reason = "the bare loop of that file waits for answers")]
mod roles;
#[path = "../support/sockets.rs"]
mod sockets;
// A loop that sends from many addresses.
mod options;
mod pktinfo;
mod shapes;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod table;
mod timing;
mod traces;
// The far end for connections.
mod witness;

use conclusion::Beginning;
use options::Options;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "role").is_some() {
        role(&words.collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    command::run("replay", Options::parse(words), |options| &options.folder, bench)
}

/// Runs the bench and returns whether every budget was met.
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
