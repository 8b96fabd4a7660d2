//! The options of `cargo xtask bench load`.

use super::command;
use std::path::PathBuf;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
cargo xtask bench load [--rounds N] [--seconds N] [--only udp,tcp,dot,pacing,busy]
                       [--catlab PROGRAM] [--write DOCUMENT]

  --rounds N     Turns of each tool; the medians count (7)
  --seconds N    Length of a turn (3)
  --only PARTS   Run only these parts
  --catlab FILE  Measure another build of catlab
  --write FILE   Write the table between the marks of this document
Exits with 1 if a budget is not met or was not measured.
";

/// The options of the command line.
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) parts: Vec<String>,
    pub(crate) document: Option<PathBuf>,
    /// Temporary files of the programs.
    pub(crate) folder: PathBuf,
    pub(crate) queries: PathBuf,
    pub(crate) catlab: PathBuf,
}

impl Options {
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let folder = command::folder("load");
        let parts = ["udp", "tcp", "dot", "pacing", "busy"].map(str::to_owned).into();
        let queries = folder.join("queries");
        let catlab = env!("CARGO_BIN_EXE_catlab").into();
        let mut options = Self { rounds: 7, seconds: 3, parts, document: None, folder, queries, catlab };
        for given in command::options(words, HELP)? {
            match given.option.as_str() {
                "--rounds" => options.rounds = given.number()?.max(1) as usize,
                "--seconds" => options.seconds = given.number()?.max(2),
                "--only" => options.parts = given.list(),
                "--catlab" => options.catlab = given.value.into(),
                "--write" => options.document = Some(given.value.into()),
                _ => return Err(format!("unknown option {}\n{HELP}", given.option)),
            }
        }
        Ok(options)
    }
}
