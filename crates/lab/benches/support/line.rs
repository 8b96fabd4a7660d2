//! The command line of a bench, as it stands beside its figures.

use std::path::Path;

/// The command that does the same again, for a shell. Of a path of this machine only that is told which others have:
/// what comes behind the root of the workspace, or else its last part.
pub(crate) fn line(bench: &str, words: impl Iterator<Item = String>, root: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let words = words.filter(|word| word != "--bench").map(|word| quoted(&without_machine(&word, &root)));
    std::iter::once(bench.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn without_machine(word: &str, root: &Path) -> String {
    let path = Path::new(word);
    let told = match path.strip_prefix(root) {
        _ if !path.is_absolute() => return word.to_owned(),
        Ok(within) => within,
        Err(_) => Path::new(path.file_name().unwrap_or_default()),
    };
    told.to_string_lossy().into_owned()
}

/// A word as a shell reads it, in a line of Markdown between back quotes.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:/=@%+".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
