//! `catlab compare A B`: whether one run is slower than another.

use clap::Args;
use report::Run;
use report::regression::{CompareOptions, Outcome, compare};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Examples, verdicts and exit codes in `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  catlab compare before after --threshold 5%
  catlab compare before after --skip 5 --json

Compares p50, p90, p99, p99.9 and the achieved rate by the ratio B/A, with 95 % intervals from 2,000 resamples of whole
seconds. Compares loss, wrong answers and each RCODE by the difference B-A, with 95 % intervals from the counts of all
queries.
Verdicts: better; no difference; different (RCODEs only); worse, within the threshold; undecided; WORSE, beyond the
threshold (a regression).

Exit code 0: no regression; 1: a regression; 2: the runs cannot be compared; 3: undecided, B looks worse by more than
the threshold, but this may be chance.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Two run folders of `catlab load --out`: before and after.
    #[arg(value_names = ["A", "B"], num_args = 2, required = true)]
    runs: Vec<PathBuf>,
    /// How much worse B may be. For loss, wrong answers and failures (RCODEs other than NOERROR and NXDOMAIN), the
    /// limit is a hundredth of it: 5% allows 0.05 % of the queries.
    #[arg(long, default_value = "5%", value_parser = parse_threshold)]
    threshold: f64,
    /// Ignore the first seconds of each run.
    #[arg(long, default_value_t = 0.0, value_name = "SECONDS")]
    skip: f64,
    /// Compare even if a run is INVALID.
    #[arg(long)]
    force: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Compares and prints the verdicts. Exit codes: 0 no regression, 1 regression, 2 no comparison, 3 undecided.
pub(crate) fn main(arguments: &Arguments) -> ExitCode {
    match run(arguments) {
        Ok(Outcome::None) => ExitCode::SUCCESS,
        Ok(Outcome::Regression) => ExitCode::from(1),
        Ok(Outcome::Undecided) => ExitCode::from(3),
        Err(error) => {
            eprintln!("catlab compare: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<Outcome, Box<dyn Error>> {
    let [a, b] = &arguments.runs[..] else {
        return Err("cannot compare: name two runs, as in `catlab compare A B`".into());
    };
    let (a, b) = (Run::read(a)?, Run::read(b)?);
    let options = CompareOptions {
        threshold: arguments.threshold,
        skip_seconds: arguments.skip,
        force: arguments.force,
        seed: arguments.seed,
    };
    let comparison = compare(&a, &b, &options)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&comparison)?);
    } else {
        print!("{}", comparison.text());
    }
    Ok(comparison.outcome)
}

/// `5%` or `0.05`.
fn parse_threshold(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text} is not a share; write 5% or 0.05");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    share.ok().filter(|share| (0.0..10.0).contains(share)).ok_or_else(wrong)
}
