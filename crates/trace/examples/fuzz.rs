//! Feeds altered traces to the reader of each format, without libFuzzer (`cargo xtask fuzz`), and limits the memory:
//!
//! ```text
//! cargo run --profile gate -p catamaran-trace --features testing --example fuzz -- SECONDS [TARGET]
//! ```

// The crate `replica` makes inputs from seeds in the same way.
#[expect(unreachable_pub, reason = "it is public where it stands")]
#[path = "../../replica/src/testing/fuzz/mutate.rs"]
mod mutate;

/// Limits that `mutate` needs.
mod limits {
    pub(super) use trace::testing::INPUT_BYTES_MAX;
}

#[path = "../../../fuzz/runner.rs"]
mod runner;

use mutate::Mutator;
use runner::{Suite, Target};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use trace::testing::{TARGETS, read};

/// Largest memory for any input, in KiB: the largest block of C-DNS and its tables.
const MEMORY_KIB_MAX: u64 = 1 << 20;

/// Checks the memory once per this many inputs.
const MEMORY_LOOK: u64 = 256;

fn main() -> ExitCode {
    let target = |target: trace::testing::Target| {
        let count = AtomicU64::new(0);
        let run = move |input: &[u8]| {
            read(target.format, input);
            let is_due = count.fetch_add(1, Relaxed).is_multiple_of(MEMORY_LOOK);
            let kib = is_due.then(memory_kib).flatten().unwrap_or(0);
            assert!(kib <= MEMORY_KIB_MAX, "{kib} KiB of memory, here or before");
        };
        Target { name: target.name, run: Box::new(run), seeds: target.seeds() }
    };
    let targets = TARGETS.map(target).into();
    Suite { begin: "trace_", found: "crates/trace/testdata/fuzz.txt", targets }.main()
}

/// Peak memory of this process, if the system reports it.
fn memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
