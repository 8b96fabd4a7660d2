//! The known keys, and their positions in a file.

use super::audit::Audit;
use super::rate_limit::RateLimit;
use super::tls::Tls;
use super::transfer::Transfer;
use super::zones::Zones;
use super::{Api, Dns, Log, Member, Peer, Tcp};

/// Every table and its keys, for suggestions in errors. A test compares them with the structs.
pub(super) const TABLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "id",
            "incarnation",
            "joined",
            "dir",
            "data_key_file",
            "wrapping_key_file",
            "log_level",
            "sandbox",
            "dns",
            "api",
            "peer",
            "log",
            "audit",
            "zones",
        ],
    ),
    ("dns", Dns::KEYS),
    ("dns.rate_limit", RateLimit::KEYS),
    ("dns.tcp", Tcp::KEYS),
    ("dns.transfer", Transfer::KEYS),
    ("dns.tls", Tls::KEYS),
    ("api", Api::KEYS),
    ("peer", Peer::KEYS),
    ("peer.members", Member::KEYS),
    ("log", Log::KEYS),
    ("audit", Audit::KEYS),
    ("zones", Zones::KEYS),
];

/// The first unknown key: its text, its position, and the path of its table.
pub(super) fn unknown_key(
    path: &str,
    table: &toml::de::DeTable<'_>,
) -> Option<(String, std::ops::Range<usize>, String)> {
    let known = TABLES.iter().find(|(known, _)| *known == path)?.1;
    for (key, value) in table {
        if !known.contains(&&**key.get_ref()) {
            return Some((key.get_ref().to_string(), key.span(), path.to_owned()));
        }
        let below = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        let found = match value.get_ref() {
            toml::de::DeValue::Table(table) => unknown_key(&below, table),
            toml::de::DeValue::Array(items) => {
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

/// The line number of a byte offset, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

/// The position of a key, for errors about its value.
pub(super) fn key_at(text: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let (before, _) = line.split_once(['=', ']']).unwrap_or(("", ""));
        let path = before.trim_start_matches('[').trim();
        if path.rsplit('.').next() == Some(key) {
            return Some(offset..offset + line.len());
        }
        offset += line.len();
    }
    None
}
