//! Errors in a configuration.

/// An error in a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The line number, from 1, if known.
    pub line: Option<usize>,
    /// The error.
    pub what: String,
    /// A suggestion.
    pub hint: Option<String>,
}
