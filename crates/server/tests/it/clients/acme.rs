//! A certificate by ACME's DNS challenge. certbot with its `dns-rfc2136`, or lego with its `dnsupdate`, writes the
//! record that Pebble queries.

use super::{Daemon, kill_the_leader, wait_until_gone, wait_until_one_is_there, wait_until_there};
use crate::all_live::set_all_live;
use crate::support::cluster::{Cluster, Scratch};
use crate::support::nodes::cluster_of_nodes;
use crate::support::ports::free_ports;
use crate::support::tools::{TsigText, fetched, has, is_full};
use std::path::Path;
use std::process::Command;

/// How to install the programs by hand.
const INSTALL: &str = "cargo xtask test --full fetches it";

/// Pebble, an ACME server for tests. It queries a node for the records.
fn pebble(program: &str, cluster: &Cluster, node: u64, scratch: &Scratch, port: u16) -> Daemon {
    let folder = scratch.path();
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = scratch.file("pebble.pem", &own.cert.pem());
    let key = scratch.file("pebble.key", &own.signing_key.serialize_pem());
    let config = format!(
        "{{ \"pebble\": {{ \"listenAddress\": \"127.0.0.1:{port}\", \"managementListenAddress\": \"127.0.0.1:{}\",
          \"certificate\": \"{certificate}\", \"privateKey\": \"{key}\", \"httpPort\": {}, \"tlsPort\": {},
          \"ocspResponderURL\": \"\", \"externalAccountBindingRequired\": false }} }}",
        port + 1,
        port + 2,
        port + 3,
    );
    let config = scratch.file("pebble.json", &config);
    let mut command = Command::new(program);
    command.args(["-config", &config, "-dnsserver", &cluster.dns(node).to_string()]);
    command.env("PEBBLE_VA_NOSLEEP", "1").env("PEBBLE_WFE_NONCEREJECT", "0").current_dir(folder);
    Daemon::start("pebble", &mut command, folder)
}

fn certbot(program: &str, cluster: &Cluster, node: u64, scratch: &Scratch, port: u16, wait_s: u32) -> Command {
    let TsigText { algorithm, name, secret } = TsigText::of(&cluster.update_key());
    let credentials = scratch.file(
        &format!("credentials-{node}.ini"),
        &format!(
            "dns_rfc2136_server = 127.0.0.1\ndns_rfc2136_port = {}\ndns_rfc2136_name = {name}\n\
             dns_rfc2136_secret = {secret}\ndns_rfc2136_algorithm = {}\n",
            cluster.dns(node).port(),
            algorithm.to_uppercase(),
        ),
    );
    private(Path::new(&credentials));
    let mut command = Command::new(program);
    command.args(["certonly", "--non-interactive", "--agree-tos", "--register-unsafely-without-email"]);
    command.args(["--no-verify-ssl", "--server", &format!("https://127.0.0.1:{port}/dir")]);
    command.args(["--authenticator", "dns-rfc2136", "--dns-rfc2136-credentials", &credentials]);
    // The time that certbot waits with its records in place.
    command.args(["--dns-rfc2136-propagation-seconds", &wait_s.to_string()]);
    for folder in ["config", "work", "logs"] {
        command.arg(format!("--{folder}-dir")).arg(scratch.path().join(format!("certbot-{folder}")));
    }
    command
}

fn lego(program: &str, cluster: &Cluster, node: u64, scratch: &Scratch, port: u16, wait_s: u32) -> Command {
    let TsigText { algorithm, name, secret } = TsigText::of(&cluster.update_key());
    let server = cluster.dns(node).to_string();
    let mut command = Command::new(program);
    command.env("DNSUPDATE_NAMESERVER", &server).env("DNSUPDATE_TSIG_ALGORITHM", format!("{algorithm}."));
    command.env("DNSUPDATE_TSIG_KEY", name.trim_end_matches('.')).env("DNSUPDATE_TSIG_SECRET", secret);
    // Seconds from one name to the next.
    command.env("DNSUPDATE_SEQUENCE_INTERVAL", "1");
    command.args(["run", "--accept-tos", "--email", "lego@example.test", "--tls-skip-verify"]);
    command.args(["--server", &format!("https://127.0.0.1:{port}/dir"), "--dns", "dnsupdate"]);
    // The server for the zone lookup, and the time that lego waits with a record in place.
    command.args(["--dns.resolvers", &server, "--dns.propagation.wait", &format!("{wait_s}s"), "--path"]);
    command.arg(scratch.path().join("lego"));
    command
}

/// Time that a client waits with its record in place in tests that check the record meanwhile.
const LOOKED_AT_S: u32 = 5;
/// The wait for a zone with `ack = all-live`, which needs none. The clients allow no shorter one.
const ALL_LIVE_S: u32 = 1;

/// certbot requires this mode of its secrets file.
fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// An ACME client.
struct Client {
    name: &'static str,
    /// The variable with its path.
    variable: &'static str,
    command: fn(&str, &Cluster, u64, &Scratch, u16, u32) -> Command,
    /// Its message when it has received the certificate.
    success: &'static str,
    /// The certificate's path for a name.
    certificate: fn(&str) -> String,
}

const CERTBOT: Client = Client {
    name: "certbot",
    variable: "CATAMARAN_CERTBOT",
    command: certbot,
    success: "Successfully received certificate",
    certificate: |name| format!("certbot-config/live/{name}/fullchain.pem"),
};

const LEGO: Client = Client {
    name: "lego",
    variable: "CATAMARAN_LEGO",
    command: lego,
    success: "Server responded with a certificate",
    certificate: |name| format!("lego/certificates/{name}.crt"),
};

impl Client {
    fn gets_its_certificate_through_each_node_and_across_a_kill_of_the_leader(&self) {
        if !is_full(self.name) || !has("dig") {
            return;
        }
        let programs = (fetched(self.variable, INSTALL), fetched("CATAMARAN_PEBBLE", INSTALL));
        let (Some(client_program), Some(pebble_program)) = programs else { return };
        let folder = format!("acme-{}", self.name);
        let scratch = Scratch::new(&folder);
        let (cluster, mut nodes) = cluster_of_nodes(&folder);
        for round in 1..=4_u64 {
            // Through each node. In the last round through a survivor, and the leader dies while the client waits.
            let kills = round == 4;
            let through = if kills { super::others(cluster.ids(), nodes.leader(&cluster))[0] } else { round };
            let port = free_ports(4);
            let pebble = pebble(&pebble_program, &cluster, through, &scratch, port);
            pebble.wait_for_output("ACME directory available");
            let names = [format!("www{round}.example.test"), format!("mail{round}.example.test")];
            let mut command = (self.command)(&client_program, &cluster, through, &scratch, port, LOOKED_AT_S);
            for name in &names {
                command.args(["-d", name]);
            }
            let mut client = Daemon::start(self.name, &mut command, scratch.path());
            let owners = names.each_ref().map(|name| format!("_acme-challenge.{name}."));
            // One client writes both records at once, the other one after the other, in an order of its own.
            let all: Vec<u64> = cluster.ids().collect();
            let first = wait_until_one_is_there(&cluster, &all, &owners, "TXT");
            let second = &owners[1 - first];
            // The leader stays dead until the client has removed its records, so that the removal happens without it
            // too.
            let killed = kills.then(|| kill_the_leader(&cluster, &mut nodes));
            let alive = killed.as_ref().map_or(all, |(_, survivors)| survivors.clone());
            wait_until_there(&cluster, alive, second, "TXT");
            let code = client.child.wait().unwrap().code();
            assert_eq!(code, Some(0), "round {round}: {}", client.printed());
            assert!(client.printed().contains(self.success), "{}", client.printed());
            if let Some((leader, _)) = killed {
                nodes.start(&cluster, leader);
            }
            owners.iter().for_each(|owner| wait_until_gone(&cluster, owner, "TXT"));
            let certificate = scratch.path().join((self.certificate)(&names[0]));
            assert!(certificate.exists(), "{}", certificate.display());
        }
        cluster.settle();
    }

    /// The validator does not query the node that received the update, but another one.
    fn waits_for_nothing_where_all_live_nodes_acknowledge(&self) {
        if !is_full(self.name) {
            return;
        }
        let programs = (fetched(self.variable, INSTALL), fetched("CATAMARAN_PEBBLE", INSTALL));
        let (Some(client_program), Some(pebble_program)) = programs else { return };
        let folder = format!("acme-live-{}", self.name);
        let scratch = Scratch::new(&folder);
        let cluster = Cluster::start(&folder, 3, &[]);
        cluster.settle();
        set_all_live(&cluster);
        for through in cluster.ids() {
            let port = free_ports(4);
            let pebble = pebble(&pebble_program, &cluster, through % 3 + 1, &scratch, port);
            pebble.wait_for_output("ACME directory available");
            let name = format!("live{through}.example.test");
            let mut command = (self.command)(&client_program, &cluster, through, &scratch, port, ALL_LIVE_S);
            let mut client = Daemon::start(self.name, command.args(["-d", &name]), scratch.path());
            let code = client.child.wait().unwrap().code();
            assert_eq!(code, Some(0), "through node {through}: {}", client.printed());
            assert!(client.printed().contains(self.success), "{}", client.printed());
            let certificate = scratch.path().join((self.certificate)(&name));
            assert!(certificate.exists(), "{}", certificate.display());
        }
    }
}

#[test]
fn certbot_waits_for_nothing_where_all_live_nodes_acknowledge() {
    CERTBOT.waits_for_nothing_where_all_live_nodes_acknowledge();
}

#[test]
fn lego_waits_for_nothing_where_all_live_nodes_acknowledge() {
    LEGO.waits_for_nothing_where_all_live_nodes_acknowledge();
}

#[test]
fn certbot_gets_its_certificate_through_each_node_and_across_a_kill_of_the_leader() {
    CERTBOT.gets_its_certificate_through_each_node_and_across_a_kill_of_the_leader();
}

#[test]
fn lego_gets_its_certificate_through_each_node_and_across_a_kill_of_the_leader() {
    LEGO.gets_its_certificate_through_each_node_and_across_a_kill_of_the_leader();
}
