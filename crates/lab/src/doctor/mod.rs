//! Checks whether this machine can run a measurement. Each finding has a remedy.

mod clock;
mod finding;
mod kernel;
mod network;

pub use finding::{Finding, Needs, Severity};

/// Runs all checks. Takes a fraction of a second to measure the clock.
#[must_use]
pub fn examine(needs: &Needs) -> Vec<Finding> {
    let mut findings = network::findings(needs);
    findings.extend(kernel::findings(needs));
    findings.extend(clock::findings());
    findings
}

#[cfg(test)]
mod tests {
    use super::finding::number;
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
        // Checks that do not depend on the size of the run are the same for both.
        let checked: Vec<_> = findings.iter().map(|finding| finding.what).collect();
        for what in ["connection tracking", "cores", "load", "frequency governor", "CPU quota", "clock", "wake-ups"] {
            assert_eq!(checked.iter().filter(|own| **own == what).count(), 1, "{what}: {checked:?}");
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
