//! Throws altered seeds at what reads the octets of others, where libFuzzer is not (`cargo xtask fuzz`):
//!
//! ```text
//! cargo run --profile gate -p catamaran-replica --features testing --example fuzz -- SECONDS [TARGET]
//! ```
#![expect(clippy::disallowed_methods, reason = "it counts time; the crate itself knows no clock")]

use catamaran_replica::testing::fuzz::{Mutator, TARGETS, Target, target};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
    let chosen = match arguments.get(1).map(|name| target(name)) {
        None => TARGETS.to_vec(),
        Some(Some(target)) => vec![target],
        Some(None) => {
            eprintln!("targets: {}", TARGETS.map(|target| target.name).join(", "));
            return ExitCode::FAILURE;
        }
    };
    // Other inputs in each run; a failure names its input, so nothing else is needed to see it again.
    let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let broken = chosen.into_iter().filter(|target| !holds(target, Duration::from_secs(seconds), number)).count();
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes the seeds to where libFuzzer begins with them: a folder for each target.
fn write_seeds(folder: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(format!("replica_{}", target.name));
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}

fn holds(target: &Target, time: Duration, number: u64) -> bool {
    let seeds = (target.seeds)();
    let mut mutator = Mutator::new(seeds.clone(), number);
    let (start, mut count) = (Instant::now(), 0_u64);
    let mut next = seeds.into_iter();
    while start.elapsed() < time {
        let input = next.next().unwrap_or_else(|| mutator.next_input());
        if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
            let hex: String = input.iter().map(|octet| format!("{octet:02x}")).collect();
            println!("{} breaks at an input; a line for crates/replica/testdata/fuzz.txt:", target.name);
            println!("{} {hex}", target.name);
            return false;
        }
        count += 1;
    }
    println!("{}: {count} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
    true
}
