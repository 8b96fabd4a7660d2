//! Kea: a real lease to a real client in a namespace. Kea's DHCP-DDNS adds it to the zones.

use super::{Daemon, kill_the_leader, wait_until_gone, wait_until_there};
use crate::support::cluster::{Cluster, Scratch};
use crate::support::netns::Namespace;
use crate::support::nodes::Nodes;
use crate::support::ports::free_ports;
use crate::support::tools::{TsigText, daemon, has};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

const SERVER: &str = "kea-dhcp4";
const UPDATER: &str = "kea-dhcp-ddns";
/// One round for each node, and one in which the leader dies.
const ROUNDS: u64 = 4;
const REVERSE_ZONE: &str = "$TTL 60\n@ SOA ns.example.test. root.example.test. 1 3600 900 604800 60\n\
                            @ NS ns.example.test.\n";

/// Paths of the programs.
struct Programs {
    server: PathBuf,
    updater: PathBuf,
    client: PathBuf,
}

fn programs() -> Option<Programs> {
    let server = daemon(SERVER, "kea-dhcp4-server");
    let updater = daemon(UPDATER, "kea-dhcp-ddns-server");
    let client = daemon("udhcpc", "udhcpc");
    Some(Programs { server: server?, updater: updater?, client: client? })
}

/// The reverse zone that contains the address, named after its first two bytes.
fn reverse_zone(address: Ipv4Addr) -> String {
    let [first, second, ..] = address.octets();
    format!("{second}.{first}.in-addr.arpa")
}

fn pointer(address: Ipv4Addr) -> String {
    let [a, b, c, d] = address.octets();
    format!("{d}.{c}.{b}.{a}.in-addr.arpa.")
}

/// DHCP-DDNS tries `servers` in this order.
fn updater_config(cluster: &Cluster, servers: &[u64], port: u16, reverse: &str) -> String {
    let TsigText { algorithm, name, secret } = TsigText::of(&cluster.update_key());
    let algorithm = algorithm.to_uppercase();
    let servers: Vec<String> = servers
        .iter()
        .map(|&id| format!("{{ \"ip-address\": \"127.0.0.1\", \"port\": {} }}", cluster.dns(id).port()))
        .collect();
    let servers = servers.join(", ");
    let domain =
        |apex: &str| format!("{{ \"name\": \"{apex}\", \"key-name\": \"{name}\", \"dns-servers\": [ {servers} ] }}");
    format!(
        "{{ \"DhcpDdns\": {{ \"ip-address\": \"127.0.0.1\", \"port\": {port}, \"dns-server-timeout\": 1000,
          \"ncr-protocol\": \"UDP\", \"ncr-format\": \"JSON\",
          \"tsig-keys\": [ {{ \"name\": \"{name}\", \"algorithm\": \"{algorithm}\", \"secret\": \"{secret}\" }} ],
          \"forward-ddns\": {{ \"ddns-domains\": [ {} ] }},
          \"reverse-ddns\": {{ \"ddns-domains\": [ {} ] }},
          \"loggers\": [ {{ \"name\": \"{UPDATER}\", \"severity\": \"DEBUG\", \"debuglevel\": 50,
                           \"output_options\": [ {{ \"output\": \"stdout\", \"flush\": true }} ] }} ] }} }}",
        domain("example.test."),
        domain(&format!("{reverse}.")),
    )
}

fn server_config(namespace: &Namespace, port: u16) -> String {
    let [a, b, c, d] = namespace.here.octets();
    format!(
        "{{ \"Dhcp4\": {{ \"interfaces-config\": {{ \"interfaces\": [ \"{near}\" ], \"dhcp-socket-type\": \"raw\" }},
          \"lease-database\": {{ \"type\": \"memfile\", \"persist\": false }}, \"valid-lifetime\": 600,
          \"subnet4\": [ {{ \"id\": 1, \"subnet\": \"{a}.{b}.{c}.{net}/30\",
                           \"pools\": [ {{ \"pool\": \"{there} - {there}\" }} ] }} ],
          \"dhcp-ddns\": {{ \"enable-updates\": true, \"server-ip\": \"127.0.0.1\", \"server-port\": {port} }},
          \"ddns-send-updates\": true, \"ddns-qualifying-suffix\": \"example.test.\",
          \"loggers\": [ {{ \"name\": \"{SERVER}\", \"severity\": \"INFO\",
                           \"output_options\": [ {{ \"output\": \"stdout\", \"flush\": true }} ] }} ] }} }}",
        near = namespace.near,
        net = d & !3,
        there = namespace.there,
    )
}

fn start(name: &'static str, program: &Path, config: &str, scratch: &Scratch) -> Daemon {
    let folder = scratch.path().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let file = scratch.file(&format!("{name}.json"), config);
    let mut command = Command::new(program);
    command.args(["-c", &file]);
    for variable in ["KEA_PIDFILE_DIR", "KEA_LOCKFILE_DIR", "KEA_DHCP_DATA_DIR"] {
        command.env(variable, &folder);
    }
    Daemon::start(name, &mut command, &folder)
}

#[test]
fn keas_leases_are_on_every_node_until_they_are_released() {
    let (Some(programs), true) = (programs(), has("dig")) else { return };
    let Some(namespace) = Namespace::make() else { return };
    let scratch = Scratch::new("kea");
    let mut cluster = Cluster::start("kea", 3, &[]);
    let reverse = reverse_zone(namespace.there);
    let zone = format!("{reverse}={}", scratch.file("reverse.zone", REVERSE_ZONE));
    let added = cluster.run(&["zone", "add", &zone]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    cluster.settle();
    let mut nodes = Nodes::take_over(&mut cluster);

    let port = free_ports(1);
    let server = start(SERVER, &programs.server, &server_config(&namespace, port), &scratch);
    server.wait_for_output("DHCP4_STARTED");
    for first in 1..=ROUNDS {
        // Each round begins with another server. The last round begins with a leader that has just died.
        let mut dead = None;
        let mut order: Vec<u64> = (first..=3).chain(1..first.min(4)).collect();
        if first == ROUNDS {
            let leader = nodes.leader(&cluster);
            order.sort_by_key(|&id| id != leader);
        }
        let config = updater_config(&cluster, &order, port, &reverse);
        let updater = start(UPDATER, &programs.updater, &config, &scratch);
        updater.wait_for_output("DHCP_DDNS_STARTED");
        if first == ROUNDS {
            dead = Some(kill_the_leader(&cluster, &mut nodes));
        }
        let host = format!("host-{first}");
        let (owner, pointer) = (format!("{host}.example.test."), pointer(namespace.there));
        let mut client = namespace.command(programs.client.to_str().unwrap());
        // The client takes a lease, configures nothing with it, and releases it when it is told to exit.
        let folder = scratch.path().to_owned();
        client.args(["-f", "-R", "-t", "20", "-T", "1", "-A", "1", "-s", "/bin/true", "-i", &namespace.far]);
        let client = Daemon::start("udhcpc", client.args(["-x", &format!("hostname:{host}")]), &folder);
        client.wait_for_output(&format!("lease of {} obtained", namespace.there));
        let survivors = dead.as_ref().map_or_else(|| cluster.ids().collect(), |(_, survivors)| survivors.clone());
        for (owner, rtype) in [(&owner, "A"), (&owner, "DHCID"), (&pointer, "PTR")] {
            wait_until_there(&cluster, survivors.iter().copied(), owner, rtype);
        }
        assert_eq!(super::answer(&cluster, survivors[0], &owner, "A"), [namespace.there.to_string().as_str()]);
        assert_eq!(super::answer(&cluster, survivors[0], &pointer, "PTR"), [owner.as_str()]);
        updater.wait_for_output("DHCP_DDNS_ADD_SUCCEEDED");
        if let Some((leader, _)) = dead {
            nodes.start(&cluster, leader);
            wait_until_there(&cluster, [leader], &owner, "A");
            cluster.settle();
        }
        assert_eq!(client.end(), Some(0), "udhcpc, with the lease given back");
        for (owner, rtype) in [(&owner, "A"), (&owner, "DHCID"), (&pointer, "PTR")] {
            wait_until_gone(&cluster, owner, rtype);
        }
        updater.wait_for_output("DHCP_DDNS_REMOVE_SUCCEEDED");
        assert_eq!(updater.end(), Some(0), "Kea's DHCP-DDNS");
    }
    assert_eq!(server.end(), Some(0), "Kea's DHCP server");
    cluster.settle();
}
