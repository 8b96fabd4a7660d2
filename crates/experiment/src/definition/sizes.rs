//! Sizes of an experiment, and variables that the user sets.

use super::problem::hint;
use super::{Experiment, Override, Value};

/// The size of an experiment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// As defined: for this machine.
    #[default]
    Here,
    /// With the changes of `[quick]`: a first look.
    Quick,
    /// With the changes of `[paper]`: the size of the source.
    Paper,
}

impl Experiment {
    /// Whether the definition has changes for this size.
    #[must_use]
    pub fn has_size(&self, size: Size) -> bool {
        let is_set = |changes: &Override| {
            changes.repeats.is_some() || !changes.variables.is_empty() || !changes.matrix.is_empty()
        };
        match size {
            Size::Here => true,
            Size::Quick => is_set(&self.quick),
            Size::Paper => is_set(&self.paper),
        }
    }

    /// The experiment in a size.
    #[must_use]
    pub fn size(mut self, size: Size) -> Self {
        let Override { repeats, variables, matrix } = match size {
            Size::Here => Override::default(),
            Size::Quick => self.quick.clone(),
            Size::Paper => self.paper.clone(),
        };
        self.repeats = repeats.unwrap_or(self.repeats);
        self.variables.extend(variables);
        self.matrix.extend(matrix);
        self
    }

    /// Gives a variable another value.
    ///
    /// # Errors
    /// There is no such variable, or the experiment cannot run with this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if self.matrix.contains_key(name) {
            return Err(format!("cannot set {name}: it is a parameter; select cells with --only {name}={value}"));
        }
        let Some(old) = self.variables.get_mut(name) else {
            let known = self.variables.keys().map(String::as_str);
            return Err(format!("cannot set {name}: the experiment has no such variable; {}", hint(name, known)));
        };
        let old = std::mem::replace(old, Value(value.to_owned()));
        super::check_values::check_values(self).map_err(|problem| {
            self.variables.insert(name.to_owned(), old);
            format!("cannot set {name} to {value}: {}", problem.text)
        })
    }
}
