//! A configuration with every key, and the errors after one of them is changed.

use super::keys::TABLES;
use super::*;
use crate::limits::LISTEN_ADDRESSES_MAX;

const GOOD: &str = r#"id = 1
incarnation = 0
joined = false
dir = "."
data_key_file = "../data.key"
wrapping_key_file = "w"
log_level = "debug"
sandbox = "off"
[dns]
listen = ["127.0.0.1:5301", "[::1]:5301"]
udp_workers = 2
udp_payload = 1232
nsid = "a"
chaos_id = "b"
chaos_version = "c"
cookie_secrets_file = "cookies"
[dns.tcp]
connections_max = 5
connections_per_client_max = 4
idle_ms = 3
memory_bytes_max = 1048576
handshakes_per_second = 1
handshakes_burst = 2
[dns.tls]
cert_file = "c.pem"
key_file = "c.key"
dot = ["127.0.0.1:853"]
doh = ["127.0.0.1:443"]
doq = ["[::1]:853"]
versions = ["1.2", "1.3"]
[api]
listen = "127.0.0.1:8054"
token_file = "../api.token"
socket = "s"
hosts = ["node-1.example"]
[peer]
listen = "127.0.0.1:21001"
advertise = "node-1.example:21001"
ca_file = "../ca.pem"
cert_file = "node.pem"
key_file = "node.key"
[[peer.members]]
id = 1
address = "127.0.0.1:21001"
[log]
checkpoint_bytes = 65536
keep_entries = 100
keep_bytes = 5
scrub_interval_s = 6
[dns.rate_limit]
per_second = 5
burst = 6
all_per_second = 7
all_burst = 8
slip = 2
exempt = ["10.0.0.0/8"]
ipv4_prefix = 32
ipv6_prefix = 64
address_per_second = 9
address_burst = 10
[dns.transfer]
bytes_per_second_min = 7
grace_ms = 8
held_bytes_max = 9
[audit]
bytes_max = 1048577
[zones]
memory_bytes_max = 16777217
key_growth_bytes_max = 10
"#;

fn error(text: &str) -> String {
    Config::parse(text, Path::new("n.toml")).unwrap_err().to_string()
}

/// The first line of GOOD with this text.
fn line_of(part: &str) -> usize {
    GOOD[..GOOD.find(part).unwrap()].matches('\n').count() + 1
}

#[test]
fn a_node_may_have_no_dns_addresses() {
    let file = Path::new("node/catamaran.toml");
    let of = |listen: &str| Config::parse(&GOOD.replace(r#"["127.0.0.1:5301", "[::1]:5301"]"#, listen), file);
    let encrypted = of("[]").unwrap();
    // It has some for DNS over TLS.
    assert!(encrypted.dns.listen.is_empty() && encrypted.answers_queries());
    let mut none = encrypted;
    none.dns.tls = None;
    assert!(!none.answers_queries() && Config::parse(&none.to_text(), file).unwrap() == none);
    let many = format!("{:?}", vec!["127.0.0.1:53"; LISTEN_ADDRESSES_MAX + 1]);
    assert!(of(&many).unwrap_err().why.contains("takes at most"));
}

#[test]
fn the_known_keys_match_the_structs() {
    let config = Config::parse(GOOD, Path::new("n.toml")).unwrap();
    let text = config.to_text();
    assert_eq!(Config::parse(&text, Path::new("n.toml")).unwrap(), config, "{text}");
    // GOOD has every key. If the line of one is removed, no other key becomes unknown.
    let count: usize = TABLES.iter().map(|(_, keys)| keys.len()).sum();
    let keys = GOOD.lines().filter(|line| line.contains('=')).count();
    let tables = GOOD.lines().filter(|line| line.starts_with('[')).count();
    assert_eq!(count, keys + tables);
}

#[test]
fn an_unknown_key_is_an_error_with_a_suggestion() {
    let text = error(&GOOD.replace("udp_payload = 1232", "udp_paylaod = 1232"));
    assert!(text.contains("n.toml:12"), "{text}");
    assert!(text.contains("unknown key `udp_paylaod` in [dns]"), "{text}");
    assert!(text.contains("did you mean `udp_payload`?"), "{text}");
    let text = error(&GOOD.replace("address =", "adress ="));
    assert!(text.contains(&format!("n.toml:{}", line_of("address ="))) && text.contains("`address`"), "{text}");
    let text = error(&GOOD.replace("[api]", "[apis]"));
    assert!(text.contains(&format!("n.toml:{}", line_of("[api]"))) && text.contains("`api`"), "{text}");
    let text = error(&GOOD.replace("nsid", "zzzzzzzzzzzzzzzz"));
    assert!(text.contains("known keys here: listen, udp_workers"), "{text}");
}

#[test]
fn the_reference_page_has_every_key() {
    let guide = include_str!("../../../docs/reference/configuration.md");
    for (table, keys) in TABLES.iter().filter(|(table, _)| *table != "peer.members") {
        for key in keys.iter().filter(|key| !TABLES.iter().any(|(other, _)| other == *key)) {
            let path = if table.is_empty() { (*key).to_owned() } else { format!("{table}.{key}") };
            let is_table = TABLES.iter().any(|(other, _)| *other == path);
            assert!(
                is_table || guide.contains(&format!("`{path}`")) || guide.contains(&format!("`[[{path}]]`")),
                "{path}"
            );
        }
    }
}

#[test]
fn errors_of_values_have_their_line() {
    for (from, to, why) in [
        ("udp_payload = 1232", "udp_payload = 100", "512 to 4096"),
        ("id = 1\ninc", "id = 0\ninc", "1 or more"),
        ("id = 1\naddress", "id = 7\naddress", "not among the members"),
        ("127.0.0.1:8054", "localhost:8054", "socket address"),
        ("idle_ms = 3", "idle_ms = 0", "1 or more"),
        ("checkpoint_bytes = 65536", "checkpoint_bytes = 1", "65536 or more"),
        ("127.0.0.1:443", "127.0.0.1:853", "in both `dot` and `doh`"),
        ("[\"1.2\", \"1.3\"]", "[]", "needs"),
        ("[\"1.2\", \"1.3\"]", "[\"1.1\"]", "1.2"),
        ("udp_workers = 2", "udp_workers = ", ""),
        ("node-1.example:21001", "0.0.0.0:21001", "can connect to"),
        ("node-1.example:21001", "node-1.example", "not HOST:PORT"),
        ("handshakes_burst = 2", "handshakes_burst = 0", "1 to 100000000"),
        ("memory_bytes_max = 1048576", "memory_bytes_max = 1000", "1048576 or more"),
        ("all_burst = 8", "all_burst = 0", "1 to 100000000"),
        ("all_per_second = 7", "all_per_second = 100000001", "at most 100000000"),
        ("address_burst = 10", "address_burst = 0", "1 to 100000000"),
        ("held_bytes_max = 9", "held_bytes_max = 0", "1 or more"),
        ("memory_bytes_max = 16777217", "memory_bytes_max = 5", "16777216 or more"),
        ("bytes_max = 1048577", "bytes_max = 1048575", "1048576 or more"),
        ("bytes_per_second_min = 7", "bytes_per_second_min = 0", "1 or more"),
    ] {
        let text = error(&GOOD.replace(from, to));
        // An error about several keys of a table names the line of the table.
        let table = GOOD[..GOOD.find(from).unwrap()].rfind("\n[").map_or(1, |head| line_of(&GOOD[head + 1..]));
        let is_at = |line: usize| text.contains(&format!("n.toml:{line}\n"));
        assert!((is_at(line_of(from)) || is_at(table)) && text.contains(why), "{to}: {text}");
    }
    assert!(error(&GOOD.replace("dir = \".\"\n", "")).contains("missing field `dir`"));
}
