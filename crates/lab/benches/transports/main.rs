//! `cargo xtask bench transports`: how fast catamaran and other servers answer over connections, measured in turn and
//! compared with catamaran's UDP (docs/history/transports.md).
//!
//! ```text
//!   core 0: catlab load --transport T --connections C  --queries-->  core 1: catamaran | echo | knot | nsd | ...
//! ```

#[path = "../read/answers.rs"]
mod answers;
#[path = "../support/command.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod contest;
#[path = "../support/document.rs"]
mod document;
mod echo;
#[path = "../support/load_run.rs"]
mod load_run;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod machine;
mod memory;
mod options;
mod servers;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod table;
mod window;
#[path = "../read/zones.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod zones;

use conclusion::Beginning;
use options::Options;
use std::process::ExitCode;

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

/// Runs the bench and returns whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let mut rows = contest::of_all(options)?;
    rows.extend(memory::of_all(options)?);
    beginning.conclude("cargo xtask bench transports", &rows, options.document.as_deref())
}
