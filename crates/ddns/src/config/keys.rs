//! The known keys, suggestions for mistyped keys, and line numbers.

use super::ConfigError;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Every table and its keys. A test compares them with a complete configuration.
pub(super) const TABLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "zone",
            "servers",
            "key_file",
            "state_file",
            "metrics_file",
            "metrics_listen",
            "check_period_s",
            "sandbox",
            "name",
            "public_address",
        ],
    ),
    ("name", &["name", "ttl", "ipv4", "ipv6", "interfaces", "private", "temporary", "withdraw_after_s"]),
    ("public_address", &["agree", "period_s", "private", "authorities_file", "probe"]),
    ("public_address.probe", &["dns", "name", "type", "class", "http", "stun"]),
];

/// The most similar known key, if at most a third of its letters, or two, differ.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(&key, known), *known));
    near.filter(|(distance, known)| *distance <= (known.len() / 3).max(2)).min().map(|(_, known)| known)
}

/// The current name of a key that older versions named otherwise.
fn current<'k>(path: &str, key: &'k str) -> &'k str {
    if path.is_empty() && key == "outside" { "public_address" } else { key }
}

/// The error for the first unknown key, if there is one.
pub(super) fn unknown_key(text: &str, table: &DeTable<'_>) -> Option<ConfigError> {
    let (key, span, path) = find_unknown("", table)?;
    let known = TABLES.iter().find(|(known, _)| *known == path).map_or(&[][..], |(_, keys)| keys);
    let scope = if path.is_empty() { "at the top level".to_owned() } else { format!("in [{path}]") };
    let hint = match nearest(&key, known) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known keys here: {}", known.join(", ")),
    };
    let what = format!("unknown key `{}` {scope}", key.chars().take(64).collect::<String>());
    Some(ConfigError { line: Some(line_at(text, span.start)), what, hint: Some(hint) })
}

fn find_unknown(path: &str, table: &DeTable<'_>) -> Option<(String, Range<usize>, String)> {
    let known = TABLES.iter().find(|(known, _)| *known == path)?.1;
    for (key, value) in table {
        let name = current(path, key.get_ref());
        if !known.contains(&name) {
            return Some((name.to_owned(), key.span(), path.to_owned()));
        }
        let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let found = match value.get_ref() {
            DeValue::Table(table) => find_unknown(&below, table),
            DeValue::Array(items) => {
                items.iter().filter_map(|item| item.get_ref().as_table()).find_map(|table| find_unknown(&below, table))
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The line number of a byte offset, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}
