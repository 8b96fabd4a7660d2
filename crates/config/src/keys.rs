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
