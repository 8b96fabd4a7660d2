//! NSD: no rate limit, no rotation. It takes no updates.

use super::error::PeerError;
use super::setup::Setup;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let mut text = server(setup);
    let control = match setup.statistics {
        Some(_) => format!("  control-enable: yes\n  control-interface: \"{}/control\"\n", setup.folder.display()),
        None => "  control-enable: no\n".to_owned(),
    };
    let _written = write!(text, "remote-control:\n{control}");
    let (key, clients) = (setup.keys.first(), setup.clients_v4());
    if let Some(key) = key {
        let (name, secret) = (&key.name, key.base64());
        let _written = write!(text, "key:\n  name: \"{name}\"\n  algorithm: hmac-sha256\n  secret: \"{secret}\"\n");
    }
    for index in 0..setup.zones.len() {
        let file = setup.copy_zone(index)?;
        let _written =
            writeln!(text, "zone:\n  name: \"{}\"\n  zonefile: \"{}\"", setup.zones[index].apex, file.display());
        if let (Some(primary), Some(key)) = (setup.primary, key) {
            let (ip, port) = (primary.ip(), primary.port());
            // UDP first.
            let _written = writeln!(
                text,
                "  request-xfr: UDP {ip}@{port} {}\n  allow-axfr-fallback: yes\n  provide-xfr: {clients} NOKEY\n  \
                 allow-notify: {clients} NOKEY",
                key.name
            );
        } else if let Some(key) = key {
            let _written = writeln!(text, "  provide-xfr: {clients} {}", key.name);
        }
    }
    text.push_str(&setup.lines);
    let config = setup.write("nsd.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-d").arg("-c").arg(config);
    Ok(command)
}

fn server(setup: &Setup) -> String {
    let folder = setup.folder.display();
    let (ip, port, connections_max) = (setup.address.ip(), setup.address.port(), setup.connections());
    let mut text = format!(
        "server:
  ip-address: {ip}@{port}
  username: \"\"
  chroot: \"\"
  zonesdir: \"{folder}\"
  database: \"\"
  zonelistfile: \"{folder}/zone.list\"
  xfrdfile: \"{folder}/xfrd.state\"
  xfrdir: \"{folder}\"
  pidfile: \"{folder}/nsd.pid\"
  minimal-responses: yes
  round-robin: no
  rrl-ratelimit: 0
  tcp-count: {connections_max}
  hide-version: yes
  hide-identity: yes
"
    );
    if let Some(threads) = setup.threads {
        let _written = writeln!(text, "  server-count: {threads}");
    }
    if let Some(seconds) = setup.idle_s {
        let _written = writeln!(text, "  tcp-timeout: {seconds}");
    }
    if let Some((encryption, dot)) = setup.encryption.as_ref().and_then(|own| Some((own, own.dot?))) {
        let (certificate, key) = (encryption.certificate.display(), encryption.key.display());
        let _written = write!(
            text,
            "  ip-address: {ip}@{dot}\n  tls-port: {dot}\n  tls-service-key: \"{key}\"\n  \
             tls-service-pem: \"{certificate}\"\n"
        );
    }
    text
}
