//! The known keys, and messages of the parser in plain words.

/// All tables with fixed keys. A test compares them with the structs.
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

/// Rewrites a parser message without Rust type names.
pub(super) fn plain_message(message: &str) -> String {
    let type_names = [
        ("a map", "a table such as { udp = 1.0 }"),
        ("f64", "a number"),
        ("u64", "a whole number"),
        ("u32", "a whole number"),
        ("u16", "a whole number up to 65535"),
        ("usize", "a whole number"),
        ("a sequence", "a list"),
    ];
    let message = message.replace("unknown variant", "unknown word");
    let found = type_names.iter().find_map(|(type_name, description)| {
        let start = message.strip_suffix(type_name)?;
        start.ends_with("expected ").then(|| format!("{start}{description}"))
    });
    found.unwrap_or(message)
}
