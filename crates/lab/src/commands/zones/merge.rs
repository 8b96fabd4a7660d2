//! `catlab zones merge`: merges folders of zones.

use super::build::write_folder;
use super::marks::read_marked;
use super::print_report;
use crate::out_folder::{Force, HIERARCHY, OutFolder};
use clap::Args;
use hierarchy::Folder;
use hierarchy::construct::Merge;
use std::error::Error;
use std::path::PathBuf;
use wire::Name;

/// Ends `--help`.
pub(super) const EXAMPLES: &str = "Examples:
  catlab zones merge monday tuesday --out both

If two folders have the same RRset, the first wins and the other is reported. Captured records win over synthesized
ones. Synthesized records keep their marks. Records of `catlab zones sign` and --resign are left out. Sign the result
again.

Exit code 0: merged; 2: failed.";

#[derive(Args)]
pub(crate) struct MergeArguments {
    /// Folders from `catlab zones build`.
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Output folder. It is created. It may only hold a hierarchy if --force is given.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    force: Force,
}

/// Merges the folders.
pub(super) fn merge(arguments: &MergeArguments) -> Result<bool, Box<dyn Error>> {
    let out = OutFolder::begin(&arguments.out, &HIERARCHY, arguments.force)?;
    let mut merge = Merge::default();
    for folder in &arguments.folders {
        let Folder { zones, behaviors, .. } = Folder::read(folder)?;
        merge.add_behaviors(behaviors);
        for entry in zones {
            let apex: Name = entry.name.parse().map_err(|_| format!("{} is not a name of a zone", entry.name))?;
            let (loaded, made) = read_marked(&folder.join(&entry.file), &apex)?;
            let made = made.iter().map(Option::as_deref);
            merge.add(&apex, &entry.servers, loaded.records.iter().zip(made));
        }
    }
    let built = merge.finish();
    write_folder(out, &built)?;
    print_report::print(&built.report, false);
    Ok(true)
}
