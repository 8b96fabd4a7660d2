//! Options that several commands share.

mod asking;
mod connections;
mod freshness;
mod parse;
mod target;

pub(crate) use asking::{Asking, Types};
pub(crate) use freshness::FreshnessArguments;
pub(crate) use parse::parse_duration;
pub(crate) use target::Target;

/// Writes a file of a run's folder.
///
/// # Errors
/// With the file's name.
pub(crate) fn write_json(path: &std::path::Path, value: &impl serde::Serialize) -> Result<(), String> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    text.push('\n');
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file of lines, each a JSON object.
///
/// # Errors
/// With the file's name.
pub(crate) fn write_lines(path: &std::path::Path, values: &[impl serde::Serialize]) -> Result<(), String> {
    let lines: Result<String, _> =
        values.iter().map(|value| serde_json::to_string(value).map(|line| line + "\n")).collect();
    std::fs::write(path, lines.map_err(|error| error.to_string())?)
        .map_err(|error| format!("{}: {error}", path.display()))
}
