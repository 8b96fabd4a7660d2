//! Combinations of the values of parameters.

use super::Experiment;
use std::collections::BTreeMap;

impl Experiment {
    /// The number of cells: combinations times repeats.
    #[must_use]
    pub fn cell_count(&self) -> usize {
        self.matrix.values().map(Vec::len).fold(self.repeats as usize, usize::saturating_mul)
    }

    /// The parameters, each with its values.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = (&str, Vec<&str>)> {
        self.matrix.iter().map(|(name, values)| (name.as_str(), values.iter().map(|value| value.0.as_str()).collect()))
    }

    /// The name of the load of a figure, and the figure's name without it. The only load may have an empty name.
    pub(crate) fn load_of<'a>(&'a self, figure: &'a str) -> (&'a str, &'a str) {
        let named = self.loads.iter().filter(|load| !load.name.is_empty());
        let mut found =
            named.filter_map(|load| Some((load.name.as_str(), figure.strip_prefix(&load.name)?.strip_prefix('.')?)));
        found.next().unwrap_or(("", figure))
    }

    /// All combinations of the values of the parameters. The last parameter changes fastest.
    #[must_use]
    pub fn combinations(&self) -> Vec<BTreeMap<String, String>> {
        let mut combinations = vec![BTreeMap::new()];
        for (name, values) in &self.matrix {
            let with = |combination: &BTreeMap<String, String>, value: &str| {
                let mut combination = combination.clone();
                combination.insert(name.clone(), value.to_owned());
                combination
            };
            combinations = combinations
                .iter()
                .flat_map(|combination| values.iter().map(move |value| with(combination, &value.0)))
                .collect();
        }
        combinations
    }
}
