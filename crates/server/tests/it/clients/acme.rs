//! A certificate by ACME's DNS challenge: certbot with its `dns-rfc2136` writes the record that Pebble looks for.

use super::{Daemon, kill_the_leader, wait_until_gone, wait_until_there};
use crate::support::cluster::{Cluster, Scratch, free_ports};
use crate::support::nodes::cluster_of_nodes;
use crate::support::tools::{TsigWords, has, is_full};
use std::path::Path;
use std::process::Command;

fn program(variable: &str) -> Option<String> {
    let path = std::env::var(variable).ok();
    if path.is_none() {
        println!("skipped: {variable} names no program, so ACME's challenge is not tried");
    }
    path
}

/// Pebble, an ACME server for tests, which looks the records up at a node.
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

fn certbot(program: &str, cluster: &Cluster, node: u64, scratch: &Scratch, port: u16) -> Command {
    let TsigWords { algorithm, name, secret } = TsigWords::of(&cluster.update_key());
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
    // So long it waits with its records in place.
    command.args(["--dns-rfc2136-propagation-seconds", "5"]);
    for folder in ["config", "work", "logs"] {
        command.arg(format!("--{folder}-dir")).arg(scratch.path().join(format!("certbot-{folder}")));
    }
    command
}

/// As certbot wants its file of secrets.
fn private(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn certbot_gets_its_certificate_through_each_node_and_across_a_kill_of_the_leader() {
    if !is_full("certbot") || !has("dig") {
        return;
    }
    let (Some(certbot_program), Some(pebble_program)) = (program("CATAMARAN_CERTBOT"), program("CATAMARAN_PEBBLE"))
    else {
        return;
    };
    let scratch = Scratch::new("acme");
    let (cluster, mut nodes) = cluster_of_nodes("acme");
    for round in 1..=4_u64 {
        // Through each node; then through one that survives, and the leader dies while certbot waits.
        let kills = round == 4;
        let through = if kills { super::others(cluster.ids(), nodes.leader(&cluster))[0] } else { round };
        let port = free_ports(4);
        let pebble = pebble(&pebble_program, &cluster, through, &scratch, port);
        pebble.wait_for_word("ACME directory available");
        let names = [format!("www{round}.example.test"), format!("mail{round}.example.test")];
        let mut command = certbot(&certbot_program, &cluster, through, &scratch, port);
        for name in &names {
            command.args(["-d", name]);
        }
        let mut client = Daemon::start("certbot", &mut command, scratch.path());
        let owners = names.map(|name| format!("_acme-challenge.{name}."));
        wait_until_there(&cluster, cluster.ids(), &owners[0], "TXT");
        if kills {
            let (leader, survivors) = kill_the_leader(&cluster, &mut nodes);
            wait_until_there(&cluster, survivors, &owners[1], "TXT");
            nodes.start(&cluster, leader);
        }
        wait_until_there(&cluster, cluster.ids(), &owners[1], "TXT");
        let code = client.child.wait().unwrap().code();
        assert_eq!(code, Some(0), "round {round}: {}", client.said());
        assert!(client.said().contains("Successfully received certificate"), "{}", client.said());
        owners.iter().for_each(|owner| wait_until_gone(&cluster, owner, "TXT"));
        assert!(scratch.path().join(format!("certbot-config/live/www{round}.example.test/fullchain.pem")).exists());
    }
    cluster.settle();
}
