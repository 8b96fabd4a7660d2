//! `cargo xtask bench read`: how fast catamaran and other servers answer, measured in turn (docs/history/read-path.md).
//!
//! ```text
//!   core 0: catlab load  --queries-->  core 1: echo | catamaran | knot | nsd | bind | powerdns | coredns, in turn
//! ```

mod answers;
#[path = "../support/command.rs"]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
mod guards;
#[path = "../support/load_run.rs"]
mod load_run;
mod load_time;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "only the other bench uses the rest")]
mod machine;
mod memory;
mod options;
mod rivals;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod table;
mod zones;

#[path = "../support/echo.rs"]
mod echo;
#[path = "../support/sockets.rs"]
#[expect(dead_code, reason = "only the other bench uses the rest")]
mod sockets;

use conclusion::Beginning;
use options::{HELP, Options};
use std::process::ExitCode;
use table::Row;

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

/// Runs the bench and returns whether every budget was met.
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
