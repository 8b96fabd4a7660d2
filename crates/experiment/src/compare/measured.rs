//! A run that was measured, read from its folder.

use super::RunSummary;
use crate::definition::Experiment;
use crate::page::machine::{described, manifests};
use crate::page::results::Results;
use crate::run::DEFINITION;
use std::path::Path;

/// The results of one experiment in a folder.
pub struct MeasuredRun {
    /// The folder, as the user named it.
    pub(super) name: String,
    pub(super) experiment: Experiment,
    pub(super) results: Results,
    machines: Vec<String>,
    /// When its first and last load started, in seconds since 1970.
    pub(super) started: Option<[f64; 2]>,
}

impl MeasuredRun {
    /// Reads a folder.
    ///
    /// # Errors
    /// It is not the folder of one experiment, a file of it cannot be read, or it has no results.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let name = folder.display().to_string();
        let definition = folder.join(DEFINITION);
        if !definition.exists() {
            return Err(format!("cannot read {name}: it has no {DEFINITION}; name the folder of one experiment"));
        }
        let experiment = Experiment::read_measured(&definition).map_err(|error| error.to_string())?;
        let results = Results::read(folder, &experiment)?;
        if results.cells.is_empty() {
            return Err(format!("cannot read {name}: it has no results; run the experiment first"));
        }
        let manifests = manifests(folder, &results.cells);
        let started = || manifests.iter().map(|manifest| manifest.started).filter(|started| *started > 0.0);
        let started = started().reduce(f64::min).zip(started().reduce(f64::max)).map(|(first, last)| [first, last]);
        Ok(Self { name, experiment, results, machines: described(&manifests), started })
    }

    pub(super) fn summary(&self) -> RunSummary {
        RunSummary { folder: self.name.clone(), machines: self.machines.clone(), started: self.started }
    }
}
