//! Rules for documents: the targets of links exist, and contain the names in the links.

use super::{File, Finding};
use crate::command::root;
use std::path::Path;

/// Checks one document.
pub(super) fn check(file: &File, files: &[File], findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        for (text, target) in links(line) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
            let path = root().join(folder).join(target);
            let known = path.exists() || files.iter().any(|other| Path::new(&other.path) == folder.join(target));
            if !known {
                findings.push(Finding::new(file, index + 1, format!("link to `{target}`, which does not exist")));
            } else if let Some(name) = identifier(text).filter(|_| target.ends_with(".rs"))
                && !std::fs::read_to_string(&path).is_ok_and(|source| has_word(&source, name))
            {
                findings.push(Finding::new(file, index + 1, format!("`{name}` is not in `{target}`")));
            }
        }
    }
}

/// Text and target of each `[text](target)` in a line.
fn links(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let ends = line.match_indices("](");
    ends.filter_map(|(at, _)| Some((line[..at].rsplit('[').next()?, line[at + 2..].split(')').next()?)))
}

/// The name in a text that consists of `` `a_name` `` only.
fn identifier(text: &str) -> Option<&str> {
    let name = text.strip_prefix('`')?.strip_suffix('`')?;
    (!name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())).then_some(name)
}

fn has_word(source: &str, word: &str) -> bool {
    source.split(|part: char| part != '_' && !part.is_ascii_alphanumeric()).any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_links_are_found_as_words() {
        let line = "| [`a_test`](x.rs), [b](y.rs), [`c::d`](z.rs) |";
        let found: Vec<_> = links(line).map(|(text, target)| (identifier(text), target)).collect();
        assert_eq!(found, [(Some("a_test"), "x.rs"), (None, "y.rs"), (None, "z.rs")]);
        assert!(has_word("fn a_test() {", "a_test") && !has_word("fn a_tests() {", "a_test"));
    }
}
