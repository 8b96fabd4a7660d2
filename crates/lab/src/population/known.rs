//! Unknown keys are errors that name the known key that was most likely meant.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Letters in common, as strsim counts them, from which on a word is taken for another mistyped.
const LIKENESS_MIN: f64 = 0.75;

/// Every table and its keys. A test holds it to the structs.
pub(super) const TABLES: &[(&str, &[&str])] = &[
    ("", &["queries", "ports", "clients"]),
    (
        "queries",
        &[
            "pattern",
            "names",
            "popularity",
            "exponent",
            "nxdomain_share",
            "types",
            "edns_share",
            "dnssec_ok_share",
            "payload",
        ],
    ),
    ("ports", &["udp", "tcp", "dot", "doh", "doq"]),
    ("clients", &["name", "count", "transports", "servers", "rate", "think", "connections", "bursts", "active"]),
    ("clients.rate", &["distribution", "mean", "sigma", "exponent", "quantiles", "arrivals"]),
    ("clients.think", &["distribution", "mean", "sigma", "exponent", "quantiles"]),
    (
        "clients.connections",
        &["reuse", "idle_timeout_s", "queries_max", "in_flight_max", "resumption", "early_data", "tcp_fallback"],
    ),
    ("clients.bursts", &["on_s", "off_s"]),
    ("clients.active", &["start_s", "ramp_s", "stop_s"]),
];

/// Tables whose keys are data: type mnemonics, transports, servers.
const OPEN: [&str; 3] = ["queries.types", "clients.transports", "clients.servers"];

/// A sentence about the first key that no table knows, and where it stands.
pub(super) fn unknown_key(path: &str, table: &DeTable<'_>) -> Option<(String, Range<usize>)> {
    let known = TABLES.iter().find(|(known, _)| *known == path)?.1;
    for (key, value) in table {
        let name: &str = key.get_ref();
        if !known.contains(&name) {
            let scope = if path.is_empty() { "at the top level".to_owned() } else { format!("in [{path}]") };
            let hint = match nearest(name, known) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known keys here: {}", known.join(", ")),
            };
            return Some((format!("unknown key `{name}` {scope}; {hint}"), key.span()));
        }
        let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        if OPEN.contains(&below.as_str()) {
            continue;
        }
        let found = match value.get_ref() {
            DeValue::Table(table) => unknown_key(&below, table),
            DeValue::Array(items) => {
                items.iter().filter_map(|item| item.get_ref().as_table()).find_map(|table| unknown_key(&below, table))
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn nearest<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let key = key.to_ascii_lowercase();
    known
        .iter()
        .map(|known| (strsim::jaro_winkler(&key, known), *known))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

/// Rewrites a parser message without Rust type names.
pub(super) fn plain(message: &str) -> String {
    let words = [
        ("a map", "a table such as { udp = 1.0 }"),
        ("f64", "a number"),
        ("u64", "a whole number"),
        ("u32", "a whole number"),
        ("u16", "a whole number up to 65535"),
        ("usize", "a whole number"),
        ("a sequence", "a list"),
    ];
    let message = message.replace("unknown variant", "unknown word");
    let found = words.iter().find_map(|(word, plain)| {
        let start = message.strip_suffix(word)?;
        start.ends_with("expected ").then(|| format!("{start}{plain}"))
    });
    found.unwrap_or(message)
}
