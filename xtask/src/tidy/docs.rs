//! Rules for documents: links lead somewhere, and the project speaks of itself alone.

use super::{File, Finding};
use crate::command::root;
use std::path::Path;

/// Checks one document.
pub(super) fn check(file: &File, files: &[File], findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for target in targets(line) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            let path = root().join(folder).join(target);
            let known = path.exists() || files.iter().any(|other| Path::new(&other.path) == folder.join(target));
            if !known {
                findings.push(Finding::new(file, index + 1, format!("link to `{target}`, which is not there")));
            }
        }
    }
}

/// The targets of `[text](target)` in a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}
