//! Throws altered seeds at targets, where libFuzzer is not: what the examples `fuzz` of the crates have in common. Each
//! of them has a `Mutator` beside this.

use super::Mutator;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Takes any bytes, and panics when something does not hold that must.
pub(crate) type Run = Box<dyn Fn(&[u8])>;

/// Something to throw bytes at.
pub(crate) struct Target {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What they are thrown at.
    pub(crate) run: Run,
    /// Inputs that are what they should be, which others are made of.
    pub(crate) seeds: Vec<Vec<u8>>,
}

/// The targets of a crate.
pub(crate) struct Suite {
    /// What their names begin with in `fuzz/`.
    pub(crate) begin: &'static str,
    /// Where what broke one is kept.
    pub(crate) found: &'static str,
    pub(crate) targets: Vec<Target>,
}

impl Suite {
    /// `SECONDS [TARGET]`, or `seeds FOLDER`.
    pub(crate) fn main(self) -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if let [word, folder] = &arguments[..]
            && word == "seeds"
        {
            let written = self.write_seeds(Path::new(folder)).inspect_err(|error| eprintln!("{folder}: {error}"));
            return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        let Some(seconds) = arguments.first().and_then(|seconds| seconds.parse().ok()) else {
            eprintln!("fuzz SECONDS [TARGET], or fuzz seeds FOLDER");
            return ExitCode::FAILURE;
        };
        let wanted = |target: &&Target| arguments.get(1).is_none_or(|name| name == target.name);
        let chosen: Vec<&Target> = self.targets.iter().filter(wanted).collect();
        if chosen.is_empty() {
            let names: Vec<_> = self.targets.iter().map(|target| target.name).collect();
            eprintln!("targets: {}", names.join(", "));
            return ExitCode::FAILURE;
        }
        // Other inputs in each run; a failure names its input, so nothing else is needed to see it again.
        let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let time = Duration::from_secs(seconds);
        let broken = chosen.into_iter().filter(|target| !self.holds(target, time, number)).count();
        if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Writes the seeds to where libFuzzer begins with them: a folder for each target.
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

    /// Each seed first, then what is made of them.
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
                println!("{} breaks at an input; a line for {}:", target.name, self.found);
                println!("{} {hex}", target.name);
                return false;
            }
            count += 1;
        }
        println!("{}: {count} inputs in {:.1} s", target.name, start.elapsed().as_secs_f64());
        true
    }
}
