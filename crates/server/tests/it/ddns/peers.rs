//! The same client against other servers: BIND and Knot, with a wildcard in the zone.

use super::{NAME, can_test, run, write_config_for};
use crate::support::cluster::Scratch;
use crate::support::netns::Namespace;
use crate::support::peers::start_peer;
use crate::support::ports::free_ports;
use crate::support::tools::{dig, nsupdate};
use std::net::SocketAddr;
use std::path::Path;
use testbed::{Kind, Peer, ServedZone, Setup, UpdateKey};

const ZONE: &str = "$ORIGIN example.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\n\
                    ns A 192.0.2.53\n* A 203.0.113.7\n";

fn key() -> UpdateKey {
    UpdateKey { name: "home.".into(), secret: (0..32).collect() }
}

/// Starts the server if it is installed.
fn start(kind: Kind, scratch: &Scratch, own: SocketAddr) -> Option<Peer> {
    let zones = vec![ServedZone::new("example.test.", scratch.file("zone", ZONE))];
    start_peer(kind, &Setup { keys: vec![key()], ..Setup::new(scratch.path().join(kind.label()), own, zones) })
}

/// The server's answer, which may be its wildcard's record.
fn has(server: SocketAddr) -> String {
    dig(server, &["+short", NAME, "A"]).trim().to_owned()
}

fn keeps_a_name_on(kind: Kind) {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let program = kind.label();
    let scratch = Scratch::new(&format!("ddns-{program}"));
    let server = SocketAddr::from((namespace.here, free_ports(1)));
    let Some(_peer) = start(kind, &scratch, server) else { return };
    let key = scratch.secret("home.key", &key().bind_text());
    let config = write_config_for(Path::new(&key), &scratch, &[server.to_string()], "");
    namespace.add_interface("wan");
    let once = |code: i32| {
        let said = run(&namespace, &config, &["--once"]);
        assert_eq!(said.status.code(), Some(code), "{program}: {}", String::from_utf8_lossy(&said.stderr));
    };
    let update = |lines: &str| nsupdate(server, Path::new(&key), &format!("zone example.test\n{lines}")).unwrap();

    assert_eq!(has(server), "203.0.113.7", "the answer is not from the wildcard");
    namespace.ip("addr add 198.51.100.1/24 dev wan");
    once(0);
    assert_eq!(has(server), "198.51.100.1");
    namespace.ip("addr flush dev wan scope global");
    namespace.ip("addr add 198.51.100.2/24 dev wan");
    once(0);
    assert_eq!(has(server), "198.51.100.2");
    // The record is removed. The wildcard's record is visible instead, and `ddns` continues.
    update(&format!("update delete {NAME} A"));
    assert_eq!(has(server), "203.0.113.7");
    namespace.ip("addr flush dev wan scope global");
    namespace.ip("addr add 198.51.100.3/24 dev wan");
    once(0);
    assert_eq!(has(server), "198.51.100.3");
    // The record is replaced by another.
    update(&format!("update delete {NAME} A\nupdate add {NAME} 60 A 192.0.2.99"));
    namespace.ip("addr flush dev wan scope global");
    namespace.ip("addr add 198.51.100.4/24 dev wan");
    once(5);
    assert_eq!(has(server), "192.0.2.99");
    // The name becomes an alias, beside which no other record can exist.
    update(&format!("update delete {NAME} A\nupdate add {NAME} 60 CNAME ns.example.test."));
    once(5);
    assert!(has(server).starts_with("ns.example.test."));
}

#[test]
fn a_name_is_kept_on_bind() {
    keeps_a_name_on(Kind::Bind);
}

#[test]
fn a_name_is_kept_on_knot() {
    keeps_a_name_on(Kind::Knot);
}
