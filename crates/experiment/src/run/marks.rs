//! The files with the marks of a cell: its events, which the charts of all loads show.
//!
//! Each load has a file, and creates it when its run begins.

use crate::definition::Action;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

/// The file of each load.
#[derive(Default)]
pub(super) struct Marks(Vec<PathBuf>);

impl Marks {
    /// Adds the file of a load, which does not exist yet.
    pub(super) fn add_file(&mut self, path: PathBuf) {
        self.0.push(path);
    }

    /// Whether the runs of all loads have begun.
    pub(super) fn have_all_begun(&self) -> bool {
        self.0.iter().all(|path| path.exists())
    }

    /// Adds an event that happens now. A chart without it is better than a failed cell, so errors are ignored.
    pub(super) fn add(&self, server: &str, node: Option<usize>, action: Action) {
        let node = node.map(|node| format!(" node {node}")).unwrap_or_default();
        let kind = if action.is_of_zones() { "update" } else { "fault" };
        let line = format!("{kind} {} {server}{node}\n", action.label());
        for path in &self.0 {
            let _written = File::options().append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
        }
    }
}
