//! `{variables}` in the texts of a definition.
//!
//! `{rate}` is a variable, and so is `{dns.address}`. `{{n}}` gives `{n}`, which patterns of names use. All other
//! braces stay as they are, so configurations of servers can be written without doubling them.

use super::Experiment;
use std::collections::BTreeMap;

/// The variable that holds the folder of the experiment.
pub const FOLDER: &str = "folder";
/// The variables of a running server NAME, for example `{NAME.address}`.
/// - `address`: address and port of its transport; of node 1, if it has several.
/// - `addresses`: those of all nodes, with commas between them.
/// - `last`: that of the last node.
/// - `plain`: address and port for UDP and TCP, for proxies in front of it.
/// - `pid`: its process; that of node 1.
/// - `key`: the file of its TSIG key, if it has one.
/// - `ca`: the file with the CA of its certificate, if its transport needs one.
pub const SERVER_VARIABLES: [&str; 7] = ["address", "addresses", "last", "plain", "pid", "key", "ca"];

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Stays as it is.
    Text(&'a str),
    /// The name of a variable.
    Variable(&'a str),
}

/// Splits a text at its variables.
#[must_use]
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while let Some(brace) = text[at..].find('{').map(|offset| at + offset) {
        let rest = &text[brace..];
        let (part, length) = if let Some(name) = enclosed(rest, "{{", "}}") {
            (Part::Text(&rest[1..name.len() + 3]), name.len() + 4)
        } else if let Some(name) = enclosed(rest, "{", "}") {
            (Part::Variable(name), name.len() + 2)
        } else {
            at = brace + 1;
            continue;
        };
        parts.extend([Part::Text(&text[begin..brace]), part]);
        (begin, at) = (brace + length, brace + length);
    }
    parts.push(Part::Text(&text[begin..]));
    parts.retain(|part| *part != Part::Text(""));
    parts
}

/// The name of a variable between these braces at the start of the text.
fn enclosed<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(open)?;
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !"_-.".contains(letter))?;
    let name = &rest[..end];
    (name.starts_with(|letter: char| letter.is_ascii_alphabetic()) && rest[end..].starts_with(close)).then_some(name)
}

/// The names of all variables of a text.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    parts(text).into_iter().filter_map(|part| match part {
        Part::Variable(name) => Some(name),
        Part::Text(_) => None,
    })
}

/// Replaces all variables of a text by their values. Values are not searched for variables.
///
/// # Errors
/// A variable has no value.
pub fn substitute(text: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let value = |part| match part {
        Part::Text(text) => Ok(text),
        Part::Variable(name) => values
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| format!("the variable {{{name}}} has no value in `{text}`")),
    };
    parts(text).into_iter().map(value).collect()
}

/// Replaces the variables of a text that have a value. The others stay, as `{name}`.
#[must_use]
pub fn substitute_known(text: &str, values: &BTreeMap<String, String>) -> String {
    let value = |part| match part {
        Part::Text(text) => text.to_owned(),
        Part::Variable(name) => values.get(name).cloned().unwrap_or_else(|| format!("{{{name}}}")),
    };
    parts(text).into_iter().map(value).collect()
}

impl Experiment {
    /// Replaces the variables in the values of `[by.PARAMETER]`, once all servers run.
    ///
    /// # Errors
    /// A variable has no value.
    pub fn complete(&self, values: &mut BTreeMap<String, String>) -> Result<(), String> {
        let mut complete = Vec::new();
        for name in self.by.values().flat_map(BTreeMap::keys) {
            if let Some(value) = values.get(name) {
                complete.push((name.clone(), substitute(value, values)?));
            }
        }
        values.extend(complete);
        Ok(())
    }

    /// The values of all variables of a cell, except `{folder}` and those of running servers.
    #[must_use]
    pub fn values(&self, parameters: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let variables = self.variables.iter().map(|(name, value)| (name.clone(), value.0.clone()));
        let by = self.by.iter().flat_map(|(parameter, variables)| {
            let value = parameters.get(parameter);
            variables.iter().filter_map(move |(name, values)| Some((name.clone(), values.get(value?)?.0.clone())))
        });
        let parameters = parameters.iter().map(|(name, value)| (name.clone(), value.clone()));
        variables.chain(by).chain(parameters).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_other_braces_stay() {
        let values = [("rate", "1000"), ("dns.address", "127.0.0.1:53"), ("pattern", "q{n}.example")];
        let values = values.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (text, expected) in [
            ("load --server {dns.address} --rate {rate}", "load --server 127.0.0.1:53 --rate 1000"),
            ("--name 'q{{n}}.example'", "--name 'q{n}.example'"),
            ("--name {pattern}", "--name q{n}.example"),
            ("{rate}{rate}", "10001000"),
            ("limit { window 5; };", "limit { window 5; };"),
            ("{", "{"),
            ("{} {{}} {{rate} {1}", "{} {{}} {1000 {1}"),
            ("ü{rate}ü", "ü1000ü"),
            ("", ""),
        ] {
            assert_eq!(substitute(text, &values).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!(substitute_known("{rate} {speed} {{n}}", &values), "1000 {speed} {n}");
        let error = substitute("{speed}", &values).unwrap_err();
        assert!(error.contains("{speed}"), "{error}");
    }

    #[test]
    fn the_names_of_variables_are_found() {
        let found: Vec<_> = names("load {a} {{n}} { b } {c.pid}").collect();
        assert_eq!(found, ["a", "c.pid"]);
    }
}
