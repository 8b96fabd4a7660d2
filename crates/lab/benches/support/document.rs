//! Writes the figures of a bench between two marks in a document.

use super::command::root;
use std::path::Path;

const END: &str = "<!-- end -->";

/// Puts `text` between the marks that name this command. A relative path counts from the root of the workspace: cargo
/// runs benches in the directory of their crate.
///
/// # Errors
/// When the document cannot be read or written, or has no such marks.
pub(crate) fn write(path: &Path, command: &str, text: &str) -> Result<(), String> {
    let path = &root().join(path);
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let document = std::fs::read_to_string(path).map_err(wrong)?;
    let begin = format!("<!-- {command} -->");
    let replaced = replace(&document, &begin, text).ok_or_else(|| format!("{}: no {begin}", path.display()))?;
    std::fs::write(path, replaced).map_err(wrong)
}

fn replace(document: &str, begin: &str, text: &str) -> Option<String> {
    let start = document.find(begin)? + begin.len();
    let end = start + document[start..].find(END)?;
    Some(format!("{}\n\n{}\n\n{}", &document[..start], text.trim(), &document[end..]))
}
