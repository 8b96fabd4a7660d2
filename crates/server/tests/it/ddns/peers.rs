//! The same client against servers that are not ours: BIND and Knot, with a wildcard in the zone.

use super::{NAME, can_test, run, write_config_for};
use crate::support::cluster::{Scratch, kill, wait_for};
use crate::support::netns::Namespace;
use crate::support::ports::free_ports;
use crate::support::tools::{dig, missing, nsupdate};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const SECRET: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const ZONE: &str = "$ORIGIN example.test.\n$TTL 60\n@ SOA ns hostmaster 1 3600 900 604800 60\n@ NS ns\n\
                    ns A 192.0.2.53\n* A 203.0.113.7\n";

/// A server that ends with the test.
struct Peer(Child);

impl Drop for Peer {
    fn drop(&mut self) {
        kill("TERM", self.0.id());
        let _ = self.0.wait();
    }
}

fn named(folder: &str, own: SocketAddr) -> String {
    format!(
        "key \"home\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};
         options {{ directory \"{folder}\"; pid-file \"{folder}/pid\"; session-keyfile \"{folder}/session.key\";
           listen-on port {} {{ {}; }}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; notify no; }};
         controls {{ }};
         zone \"example.test\" {{ type primary; file \"zone\"; allow-update {{ key \"home\"; }}; }};",
        own.port(),
        own.ip(),
    )
}

fn knotd(folder: &str, own: SocketAddr) -> String {
    format!(
        "server:\n    rundir: \"{folder}\"\n    listen: {}@{}\ndatabase:\n    storage: \"{folder}\"\n\
         log:\n  - target: stderr\n    any: info\n\
         key:\n  - id: home\n    algorithm: hmac-sha256\n    secret: {SECRET}\n\
         acl:\n  - id: home\n    key: home\n    action: update\n\
         zone:\n  - domain: example.test\n    storage: \"{folder}\"\n    file: zone\n    acl: home\n",
        own.ip(),
        own.port(),
    )
}

/// Starts one that is installed.
fn start(program: &str, scratch: &Scratch, own: SocketAddr) -> Option<Peer> {
    let (arguments, package): (&[&str], _) = match program {
        "named" => (&["-g", "-n", "1", "-c"], "bind9"),
        _ => (&["-c"], "knot"),
    };
    let paths = [program.to_owned(), format!("/usr/sbin/{program}")];
    let Some(path) = paths.into_iter().find(|path| Command::new(path).arg("-V").output().is_ok()) else {
        missing(program, &format!("apt-get install {package}"));
        return None;
    };
    let folder = scratch.path().join(program);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("zone"), ZONE).unwrap();
    let folder = folder.to_str().unwrap();
    let text = if program == "named" { named(folder, own) } else { knotd(folder, own) };
    let file = scratch.file(&format!("{program}.conf"), &text);
    let output = std::fs::File::create(scratch.path().join(format!("{program}.output"))).unwrap();
    let mut command = Command::new(path);
    command.args(arguments).arg(file).stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let peer = Peer(command.spawn().unwrap());
    wait_for(program, || dig(own, &["+short", "+time=1", "example.test.", "SOA"]).contains("hostmaster").then_some(()));
    Some(peer)
}

/// What the server has, its wildcard's record included.
fn has(server: SocketAddr) -> String {
    dig(server, &["+short", NAME, "A"]).trim().to_owned()
}

fn keeps_a_name_on(program: &str) {
    if !can_test() {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new(&format!("ddns-{program}"));
    let server = SocketAddr::from((namespace.here, free_ports(1)));
    let Some(_peer) = start(program, &scratch, server) else { return };
    let key = scratch.secret("home.key", &format!("key \"home\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};"));
    let config = write_config_for(Path::new(&key), &scratch, &[server.to_string()], "");
    namespace.add_interface("wan");
    let once = |code: i32| {
        let said = run(&namespace, &config, &["--once"]);
        assert_eq!(said.status.code(), Some(code), "{program}: {}", String::from_utf8_lossy(&said.stderr));
    };
    let update = |lines: &str| nsupdate(server, Path::new(&key), &format!("zone example.test\n{lines}")).unwrap();

    assert_eq!(has(server), "203.0.113.7", "the wildcard's");
    namespace.ip("addr add 198.51.100.1/24 dev wan");
    once(0);
    assert_eq!(has(server), "198.51.100.1");
    namespace.ip("addr flush dev wan scope global");
    namespace.ip("addr add 198.51.100.2/24 dev wan");
    once(0);
    assert_eq!(has(server), "198.51.100.2");
    // Somebody removes it: what is seen is the wildcard's, and no reason to stop.
    update(&format!("update delete {NAME} A"));
    assert_eq!(has(server), "203.0.113.7");
    namespace.ip("addr flush dev wan scope global");
    namespace.ip("addr add 198.51.100.3/24 dev wan");
    once(0);
    assert_eq!(has(server), "198.51.100.3");
    // Somebody writes another one.
    update(&format!("update delete {NAME} A\nupdate add {NAME} 60 A 192.0.2.99"));
    namespace.ip("addr flush dev wan scope global");
    namespace.ip("addr add 198.51.100.4/24 dev wan");
    once(5);
    assert_eq!(has(server), "192.0.2.99");
    // And an alias, beside which nothing can stand.
    update(&format!("update delete {NAME} A\nupdate add {NAME} 60 CNAME ns.example.test."));
    once(5);
    assert!(has(server).starts_with("ns.example.test."));
}

#[test]
fn a_name_is_kept_on_bind() {
    keeps_a_name_on("named");
}

#[test]
fn a_name_is_kept_on_knot() {
    keeps_a_name_on("knotd");
}
