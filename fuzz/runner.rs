//! The built-in fuzzer for machines without libFuzzer, shared by the examples `fuzz` of all crates. Each example brings
//! its own `Mutator`.

use super::Mutator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Takes any bytes, and panics if a property does not hold.
pub(crate) type Run = Box<dyn Fn(&[u8])>;

/// A fuzz target.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// The tested function.
    pub(crate) run: Run,
    /// Valid inputs, from which the mutator makes others.
    pub(crate) seeds: Vec<Vec<u8>>,
}

/// The targets of a crate.
pub(crate) struct Suite {
    /// Prefix of the target names in `fuzz/`.
    pub(crate) begin: &'static str,
    /// The file that keeps failing inputs as regression tests.
    pub(crate) found: &'static str,
    pub(crate) targets: Vec<Target>,
}

impl Suite {
    /// Runs the command line: `SECONDS [TARGET]` or `seeds FOLDER`.
    pub(crate) fn main(self) -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if let [word, folder] = &arguments[..]
            && word == "seeds"
        {
            let written = self.write_seeds(Path::new(folder)).inspect_err(|error| eprintln!("{folder}: {error}"));
            return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        let Some(seconds) = arguments.first().and_then(|seconds| seconds.parse().ok()) else {
            eprintln!("usage: fuzz SECONDS [TARGET], or fuzz seeds FOLDER");
            return ExitCode::FAILURE;
        };
        let wanted = |target: &&Target| arguments.get(1).is_none_or(|name| name == target.name);
        let chosen: Vec<&Target> = self.targets.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let names: Vec<_> = self.targets.iter().map(|target| target.name).collect();
            eprintln!("targets: {}", names.join(", "));
            return ExitCode::FAILURE;
        }
        // Each run has other inputs. A failure prints its input, so it can be repeated without this number.
        let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let time = Duration::from_secs(seconds);
        let broken = chosen.into_iter().filter(|target| !self.holds(target, time, number)).count();
        if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Writes the seeds for libFuzzer, into one folder per target.
    fn write_seeds(&self, folder: &Path) -> std::io::Result<()> {
        for target in &self.targets {
            let folder = folder.join(format!("{}{}", self.begin, target.name));
            std::fs::create_dir_all(&folder)?;
            for (number, seed) in target.seeds.iter().enumerate() {
                std::fs::write(folder.join(format!("seed-{number}")), seed)?;
            }
        }
        Ok(())
    }

    /// Runs a target with all seeds, then with mutated inputs until the time is over. Returns false at a failure.
    fn holds(&self, target: &Target, time: Duration, number: u64) -> bool {
        let mut mutator = Mutator::new(target.seeds.clone(), number);
        let (start, mut count) = (Instant::now(), 0_u64);
        let mut seeds = target.seeds.iter().cloned();
        loop {
            let input = match seeds.next() {
                Some(input) => input,
                None if start.elapsed() < time => mutator.next_input(),
                None => break,
            };
            if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
                let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
                println!("{} fails with this input; add the line to {}:", target.name, self.found);
                println!("{} {hex}", target.name);
                return false;
            }
            count += 1;
        }
        println!("{}: {count} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
        true
    }
}
