//! Figures: programs that measure, each with its budgets.

use crate::command::{cargo, has};

/// Programs that the figures need besides ours.
const PROGRAMS: &[&str] = &["taskset", "dnsperf"];

/// Builds and runs a bench of the laboratory with all optimisations.
///
/// # Errors
/// When a program that it needs is missing, or a budget is missed.
pub(crate) fn run(what: &str, options: &[&str]) -> Result<(), String> {
    if let Some(missing) = PROGRAMS.iter().find(|program| !has(program)) {
        return Err(format!("{missing} is not installed; apt-get install util-linux dnsperf"));
    }
    let mut arguments = vec!["bench", "--quiet", "-p", "catamaran-lab", "--bench", what, "--"];
    arguments.extend(options);
    cargo(&arguments)
}
