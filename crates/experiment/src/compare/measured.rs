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
    /// When its loads started, in seconds since 1970, from the first to the last.
    pub(super) starts: Vec<f64>,
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
        let mut starts: Vec<f64> =
            manifests.iter().map(|manifest| manifest.started).filter(|started| *started > 0.0).collect();
        starts.sort_by(f64::total_cmp);
        Ok(Self { name, experiment, results, machines: described(&manifests), starts })
    }

    pub(super) fn summary(&self) -> RunSummary {
        let started = self.starts.first().zip(self.starts.last()).map(|(&first, &last)| [first, last]);
        RunSummary { folder: self.name.clone(), machines: self.machines.clone(), started }
    }
}
