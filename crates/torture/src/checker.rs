//! Runs porcupine through the Go program in `xtask/torture-checker`.

use crate::limits::CHECK_REGISTER_S;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The built checker.
#[derive(Clone, Debug)]
pub(crate) struct Checker(PathBuf);

/// Porcupine's result for one history.
#[derive(Default, Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) registers: u64,
    pub(crate) operations: u64,
    /// Registers that are not linearizable, or whose check did not finish.
    pub(crate) violations: u64,
    pub(crate) findings: Vec<String>,
}

impl Checker {
    /// Builds the checker with Go from its source. The modules are pinned in `go.sum`.
    pub(crate) fn build(source: &Path, program: PathBuf) -> Result<Self, String> {
        let mut go = Command::new("go");
        go.args(["build", "-mod=readonly", "-o"]).arg(&program).arg(".").current_dir(source).stdin(Stdio::null());
        let status = go.status().map_err(|error| format!("cannot run go: {error}; install Go 1.22 or newer"))?;
        if status.success() { Ok(Self(program)) } else { Err(format!("cannot build {}", source.display())) }
    }

    pub(crate) fn at(program: PathBuf) -> Self {
        Self(program)
    }

    /// Checks a history. With `drawings`, that folder gets a page for each register that is not linearizable.
    pub(crate) fn check(&self, history: &Path, drawings: Option<&Path>) -> Result<Answer, String> {
        let mut command = Command::new(&self.0);
        command.arg(format!("-timeout={CHECK_REGISTER_S}s")).stdin(Stdio::null());
        if let Some(drawings) = drawings {
            command.arg("-drawings").arg(drawings);
        }
        let output = command.arg(history).output().map_err(|error| format!("cannot run the checker: {error}"))?;
        if !matches!(output.status.code(), Some(0 | 1)) {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("the checker exited with {}: {}", output.status, stderr.trim()));
        }
        let answer = parse(&String::from_utf8_lossy(&output.stdout)).ok_or("the checker printed no totals")?;
        if (answer.violations == 0) == output.status.success() {
            Ok(answer)
        } else {
            Err("the checker contradicts itself".into())
        }
    }
}

fn parse(output: &str) -> Option<Answer> {
    let mut answer = Answer::default();
    let mut has_totals = false;
    for line in output.lines() {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        if let Some(register) = line["register"].as_str() {
            answer.findings.push(format!("porcupine: {register}: {}", line["result"].as_str().unwrap_or("?")));
            continue;
        }
        answer.registers = line["registers"].as_u64()?;
        answer.operations = line["operations"].as_u64()?;
        answer.violations = line["violations"].as_u64()?;
        has_totals = true;
    }
    has_totals.then_some(answer)
}
