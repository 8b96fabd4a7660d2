//! Throws altered traces at the readers of each format, where libFuzzer is not (`cargo xtask fuzz`), and looks at how
//! much memory that has taken:
//!
//! ```text
//! cargo run --profile gate -p catamaran-trace --features testing --example fuzz -- SECONDS [TARGET]
//! ```

// The crate of the log makes inputs out of seeds the same way.
#[expect(unreachable_pub, reason = "it is public where it stands")]
#[path = "../../replica/src/testing/fuzz/mutate.rs"]
mod mutate;

/// What `mutate` is bounded by.
mod limits {
    pub(super) use trace::testing::INPUT_OCTETS_MAX;
}

use mutate::Mutator;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trace::testing::{TARGETS, Target, read};

/// KiB of memory that reading any input may take: the largest block of C-DNS, and what its tables come to.
const MEMORY_KIB_MAX: u64 = 1 << 20;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, folder] = &arguments[..]
        && word == "seeds"
    {
        return match write_seeds(Path::new(folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{folder}: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let Some(seconds) = arguments.first().and_then(|seconds| seconds.parse().ok()) else {
        eprintln!("fuzz SECONDS [TARGET], or fuzz seeds FOLDER");
        return ExitCode::FAILURE;
    };
    let wanted = arguments.get(1);
    let chosen: Vec<Target> =
        TARGETS.into_iter().filter(|target| wanted.is_none_or(|name| name == target.name)).collect();
    if chosen.is_empty() {
        eprintln!("targets: {}", TARGETS.map(|target| target.name).join(", "));
        return ExitCode::FAILURE;
    }
    // Other inputs in each run; a failure names its input, so nothing else is needed to see it again.
    let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let broken = chosen.into_iter().filter(|target| !holds(*target, Duration::from_secs(seconds), number)).count();
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the seeds to where libFuzzer begins with them: a folder for each target.
fn write_seeds(folder: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(format!("trace_{}", target.name));
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in target.seeds().into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}

fn holds(target: Target, time: Duration, number: u64) -> bool {
    let seeds = target.seeds();
    let mut mutator = Mutator::new(seeds.clone(), number);
    let (start, mut count) = (Instant::now(), 0_u64);
    let mut next = seeds.into_iter();
    while start.elapsed() < time {
        let input = next.next().unwrap_or_else(|| mutator.next_input());
        let is_read = std::panic::catch_unwind(|| read(target.format, &input)).is_ok();
        let is_bounded = count % 256 != 0 || memory_kib().is_none_or(|kib| kib <= MEMORY_KIB_MAX);
        if !is_read || !is_bounded {
            let hex: String = input.iter().map(|octet| format!("{octet:02x}")).collect();
            let what = if is_read { "takes too much memory, here or before" } else { "breaks" };
            println!("{} {what} at an input; a line for crates/trace/testdata/fuzz.txt:", target.name);
            println!("{} {hex}", target.name);
            return false;
        }
        count += 1;
    }
    let memory = memory_kib().map_or_else(String::new, |kib| format!(", at most {} MiB", kib >> 10));
    println!("{}: {count} inputs in {:.1} s{memory}", target.name, start.elapsed().as_secs_f64());
    true
}

/// The most memory that this process has taken, where the system says it.
fn memory_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
