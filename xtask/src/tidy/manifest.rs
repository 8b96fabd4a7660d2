//! Rules for manifests: every dependency has a comment about its purpose, and dependencies point down only.

use super::{File, Finding};

/// Crates, and the dependencies that each must not have (ARCHITECTURE.md).
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("crates/wire/", &["store", "zone", "replica", "tokio", "raft", "libc"]),
    ("crates/store/", &["wire", "zone", "replica", "tokio", "raft"]),
    ("crates/zone/", &["replica", "tokio", "raft", "libc"]),
    ("crates/tsig/", &["store", "zone", "replica", "tokio", "raft", "libc", "rand"]),
    ("crates/policy/", &["tsig", "replica", "tokio", "raft", "libc", "rand"]),
    ("crates/replica/", &["tokio", "libc", "rand"]),
    ("crates/process/", &["wire", "zone", "tsig", "policy", "replica", "raft", "store", "axum", "hyper", "ureq"]),
    ("crates/config/", &["replica", "raft", "store", "policy", "tokio", "axum", "hyper", "ureq", "rustls"]),
    ("crates/cli/", &["replica", "raft", "store", "tokio", "axum", "hyper", "rustls"]),
    ("crates/sockets/", &["wire", "measure", "load", "report", "compare", "testbed"]),
    ("crates/testbed/", &["load", "report", "compare", "fleet"]),
    ("crates/measure/", &["mio", "tokio", "libc", "socket2", "load", "report"]),
    ("crates/report/", &["mio", "tokio", "libc", "socket2", "load", "fleet", "testbed"]),
    ("crates/compare/", &["mio", "tokio", "measure", "load", "report", "fleet"]),
    ("crates/load/", &["report", "compare", "testbed", "fleet", "replica", "raft", "store"]),
    ("crates/experiment/", &["wire", "zone", "load", "compare", "fleet", "tokio", "mio"]),
    ("crates/fleet/", &["load", "report", "compare", "testbed", "wire", "zone"]),
    ("crates/lab/", &["replica", "raft", "store"]),
    ("crates/sim/", &["tokio", "libc"]),
    ("crates/ddns/", &["store", "zone", "replica", "raft", "tokio", "libc", "axum"]),
    ("crates/torture/", &["replica", "raft", "store"]),
];

/// The manifests that may name the feature `planted`, and their lines with it.
const PLANTED: &[(&str, &str)] =
    &[("crates/replica/Cargo.toml", "planted = []"), ("crates/sim/Cargo.toml", "planted = [\"replica/planted\"]")];

/// Checks that no manifest enables planted bugs. Only command lines may enable them.
fn check_planted(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        let is_known = PLANTED.iter().any(|&(path, known)| path == file.path && known == line);
        if line.contains("planted") && !line.starts_with('#') && !is_known {
            findings.push(Finding::new(
                file,
                index + 1,
                "the feature `planted` plants bugs; no manifest may enable it",
            ));
        }
    }
}

/// Checks one manifest.
pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    check_planted(file, findings);
    if file.path == "Cargo.toml" {
        check_comments(file, findings);
    }
    let Some((_, forbidden)) = FORBIDDEN.iter().find(|(path, _)| file.path.starts_with(path)) else { return };
    let mut section = "";
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if section == "[dependencies]" && forbidden.contains(&name) {
            findings.push(Finding::new(file, index + 1, format!("this crate must not depend on `{name}`")));
        }
    }
}

/// Checks that the workspace's table has a comment above each dependency or group of dependencies.
fn check_comments(file: &File, findings: &mut Vec<Finding>) {
    let mut inside = false;
    let mut commented = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with('[') {
            inside = line == "[workspace.dependencies]";
        } else if line.starts_with('#') {
            commented = true;
        } else if line.is_empty() {
            commented = false;
        } else if inside && !commented && !line.contains("path = ") {
            findings.push(Finding::new(file, index + 1, "a dependency needs a comment that says what it is for"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_crate_depends_on_planted_bugs() {
        let count = |path: &str, text: &str| {
            let mut findings = Vec::new();
            check_planted(&File { path: path.into(), text: text.into() }, &mut findings);
            findings.len()
        };
        assert_eq!(count("crates/replica/Cargo.toml", "# planted bugs\nplanted = []\n"), 0);
        assert_eq!(count("crates/replica/Cargo.toml", "default = [\"planted\"]\n"), 1);
        let server = "crates/server/Cargo.toml";
        assert_eq!(count(server, "replica = { workspace = true, features = [\"planted\"] }\n"), 1);
        assert_eq!(count(server, "replica.workspace = true\n"), 0);
    }
}
