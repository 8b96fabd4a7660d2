//! Zone files with what their lines say of records that were made up.

use std::error::Error;
use std::path::Path;
use wire::Name;
use zone::file::{LoadOptions, Loaded, Slice, load};

/// Of each record of a file why it was made up, if it was.
type Marks = Vec<Option<String>>;

/// The records of a file, and their marks: what their lines say.
pub(super) fn read_marked(path: &Path, apex: &Name) -> Result<(Loaded, Marks), Box<dyn Error>> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    hierarchy::refuse_stream(path)?;
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    let marks: Marks = text.lines().map(|line| mark(line).map(str::to_owned)).collect();
    let loaded = load(&mut Slice::new(text.into_bytes()), Some(apex), &LoadOptions::default());
    let loaded = loaded.map_err(|error| said(&error))?;
    let mark_at = |line: u32| marks.get((line as usize).checked_sub(1)?)?.clone();
    let made = loaded.places.iter().map(|place| mark_at(place.line)).collect();
    Ok((loaded, made))
}

/// The reason that a line ends with; within quotes it is data.
fn mark(line: &str) -> Option<&str> {
    line.rsplit_once(hierarchy::MADE_MARK).map(|(_, why)| why).filter(|why| !why.contains('"'))
}
