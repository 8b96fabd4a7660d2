//! Zone files whose comments mark synthesized records.

use std::error::Error;
use std::path::Path;
use wire::Name;
use zone::file::{LoadOptions, Loaded, Slice, load};

/// For each record of a file, why it was synthesized, if it was.
type SynthesisReasons = Vec<Option<String>>;

/// Reads the records of a file and their marks.
pub(super) fn read_marked(path: &Path, apex: &Name) -> Result<(Loaded, SynthesisReasons), Box<dyn Error>> {
    let with_path = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    hierarchy::refuse_stream(path)?;
    let text = std::fs::read_to_string(path).map_err(|error| with_path(&error))?;
    let marks: SynthesisReasons = text.lines().map(|line| mark(line).map(str::to_owned)).collect();
    let loaded = load(&mut Slice::new(text.into_bytes()), Some(apex), &LoadOptions::default());
    let loaded = loaded.map_err(|error| with_path(&error))?;
    let mark_at = |line: u32| marks.get((line as usize).checked_sub(1)?)?.clone();
    let made = loaded.locations.iter().map(|location| mark_at(location.line)).collect();
    Ok((loaded, made))
}

/// The reason at the end of a line. A semicolon within quotes is data.
fn mark(line: &str) -> Option<&str> {
    line.rsplit_once(hierarchy::MADE_MARK).map(|(_, why)| why).filter(|why| !why.contains('"'))
}
