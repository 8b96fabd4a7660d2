//! The command line of a bench, printed beside its figures.

use std::path::Path;

/// The shell command that repeats the run. Local paths are shortened to the part below the root of the workspace, or to
/// the last part.
pub(crate) fn line(bench: &str, words: impl Iterator<Item = String>, root: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let words =
        words.filter(|argument| argument != "--bench").map(|argument| quoted(&without_machine(&argument, &root)));
    std::iter::once(bench.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

fn without_machine(argument: &str, root: &Path) -> String {
    let path = Path::new(argument);
    let shown = match path.strip_prefix(root) {
        _ if !path.is_absolute() => return argument.to_owned(),
        Ok(within) => within,
        Err(_) => Path::new(path.file_name().unwrap_or_default()),
    };
    shown.to_string_lossy().into_owned()
}

/// Quotes a word for a shell, inside backquotes in Markdown.
fn quoted(argument: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.,:/=@%+".contains(&byte);
    if !argument.is_empty() && argument.bytes().all(is_plain) {
        return argument.to_owned();
    }
    format!("'{}'", argument.replace('\'', r"'\''"))
}
