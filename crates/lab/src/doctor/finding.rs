//! What a run needs, and the result of a check.

use serde::Serialize;
use std::fmt;

/// The requirements of the run.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Sockets or connections open at once.
    pub connection_count: u64,
    /// Number of source addresses.
    pub source_count: u64,
    /// Number of servers per source.
    pub server_count: u64,
    /// Number of busy cores.
    pub core_count: usize,
}

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No problem.
    Ok,
    /// Results may suffer.
    Warning,
    /// The run is not possible as planned.
    Failure,
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was checked.
    pub what: &'static str,
    /// Severity.
    pub severity: Severity,
    /// The observed value.
    pub seen: String,
    /// What to do. Empty if nothing is wrong.
    pub remedy: String,
}

impl Finding {
    /// A finding without a problem.
    pub(super) fn ok(what: &'static str, seen: impl Into<String>) -> Self {
        Self { what, severity: Severity::Ok, seen: seen.into(), remedy: String::new() }
    }

    /// A finding with this severity unless `is_ok`.
    pub(super) fn unless(
        is_ok: bool,
        severity: Severity,
        what: &'static str,
        seen: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        if is_ok {
            return Self::ok(what, seen);
        }
        Self { what, severity, seen: seen.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.severity {
            Severity::Ok => "ok",
            Severity::Warning => "WARNING",
            Severity::Failure => "FAILS",
        };
        write!(f, "{mark:<8} {:<22} {}", self.what, self.seen)?;
        if !self.remedy.is_empty() {
            write!(f, "\n{:31} {}", "", self.remedy)?;
        }
        Ok(())
    }
}

/// A number in a file of the kernel.
pub(super) fn number(path: &str) -> Option<u64> {
    words(path).and_then(|words| words.first()?.parse().ok())
}

/// The words in a file of the kernel. `None` if the file does not exist.
pub(super) fn words(path: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.split_ascii_whitespace().map(str::to_owned).collect())
}
