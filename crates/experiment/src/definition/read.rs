//! Reads definitions.

use super::Experiment;
use super::check_names::check_names;
use super::check_values::check_values;
use super::problem::{DefinitionError, plain};
use super::sizes::Size;
use crate::limits::DEFINITION_BYTES_MAX;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use toml::de::DeTable;
use toml_keys::line_at;

/// The built-in experiments: name and text.
const BUILT_IN: [(&str, &str); 19] = [
    ("acks", include_str!("../../experiments/acks.toml")),
    ("all-tcp", include_str!("../../experiments/all-tcp.toml")),
    ("amortisation", include_str!("../../experiments/amortisation.toml")),
    ("clients", include_str!("../../experiments/clients.toml")),
    ("cpu-quota", include_str!("../../experiments/cpu-quota.toml")),
    ("dnssec-size", include_str!("../../experiments/dnssec-size.toml")),
    ("faults", include_str!("../../experiments/faults.toml")),
    ("hierarchy", include_str!("../../experiments/hierarchy.toml")),
    ("latency-spikes", include_str!("../../experiments/latency-spikes.toml")),
    ("latency-stall", include_str!("../../experiments/latency-stall.toml")),
    ("mixed", include_str!("../../experiments/mixed.toml")),
    ("read-cost", include_str!("../../experiments/read-cost.toml")),
    ("read-rate", include_str!("../../experiments/read-rate.toml")),
    ("replay-accuracy", include_str!("../../experiments/replay-accuracy.toml")),
    ("replay-rate", include_str!("../../experiments/replay-rate.toml")),
    ("rtt", include_str!("../../experiments/rtt.toml")),
    ("sessions", include_str!("../../experiments/sessions.toml")),
    ("tls-proxy", include_str!("../../experiments/tls-proxy.toml")),
    ("write-cost", include_str!("../../experiments/write-cost.toml")),
];

/// The names of the built-in experiments.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// The text of a built-in experiment.
#[must_use]
pub fn built_in_text(name: &str) -> Option<&'static str> {
    BUILT_IN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A built-in experiment.
///
/// # Errors
/// The definition is wrong. A test reads each of them.
#[must_use]
pub fn built_in(name: &str) -> Option<Result<Experiment, DefinitionError>> {
    built_in_text(name).map(|text| Experiment::parse(text, name))
}

impl Experiment {
    /// Reads a file, and checks it.
    ///
    /// # Errors
    /// The file cannot be read, or the definition is wrong. The error has the line.
    pub fn read(path: &Path) -> Result<Self, DefinitionError> {
        Self::parse(&text_of(path)?, &path.display().to_string())
    }

    /// Reads the definition in the folder of a run, without the checks. It has only one size, so it may lack values
    /// that claims name.
    ///
    /// # Errors
    /// The file cannot be read, or is not a definition. The error has the line.
    pub fn read_measured(path: &Path) -> Result<Self, DefinitionError> {
        deserialize(&text_of(path)?, &path.display().to_string())
    }

    /// Reads a text, and checks it in all sizes. `origin` is the name of its file.
    ///
    /// # Errors
    /// The definition is wrong. The error has the line.
    pub fn parse(text: &str, origin: &str) -> Result<Self, DefinitionError> {
        let experiment = deserialize(text, origin)?;
        let checked = check_names(&experiment).and_then(|()| {
            let sizes = [Size::Here, Size::Quick, Size::Paper];
            sizes.into_iter().try_for_each(|size| check_values(&experiment.clone().size(size)))
        });
        match checked {
            Ok(()) => Ok(experiment),
            Err(problem) => {
                let line = DeTable::parse(text).ok().and_then(|table| problem.line(text, table.get_ref()));
                Err(DefinitionError { origin: origin.to_owned(), line, problem: problem.text })
            }
        }
    }
}

fn text_of(path: &Path) -> Result<String, DefinitionError> {
    let failed = |problem| DefinitionError { origin: path.display().to_string(), line: None, problem };
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(DEFINITION_BYTES_MAX + 1).read_to_string(&mut text));
    let length = read.map_err(|error| failed(format!("cannot read the definition: {error}")))?;
    if length as u64 > DEFINITION_BYTES_MAX {
        return Err(failed(format!("cannot read the definition: it has more than {DEFINITION_BYTES_MAX} bytes")));
    }
    Ok(text)
}

fn deserialize(text: &str, origin: &str) -> Result<Experiment, DefinitionError> {
    toml::from_str(text).map_err(|error| {
        // An error with an empty span concerns the whole file.
        let line = error.span().filter(|span| !span.is_empty()).map(|span| line_at(text, span.start));
        DefinitionError { origin: origin.to_owned(), line, problem: plain(error.message()) }
    })
}
