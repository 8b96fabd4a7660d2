//! `catlab zones merge`: folders of zones in, one folder out.

use super::build::{refuse_hierarchy, write_folder};
use super::told;
use clap::Args;
use hierarchy::Folder;
use hierarchy::construct::Merge;
use std::error::Error;
use std::path::{Path, PathBuf};
use wire::Name;
use zone::file::{LoadOptions, Loaded, Slice, load};

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones merge monday tuesday --out both

Where two folders have an RRset the first wins, and the other is told; what was captured wins over what was made up.
What `sign` and --resign made is left out: sign what comes out.
Exit code 0: merged; 2: not.";

#[derive(Args)]
pub(crate) struct MergeArguments {
    /// Folders that `catlab zones build` wrote.
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The folder for all of them; it is made, and must not hold a hierarchy.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Merges them.
pub(super) fn merge(arguments: &MergeArguments) -> Result<bool, Box<dyn Error>> {
    refuse_hierarchy(&arguments.out)?;
    let mut merge = Merge::default();
    for folder in &arguments.folders {
        let Folder { zones, manners, .. } = Folder::read(folder)?;
        merge.add_manners(manners);
        for entry in zones {
            let apex: Name = entry.name.parse().map_err(|_| format!("{}: no name of a zone", entry.name))?;
            let (loaded, made) = read_zone(&folder.join(&entry.file), &apex)?;
            merge.add(&apex, &entry.servers, loaded.records.iter().zip(made));
        }
    }
    let built = merge.finish();
    write_folder(&arguments.out, &built)?;
    told::print(&built.report, false);
    Ok(true)
}

/// The records of a file, and whether each was made up: its line says so.
fn read_zone(path: &Path, apex: &Name) -> Result<(Loaded, Vec<bool>), Box<dyn Error>> {
    let said = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| said(&error))?;
    let are_made: Vec<bool> = text.lines().map(is_marked).collect();
    let loaded = load(&mut Slice::new(text.into_bytes()), Some(apex), &LoadOptions::default());
    let loaded = loaded.map_err(|error| said(&error))?;
    let is_made = |line: u32| are_made.get(line as usize - 1).copied().unwrap_or_default();
    let made = loaded.places.iter().map(|place| is_made(place.line)).collect();
    Ok((loaded, made))
}

/// Whether a line ends with the mark; within quotes it is data.
fn is_marked(line: &str) -> bool {
    line.rsplit_once(hierarchy::MADE_MARK).is_some_and(|(_, why)| !why.contains('"'))
}
