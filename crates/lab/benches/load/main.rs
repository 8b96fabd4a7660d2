//! `cargo xtask bench load`: how fast the load engine is, and how precisely it keeps its schedule
//! (docs/history/load.md).
//!
//! ```text
//!   core 0: bare loop | catlab load | dnsperf, in turn  --queries-->  core 1: echo
//!   core 0: catlab load at a rate                       --queries-->  core 1: far end, records kernel timestamps
//! ```

#[path = "../support/command.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
#[path = "../support/echo.rs"]
mod echo;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "only the other bench uses the rest")]
mod machine;
mod options;
mod pacing;
mod roles;
#[path = "../support/sockets.rs"]
mod sockets;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod table;

use conclusion::Beginning;
use load::workload::{self, Extras, Reading};
use options::{HELP, Options};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use table::Row;

/// Names in the query file. All have the same length, so all queries have the same size.
const NAME_COUNT: u32 = 10_000;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.next_if(|word| word == "role").is_some() {
        role(&words.collect::<Vec<_>>());
        return ExitCode::SUCCESS;
    }
    command::run("load", Options::parse(words), |options| &options.folder, bench)
}

/// Runs the bench and returns whether every budget was met.
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
