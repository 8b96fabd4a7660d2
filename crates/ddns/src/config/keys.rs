//! The known keys.

use toml_keys::KnownKeys;

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

/// The known keys.
pub(super) const KNOWN: KnownKeys<'_> = KnownKeys { tables: TABLES, renamed: &[("outside", "public_address")] };
