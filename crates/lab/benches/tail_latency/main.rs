//! `cargo xtask bench tail-latency`: whether zone changes slow down queries (docs/history/calm.md).
//!
//! ```text
//!   tool core: catlab load at half of the server's limit   --queries-->  server cores: catamaran, a cluster of one
//!   writer core: updates | zone add, zone remove | dig AXFR  ----------->
//! ```

#[path = "../support/command.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod command;
#[path = "../support/conclusion.rs"]
mod conclusion;
mod disturbance;
#[path = "../support/document.rs"]
mod document;
mod every_second;
#[path = "../support/load_run.rs"]
mod load_run;
#[path = "../support/machine.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod machine;
mod options;
mod sides;
mod stops;
#[path = "../support/table.rs"]
#[expect(dead_code, reason = "only other benches use the rest")]
mod table;
mod zone;

use conclusion::Beginning;
use options::Options;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["role", stops::ROLE, file] = *words.iter().map(String::as_str).collect::<Vec<_>>() {
        return match stops::watch(file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{file}: {error}");
                ExitCode::from(2)
            }
        };
    }
    command::run("tail-latency", Options::parse(words.into_iter()), |options| &options.folder, bench)
}

/// Runs the bench and returns whether every budget was met.
fn bench(options: &Options) -> Result<bool, String> {
    let beginning = Beginning::now();
    let rows = sides::of_all(options)?;
    beginning.conclude("cargo xtask bench tail-latency", &rows, options.document.as_deref())
}
