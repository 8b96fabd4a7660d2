//! The project's own rules about its files, beyond compiler and clippy.

mod docs;
mod folders;
mod manifest;
mod prose;
mod rust;

use crate::command::{command, root};
use std::fmt;
use std::path::PathBuf;

/// Bytes of a tracked file. Larger data should come from a generator.
const FILE_BYTES_MAX: u64 = 1_000_000;

/// One tracked file.
pub(crate) struct File {
    /// Path from the root of the workspace.
    pub(crate) path: String,
    /// Its text. Files that are not UTF-8 are not checked.
    pub(crate) text: String,
}

/// A broken rule.
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    /// `line` counts from one; 0 means the whole file.
    pub(crate) fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Checks every tracked file.
///
/// # Errors
/// A rule is broken. The findings have been printed.
pub(crate) fn run() -> Result<(), String> {
    let files = tracked()?;
    let mut findings = Vec::new();
    for file in &files {
        if file.text.len() as u64 > FILE_BYTES_MAX {
            findings.push(Finding::new(file, 0, format!("over {FILE_BYTES_MAX} bytes")));
        }
        if file.path.ends_with(".rs") {
            rust::check(file, &mut findings);
        }
        if file.path.ends_with(".md") {
            docs::check(file, &files, &mut findings);
            prose::check(file, &mut findings);
        }
        if file.path.ends_with("Cargo.toml") {
            manifest::check(file, &mut findings);
        }
    }
    rust::check_modules(&files, &mut findings);
    folders::check(&files, &mut findings);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(format!("tidy: {count} findings")),
    }
}

fn tracked() -> Result<Vec<File>, String> {
    let listing = command("git", &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let names = String::from_utf8_lossy(&listing.stdout).into_owned();
    let paths = names.split('\0').filter(|path| !path.is_empty()).map(PathBuf::from);
    Ok(paths
        .filter_map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).ok()?;
            Some(File { path: path.to_string_lossy().into_owned(), text })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_is_tidy() {
        super::run().unwrap();
    }
}
