//! Where in a text of TOML something stands, and which known key a mistyped one was meant to be.

use super::ConfigError;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Every table and its keys. A test holds it to the types that are read.
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
            "outside",
        ],
    ),
    ("name", &["name", "ttl", "ipv4", "ipv6", "interfaces", "private", "temporary", "withdraw_after_s"]),
    ("outside", &["agree", "period_s", "private", "authorities_file", "probe"]),
    ("outside.probe", &["dns", "name", "type", "class", "http", "stun"]),
];

/// How near a word is to be to be taken for another mistyped: a third of its letters may differ, at least two.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let near = known.iter().map(|known| (strsim::damerau_levenshtein(&key, known), *known));
    near.filter(|(distance, known)| *distance <= (known.len() / 3).max(2)).min().map(|(_, known)| known)
}

/// The error about the first key that no table has, if there is one.
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
        if !known.contains(&&**key.get_ref()) {
            return Some((key.get_ref().to_string(), key.span(), path.to_owned()));
        }
        let below = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
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

/// The line, from 1, of an byte.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}
