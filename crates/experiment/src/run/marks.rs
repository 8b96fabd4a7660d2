//! The file with the marks of a cell: its events, which the charts of all loads show.

use super::cell::Context;
use crate::definition::{Action, Experiment};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file, if the cell has events.
pub(super) struct Marks(Option<PathBuf>);

impl Marks {
    /// Creates the file.
    pub(super) fn new(context: &Context<'_>, experiment: &Experiment) -> io::Result<Self> {
        if experiment.events.is_empty() {
            return Ok(Self(None));
        }
        let path = context.cell_folder.join("marks");
        File::create(&path)?;
        Ok(Self(Some(path)))
    }

    /// Its path.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.as_deref()
    }

    /// Adds an event that happens now. A chart without it is better than a failed cell, so errors are ignored.
    pub(super) fn add(&self, server: &str, node: Option<usize>, action: Action) {
        let Some(path) = self.path() else { return };
        let node = node.map(|node| format!(" node {node}")).unwrap_or_default();
        let kind = if action.is_of_zones() { "update" } else { "fault" };
        let line = format!("{kind} {} {server}{node}\n", action.label());
        let _written = File::options().append(true).open(path).and_then(|mut file| file.write_all(line.as_bytes()));
    }
}
