//! Runs mutated seeds against the fuzz targets, for machines without libFuzzer (`cargo xtask fuzz`):
//!
//! ```text
//! cargo run --profile gate -p catamaran-replica --features testing --example fuzz -- SECONDS [TARGET]
//! ```
#![expect(clippy::disallowed_methods, reason = "it counts time; the crate itself knows no clock")]

#[path = "../../../fuzz/runner.rs"]
mod runner;

use catamaran_replica::testing::fuzz::{Mutator, TARGETS};
use runner::{Suite, Target};
use std::process::ExitCode;

fn main() -> ExitCode {
    let targets =
        TARGETS.map(|target| Target { name: target.name, run: Box::new(target.run), seeds: (target.seeds)() });
    Suite { begin: "replica_", found: "crates/replica/testdata/fuzz.txt", targets: targets.into() }.main()
}
