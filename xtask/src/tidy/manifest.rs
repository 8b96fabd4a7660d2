//! Rules for manifests: every dependency says what it is for, and dependencies point down only.

use super::{File, Finding};

/// A crate, and what it must not depend on (ARCHITECTURE.md).
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("crates/wire/", &["store", "zone", "replica", "tokio", "raft", "libc"]),
    ("crates/store/", &["wire", "zone", "replica", "tokio", "raft"]),
    ("crates/zone/", &["replica", "tokio", "raft", "libc"]),
    ("crates/replica/", &["tokio", "libc", "rand"]),
    ("crates/lab/", &["replica", "raft", "store"]),
    ("crates/sim/", &["tokio", "libc"]),
    ("crates/ddns/", &["store", "zone", "raft", "tokio", "libc", "axum"]),
];

/// Checks one manifest.
pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
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

/// In the workspace's table a comment stands above each dependency, or above its run of neighbours.
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
            findings.push(Finding::new(file, index + 1, "a dependency has a comment: what it is for"));
        }
    }
}
