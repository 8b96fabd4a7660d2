//! Whether this machine can measure: what is looked at before a run, each finding with its remedy.

mod clock;
mod kernel;
mod network;

use serde::Serialize;
use std::fmt;

/// What the run will need.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// Sockets or connections open at once.
    pub connection_count: u64,
    /// Source addresses that they are spread over.
    pub source_count: u64,
    /// Servers that each source talks to.
    pub server_count: u64,
    /// Cores that the run will keep busy.
    pub core_count: usize,
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Figures may suffer.
    Warning,
    /// The run cannot take place as it is planned.
    Failure,
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was seen.
    pub seen: String,
    /// What to do; empty when nothing is wrong.
    pub remedy: String,
}

impl Finding {
    /// Nothing wrong.
    fn ok(what: &'static str, seen: impl Into<String>) -> Self {
        Self { what, severity: Severity::Ok, seen: seen.into(), remedy: String::new() }
    }

    /// As bad as `severity` unless `is_ok`.
    fn unless(
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

/// Looks at everything; takes a fraction of a second, for the clock's sake.
#[must_use]
pub fn examine(needs: &Needs) -> Vec<Finding> {
    let mut findings = network::findings(needs);
    findings.extend(kernel::findings(needs));
    findings.extend(clock::findings());
    findings
}

/// A number in a file of the kernel.
fn number(path: &str) -> Option<u64> {
    words(path).and_then(|words| words.first()?.parse().ok())
}

/// The words of a file of the kernel; `None` where there is no such file.
fn words(path: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.split_ascii_whitespace().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_too_large_for_the_machine_fails() {
        let small = Needs { connection_count: 8, source_count: 1, server_count: 1, core_count: 1 };
        let find = |findings: &[Finding], what: &str| {
            findings.iter().find(|finding| finding.what == what).map(|finding| finding.severity)
        };
        let findings = examine(&small);
        assert_eq!(find(&findings, "open files"), Some(Severity::Ok));
        assert_eq!(find(&findings, "ports per address"), Some(Severity::Ok));
        let huge = Needs { connection_count: 5_000_000, ..small };
        let findings = examine(&huge);
        assert_eq!(find(&findings, "open files"), Some(Severity::Failure));
        assert_eq!(find(&findings, "ports per address"), Some(Severity::Failure));
        assert!(findings.iter().all(|finding| finding.remedy.is_empty() == (finding.severity == Severity::Ok)));
        // What is no matter of the run's size is the same for both, and says what the kernel says.
        let told: Vec<_> = findings.iter().map(|finding| finding.what).collect();
        for what in ["connection tracking", "cores", "load", "frequency governor", "CPU quota", "clock", "wake-ups"] {
            assert_eq!(told.iter().filter(|own| **own == what).count(), 1, "{what}: {told:?}");
        }
        let seen = |what: &str| findings.iter().find(|finding| finding.what == what).map(|finding| &finding.seen);
        for (what, path) in [
            ("receive buffers", "/proc/sys/net/core/rmem_max"),
            ("ports per address", "/proc/sys/net/ipv4/ip_local_port_range"),
            ("connection tracking", "/proc/sys/net/netfilter/nf_conntrack_max"),
        ] {
            if let Some(number) = number(path) {
                assert!(seen(what).unwrap().contains(&number.to_string()), "{what}: {:?}", seen(what));
            }
        }
        let cores = std::thread::available_parallelism().unwrap().get();
        for (core_count, severity) in [(cores, Severity::Warning), (0, Severity::Ok)] {
            assert_eq!(find(&examine(&Needs { core_count, ..small }), "cores"), Some(severity));
        }
        let spread = Needs { source_count: 1_000, ..huge };
        assert_eq!(find(&examine(&spread), "ports per address"), Some(Severity::Ok));
    }
}
