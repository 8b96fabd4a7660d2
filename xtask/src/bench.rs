//! Runs the benchmarks.

use crate::command::{cargo, cargo_path, command, has, root, run as run_command};
use crate::peers;
use crate::verify::with_tools;

/// Runs `cargo xtask bench WHAT`.
///
/// # Errors
/// A program is missing, or a result misses its budget.
pub(crate) fn run(what: &str, options: &[&str]) -> Result<(), String> {
    match what {
        "instructions" => instructions(),
        "store" => store(),
        "traces" => traces(options),
        _ => laboratory(what, options),
    }
}

/// Builds and runs a bench of the laboratory with all optimisations.
fn laboratory(what: &str, options: &[&str]) -> Result<(), String> {
    let of_server = matches!(what, "read" | "transports" | "tail-latency" | "write");
    let programs: &[&str] = match what {
        "tail-latency" => &["taskset", "chrt", "dig"],
        "write" => &["dig"],
        _ if of_server || what == "replay" => &["taskset"],
        _ => &["taskset", "dnsperf"],
    };
    if let Some(missing) = programs.iter().find(|program| !has(program)) {
        return Err(format!("{missing} is not installed; apt-get install util-linux dnsperf bind9-dnsutils"));
    }
    if of_server {
        // The measured server is in the same folder as the bench.
        cargo(&["build", "--quiet", "--release", "-p", "catamaran-server"])?;
    }
    let mut arguments = vec!["bench", "--quiet", "-p", "catamaran-lab", "--bench", what, "--"];
    arguments.extend(options);
    let mut bench = command(&cargo_path(), &arguments);
    if what == "read" && wants_coredns(options) {
        peers::supply_coredns(&mut bench);
    }
    run_command(bench)
}

/// Whether `bench read` with these options measures CoreDNS.
fn wants_coredns(options: &[&str]) -> bool {
    let servers = options.iter().position(|word| *word == "--servers").and_then(|at| options.get(at + 1));
    !options.contains(&"--help") && servers.is_none_or(|names| names.split(',').any(|name| name == "coredns"))
}

/// Measures how fast traces are read and written, and compares our binary format with its budget.
fn traces(options: &[&str]) -> Result<(), String> {
    let mut arguments =
        vec!["run", "--quiet", "--release", "-p", "catamaran-trace", "--example", "trace_figures", "--"];
    arguments.extend(options);
    cargo(&arguments)
}

/// Measures the cost of one change in a zone of a million names, in the store and in a replica.
fn store() -> Result<(), String> {
    cargo(&["run", "--quiet", "--release", "-p", "catamaran-store", "--example", "store_figures"])?;
    cargo(&["run", "--quiet", "--release", "-p", "catamaran-replica", "--example", "replica_figures"])
}

/// Counts the instructions of each step of an answer with `gungraun` under callgrind, and compares them with limits.
pub(crate) fn instructions() -> Result<(), String> {
    if !has("valgrind") {
        return Err("valgrind is not installed; apt-get install valgrind".into());
    }
    let has_runner = has("gungraun-runner") || root().join("target/tools/bin/gungraun-runner").is_file();
    if !has_runner {
        // The runner must have the version in the lock file of `instructions`.
        let lock = root().join("instructions/Cargo.lock");
        let text = std::fs::read_to_string(&lock).map_err(|error| format!("{}: {error}", lock.display()))?;
        let version =
            text.split("name = \"gungraun-runner\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
        let version = version.ok_or_else(|| format!("{} names no gungraun-runner", lock.display()))?;
        cargo(&["install", "gungraun-runner", "--version", version, "--locked", "--root", "target/tools"])?;
    }
    let mut bench = with_tools(&["bench", "--quiet", "--locked"]);
    bench.current_dir(root().join("instructions"));
    run_command(bench)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coredns_is_fetched_when_it_is_measured() {
        assert!(wants_coredns(&[]));
        assert!(wants_coredns(&["--rounds", "1", "--servers", "echo,coredns"]));
        assert!(!wants_coredns(&["--servers", "echo,catamaran"]));
        assert!(!wants_coredns(&["--help"]));
    }
}
