//! BIND, Knot and NSD as secondaries: each takes the zone from a node, and follows it.

use crate::support::cluster::{Cluster, Scratch, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::message::name;
use crate::support::ports::free_ports;
use crate::support::tools::{TsigWords, dig, has, missing, transfer, update};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::{Opcode, Rtype};

/// A secondary that runs; ends with this value.
struct Secondary {
    program: &'static str,
    address: SocketAddr,
    child: Child,
    output: PathBuf,
}

impl Drop for Secondary {
    fn drop(&mut self) {
        kill("TERM", self.child.id());
        let _ = self.child.wait();
        if std::thread::panicking() {
            let said = std::fs::read_to_string(&self.output).unwrap_or_default();
            let tail: Vec<&str> = said.lines().rev().take(15).collect();
            eprintln!("--- the end of what {} said", self.program);
            tail.iter().rev().for_each(|line| eprintln!("{line}"));
        }
    }
}

/// What a configuration is filled with.
struct Fill<'a> {
    folder: &'a str,
    own: SocketAddr,
    primary: SocketAddr,
    key: &'a str,
    secret: &'a str,
}

/// A server of Debian.
struct Program {
    name: &'static str,
    package: &'static str,
    configure: fn(&Fill<'_>) -> String,
    arguments: &'static [&'static str],
}

const PROGRAMS: [Program; 3] = [
    Program { name: "named", package: "bind9", configure: named, arguments: &["-g", "-n", "1", "-c"] },
    Program { name: "knotd", package: "knot", configure: knotd, arguments: &["-c"] },
    Program { name: "nsd", package: "nsd", configure: nsd, arguments: &["-d", "-c"] },
];

/// IXFR over TCP.
fn named(Fill { folder, own, primary, key, secret }: &Fill<'_>) -> String {
    format!(
        "key \"{key}\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};
         options {{ directory \"{folder}\"; pid-file \"{folder}/pid\"; session-keyfile \"{folder}/session.key\";
           listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no;
           notify no; allow-transfer {{ any; }}; min-refresh-time 1; max-refresh-time 1; min-retry-time 1;
           max-retry-time 1; request-ixfr yes; }};
         controls {{ }};
         zone \"example.test\" {{ type secondary; file \"zone\";
           primaries {{ 127.0.0.1 port {from} key \"{key}\"; }}; }};",
        port = own.port(),
        from = primary.port(),
    )
}

/// IXFR over TCP.
fn knotd(Fill { folder, own, primary, key, secret }: &Fill<'_>) -> String {
    format!(
        "server:\n    rundir: \"{folder}\"\n    listen: 127.0.0.1@{port}\ndatabase:\n    storage: \"{folder}\"\n\
         log:\n  - target: stderr\n    any: info\n\
         key:\n  - id: {key}\n    algorithm: hmac-sha256\n    secret: {secret}\n\
         remote:\n  - id: primary\n    address: 127.0.0.1@{from}\n    key: {key}\n\
         acl:\n  - id: all\n    address: 127.0.0.1\n    action: transfer\n\
         zone:\n  - domain: example.test\n    storage: \"{folder}\"\n    master: primary\n    acl: all\n    \
         refresh-min-interval: 2\n    \
         refresh-max-interval: 2\n    semantic-checks: off\n",
        port = own.port(),
        from = primary.port(),
    )
}

/// IXFR over UDP first. It does not look often enough by itself, so it is notified.
fn nsd(Fill { folder, own, primary, key, secret }: &Fill<'_>) -> String {
    format!(
        "server:\n  ip-address: 127.0.0.1@{port}\n  zonesdir: \"{folder}\"\n  pidfile: \"{folder}/pid\"\n  \
         xfrdfile: \"{folder}/xfrd\"\n  xfrdir: \"{folder}\"\n  zonelistfile: \"{folder}/zones\"\n  username: \"\"\n  \
         database: \"\"\n  server-count: 1\n  verbosity: 2\nremote-control:\n  control-enable: no\n\
         key:\n  name: \"{key}\"\n  algorithm: hmac-sha256\n  secret: \"{secret}\"\n\
         zone:\n  name: \"example.test\"\n  zonefile: \"zone\"\n  request-xfr: UDP 127.0.0.1@{from} {key}\n  \
         allow-axfr-fallback: yes\n  provide-xfr: 127.0.0.1 NOKEY\n  allow-notify: 127.0.0.1 NOKEY\n",
        port = own.port(),
        from = primary.port(),
    )
}

/// Starts one that is installed.
fn start(index: usize, scratch: &Scratch, primary: SocketAddr, key: (&str, &str), port: u16) -> Option<Secondary> {
    let Program { name: program, package, configure, arguments } = PROGRAMS[index];
    let path = [program.to_owned(), format!("/usr/sbin/{program}")];
    let Some(path) = path.into_iter().find(|path| Command::new(path).arg("-V").output().is_ok()) else {
        missing(program, &format!("apt-get install {package}"));
        return None;
    };
    let folder = scratch.path().join(program);
    std::fs::create_dir_all(&folder).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let fill = Fill { folder: folder.to_str().unwrap(), own: address, primary, key: key.0, secret: key.1 };
    let config = scratch.file(&format!("{program}.conf"), &configure(&fill));
    let output = scratch.path().join(format!("{program}.output"));
    let file = std::fs::File::create(&output).unwrap();
    let child = Command::new(path)
        .args(arguments)
        .arg(config)
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn()
        .unwrap();
    Some(Secondary { program, address, child, output })
}

/// The serial that a server has of the zone.
fn serial(server: SocketAddr) -> Option<u32> {
    dig(server, &["example.test", "SOA", "+short", "+time=1"]).split(' ').nth(2)?.parse().ok()
}

/// Says that the zone may have changed (RFC 1996), as an operator's script would until nodes do.
fn notify(server: SocketAddr) {
    let message = MessageBuilder::query(1, name("example.test.").as_ref(), Rtype::SOA)
        .header(|header| (header.opcode, header.aa) = (Opcode(4), true));
    exchange(Transport::Udp, server, &message.build(), Duration::from_millis(300));
}

/// Changes the zone so many times, and looks each time whether the secondaries follow: from small changes to those that
/// are larger than a datagram. `before` is how often it was changed before; gives how often by now.
fn change_and_follow(cluster: &Cluster, secondaries: &[Secondary], before: u32, rounds: u32) -> u32 {
    for round in 0..rounds {
        let changes = before + round;
        if round > 0 {
            let lines: String = (0..round * round * 20)
                .map(|n| {
                    format!("update add n{n}.r{changes}.example.test. 60 TXT \"a text of some length, number {n}\"\n")
                })
                .collect();
            let through = u64::from(round - 1) % 3 + 1;
            let script = format!("zone example.test.\nupdate delete n0.r{}.example.test.\n{lines}", changes - 1);
            update("nsupdate", cluster.dns(through), &cluster.update_key(), &script).unwrap();
        }
        cluster.settle();
        let wanted = serial(cluster.dns(1)).unwrap();
        assert_eq!(wanted, 1 + changes);
        for Secondary { program, address, .. } in secondaries {
            wait_for(&format!("serial {wanted} on {program}"), || {
                notify(*address);
                (serial(*address) == Some(wanted)).then_some(())
            });
            let ours = transfer(cluster.dns(2), Some(&cluster.update_key()), "example.test");
            assert_eq!(transfer(*address, None, "example.test"), ours, "{program}");
        }
    }
    before + rounds - 1
}

#[test]
fn bind_knot_and_nsd_follow_as_secondaries_of_each_node() {
    if !has("dig") || !has("nsupdate") {
        return;
    }
    let cluster = Cluster::start("secondaries", 3, &[]);
    let TsigWords { name, secret, .. } = TsigWords::of(&cluster.update_key());
    let key = (name.trim_end_matches('.'), secret.as_str());
    let mut changes = 0;
    // Each takes it from another node; then from the next one, and from the last: all of it, and what changes.
    for (shift, rounds) in [(0, 4), (1, 2), (2, 2)] {
        let scratch = Scratch::new(&format!("secondaries-{shift}"));
        let port = free_ports(3);
        let secondaries: Vec<Secondary> = (0..PROGRAMS.len())
            .filter_map(|index| {
                let node = (index as u64 + shift) % cluster.nodes + 1;
                start(index, &scratch, cluster.dns(node), key, port + index as u16)
            })
            .collect();
        changes = change_and_follow(&cluster, &secondaries, changes, rounds);
    }
    assert_eq!(cluster.ids().map(|id| cluster.metric(id, "catamaran_panics_total")).sum::<u64>(), 0);
}
