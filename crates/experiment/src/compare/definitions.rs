//! What differs between two definitions of an experiment.

use crate::definition::Experiment;
use serde_json::{Map, Value};

/// Keys that do not change what is measured or judged.
const TEXTS: [&str; 7] = ["title", "source", "question", "limits", "picture", "quick", "paper"];
/// Keys that name a table of a list.
const NAMES: [&str; 2] = ["name", "text"];

/// What differs, one text for each key: `variables.seconds is 3 in A and 10 in B`.
///
/// # Errors
/// A definition cannot be written as JSON.
pub(super) fn differences(a: &Experiment, b: &Experiment) -> Result<Vec<String>, String> {
    let json = |experiment: &Experiment| match serde_json::to_value(experiment) {
        Ok(Value::Object(mut keys)) => {
            keys.retain(|key, _| !TEXTS.contains(&key.as_str()));
            Ok(keys)
        }
        Ok(_) => Err("a definition is not a table".to_owned()),
        Err(error) => Err(format!("cannot compare the definitions: {error}")),
    };
    let mut found = Vec::new();
    tables("", &json(a)?, &json(b)?, &mut found);
    Ok(found)
}

fn tables(path: &str, a: &Map<String, Value>, b: &Map<String, Value>, found: &mut Vec<String>) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, of_a) in a {
        values(&below(key), of_a, b.get(key).unwrap_or(&Value::Null), found);
    }
    for (key, of_b) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
        values(&below(key), &Value::Null, of_b, found);
    }
}

fn values(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        _ if a == b => {}
        (Value::Object(a), Value::Object(b)) => tables(path, a, b, found),
        (Value::Array(of_a), Value::Array(of_b)) if of_a.iter().chain(of_b).all(Value::is_object) => {
            tables(path, &by_name(of_a), &by_name(of_b), found);
        }
        _ => found.push(format!("{path} is {} in A and {} in B", text(a), text(b))),
    }
}

/// The tables of a list by their names. Those without a name have their number.
fn by_name(list: &[Value]) -> Map<String, Value> {
    let named = (1..).zip(list).map(|(number, table)| {
        let name = NAMES.iter().find_map(|key| table.get(key)?.as_str()).filter(|name| !name.is_empty());
        (name.map_or_else(|| number.to_string(), str::to_owned), table.clone())
    });
    named.collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "absent".into(),
        Value::String(text) if text.is_empty() => "empty".into(),
        Value::String(text) => format!("`{}`", text.split_whitespace().collect::<Vec<_>>().join(" ")),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(", "),
        Value::Object(_) => "present".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = 'A'\nsource = 'B'\nquestion = 'C'\n\
                        [variables]\nseconds = 3\n[matrix]\nkind = ['echo']\n\
                        [[server]]\nname = 'dns'\nkind = '{kind}'\n\
                        [[load]]\nrun = 'load --server {dns.address} --duration {seconds}s'\n";

    fn found(b: &str) -> Vec<String> {
        let parse = |text| toml::from_str(text).unwrap();
        differences(&parse(TEXT), &parse(b)).unwrap()
    }

    #[test]
    fn each_key_that_differs_is_named() {
        assert_eq!(found(TEXT), Vec::<String>::new());
        let texts = TEXT.replace("'B'", "'Other'").replace("'C'", "'Another?'");
        assert_eq!(found(&texts), Vec::<String>::new());
        for (from, to, expected) in [
            ("seconds = 3", "seconds = 10", "variables.seconds is `3` in A and `10` in B"),
            ("seconds = 3", "seconds = 3\nnew = 1", "variables.new is absent in A and `1` in B"),
            ("['echo']", "['echo', 'nsd']", "matrix.kind is `echo` in A and `echo`, `nsd` in B"),
            ("'{kind}'", "'{kind}'\ncore = 0", "server.dns.core is absent in A and `0` in B"),
            (
                "load --server",
                "load  --once --server",
                "load.1.run is `load --server {dns.address} --duration {seconds}s` in A and \
                 `load --once --server {dns.address} --duration {seconds}s` in B",
            ),
            ("question = 'C'", "question = 'C'\nrepeats = 5", "repeats is 3 in A and 5 in B"),
            (
                "[[load]]",
                "[[server]]\nname = 'two'\nkind = 'echo'\n[[load]]",
                "server.two is absent in A and present in B",
            ),
        ] {
            assert_eq!(found(&TEXT.replace(from, to)), [expected]);
        }
    }
}
