//! The options of `cargo xtask bench replay`.

use super::command;
use super::shapes;
use std::path::PathBuf;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench replay [--repeats N] [--seconds N] [--skip N] [--only timing,fast]
                         [--traces NAMES] [--rounds N] [--catlab PROGRAM] [--write DOCUMENT] [--pictures FOLDER]

  --repeats N    Runs of each trace; the medians count (5)
  --seconds N    Length of the traces (60)
  --skip N       Ignore the first N seconds (20)
  --only PARTS   Run only these parts: timing (punctuality), fast (maximum rate)
  --traces NAMES Traces of timing: syn-0 to syn-4, 20us, b-root, tcp, dot, doh, doq
  --rounds N     Turns of each tool at its maximum rate (7)
  --catlab FILE  Measure another build of catlab
  --write FILE   Write the table between the marks of this document
  --pictures DIR Draw differences from the plan, intervals, rates per second, and maximum rates. A relative path starts
                 at the root of the workspace
Exits with 1 if a budget is not met or was not measured.
";

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) repeats: usize,
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) skip: u64,
    pub(crate) parts: Vec<String>,
    pub(crate) traces: Vec<String>,
    pub(crate) document: Option<PathBuf>,
    pub(crate) pictures: Option<PathBuf>,
    /// Temporary files of the programs.
    pub(crate) folder: PathBuf,
    pub(crate) catlab: PathBuf,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            repeats: 5,
            rounds: 7,
            seconds: 60,
            skip: 20,
            parts: ["timing", "fast"].map(str::to_owned).into(),
            traces: shapes::labels().into_iter().map(str::to_owned).collect(),
            document: None,
            pictures: None,
            folder: command::folder("replay"),
            catlab: env!("CARGO_BIN_EXE_catlab").into(),
        };
        for given in command::options(words, HELP)? {
            match given.option.as_str() {
                "--repeats" => options.repeats = given.number()?.max(1) as usize,
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--skip" => options.skip = given.number()?,
                "--only" => options.parts = given.some_of(&["timing", "fast"])?,
                "--traces" => options.traces = given.some_of(&shapes::labels())?,
                "--catlab" => options.catlab = given.value.into(),
                "--pictures" => options.pictures = Some(command::root().join(&given.value)),
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
            }
        }
        if options.skip >= options.seconds {
            return Err(format!("--skip {}: nothing is left of {} s", options.skip, options.seconds));
        }
        Ok(options)
    }
}
