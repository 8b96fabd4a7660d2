//! What is wrong in a definition, and where.

use std::fmt;
use toml::de::{DeTable, DeValue};
use toml_keys::{line_at, nearest};

/// A definition that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionError {
    /// The file, or the name of the built-in experiment.
    pub origin: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(out, "{}:{line}: {}", self.origin, self.problem),
            None => write!(out, "{}: {}", self.origin, self.problem),
        }
    }
}

impl std::error::Error for DefinitionError {}

/// A problem at a place: the keys and indexes that lead to it, such as `load`, `0`, `run`.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) place: Vec<String>,
    pub(super) text: String,
}

impl Problem {
    pub(super) fn new(place: &[&str], text: impl Into<String>) -> Self {
        Self { place: place.iter().map(|&step| step.to_owned()).collect(), text: text.into() }
    }

    /// The line of the place, or of the nearest table around it.
    pub(super) fn line(&self, text: &str, table: &DeTable<'_>) -> Option<usize> {
        find(table, &self.place).map(|offset| line_at(text, offset))
    }
}

/// The offset of a place.
fn find(table: &DeTable<'_>, place: &[String]) -> Option<usize> {
    let (step, rest) = place.split_first()?;
    let (key, value) = table.iter().find(|(key, _)| key.get_ref() == step.as_str())?;
    let mut deepest = key.span().start;
    let mut value = value;
    for (index, step) in rest.iter().enumerate() {
        match value.get_ref() {
            DeValue::Table(table) => return find(table, &rest[index..]).or(Some(deepest)),
            DeValue::Array(items) => match step.parse().ok().and_then(|item: usize| items.get(item)) {
                Some(item) => (deepest, value) = (item.span().start, item),
                None => break,
            },
            _ => break,
        }
    }
    Some(deepest)
}

/// The end of an error about an unknown word: the known word that was probably meant, or all known words.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    // Another number was hardly mistyped.
    let nearest = if word.parse::<f64>().is_ok() { None } else { nearest(word, &known) };
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "there are none here".into(),
        None => format!("write one of: {}", known.join(", ")),
    }
}

/// Rewrites an error of the TOML reader: known keys become a suggestion, and types of Rust become words.
pub(super) fn plain(message: &str) -> String {
    for (start, subject) in [("unknown field ", "key"), ("unknown variant ", "word")] {
        let Some(rest) = message.strip_prefix(start) else { continue };
        let mut quoted = rest.split('`').skip(1).step_by(2);
        let word = quoted.next().unwrap_or_default();
        return format!("unknown {subject} `{word}`; {}", hint(word, quoted));
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("the key {rest} is missing; add it");
    }
    if message.contains("untagged enum Scalar") {
        return "expected a text or a number".into();
    }
    let types = [
        ("f64", "a number"),
        ("u32", "a whole number"),
        ("a sequence", "a list in [ ]"),
        ("a map", "a table in { }"),
        ("a string", "a text in quotes"),
    ];
    let plain = types.iter().find_map(|(name, plain)| {
        let start = message.strip_suffix(name)?;
        start.ends_with("expected ").then(|| format!("{start}{plain}"))
    });
    let plain = plain.unwrap_or_else(|| message.to_owned());
    match plain.split_once("expected struct ") {
        Some((start, _)) => format!("{start}expected a table"),
        None => plain,
    }
}
