//! Unbound. It is a resolver, but serves zones from their files (`auth-zone`) without querying others. With backends,
//! it is a forwarder with a cache.

use super::error::PeerError;
use super::setup::Setup;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Maximum number of queries in flight to backends, for each thread.
const OUTGOING_MAX: usize = 4_096;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let mut text = server(setup);
    match setup.statistics {
        Some(_) => {
            let folder = setup.folder.display();
            let _written = writeln!(
                text,
                "  extended-statistics: yes\n  statistics-cumulative: yes\nremote-control:\n  control-enable: yes\n  \
                 control-interface: \"{folder}/control\"\n  control-use-cert: no"
            );
        }
        None => text.push_str("remote-control:\n  control-enable: no\n"),
    }
    if !setup.backends.is_empty() {
        text.push_str(&forwarder(setup));
    }
    for index in 0..setup.zones.len() {
        let (apex, file) = (&setup.zones[index].apex, setup.copy_zone(index)?);
        // By default, Unbound answers for names of special use itself, such as `test.` (RFC 6761).
        let _written = writeln!(
            text,
            "server:\n  local-zone: \"{apex}\" transparent\nauth-zone:\n  name: \"{apex}\"\n  zonefile: \"{}\"\n  \
             for-downstream: yes\n  for-upstream: no",
            file.display()
        );
    }
    text.push_str(&setup.lines);
    let config = setup.write("unbound.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-d").arg("-c").arg(config);
    Ok(command)
}

/// Forwards everything, also names of special use, to the backends.
fn forwarder(setup: &Setup) -> String {
    let mut text = "server:
  do-not-query-localhost: no
  unblock-lan-zones: yes
  local-zone: \"test.\" nodefault
forward-zone:
  name: \".\"
"
    .to_owned();
    for backend in &setup.backends {
        let _written = writeln!(text, "  forward-addr: {}@{}", backend.ip(), backend.port());
    }
    text
}

fn server(setup: &Setup) -> String {
    let (folder, connections_max, clients) = (setup.folder.display(), setup.connections(), setup.clients_v4());
    // Only a forwarder asks others.
    let outgoing = if setup.backends.is_empty() { 64 } else { OUTGOING_MAX };
    let mut text = format!(
        "server:
  directory: \"{folder}\"
  chroot: \"\"
  username: \"\"
  pidfile: \"\"
  use-syslog: no
  logfile: \"\"
  verbosity: 0
  do-daemonize: no
  module-config: \"iterator\"
  access-control: {clients} allow
  incoming-num-tcp: {connections_max}
  msg-buffer-size: 4096
  outgoing-range: {outgoing}
  num-queries-per-thread: 16000
  http-max-streams: 100
"
    );
    for port in setup.tcp_ports() {
        let _written = writeln!(text, "  interface: {}@{port}", setup.address.ip());
    }
    if let Some(threads) = setup.threads {
        let _written = writeln!(text, "  num-threads: {threads}");
    }
    if let Some(seconds) = setup.idle_s {
        let _written = writeln!(text, "  tcp-idle-timeout: {}", 1_000 * u64::from(seconds));
    }
    if let Some(encryption) = &setup.encryption {
        let (certificate, key) = (encryption.certificate.display(), encryption.key.display());
        let _written = writeln!(text, "  tls-service-key: \"{key}\"\n  tls-service-pem: \"{certificate}\"");
        for (option, port) in [("tls-port", encryption.dot), ("https-port", encryption.doh)] {
            if let Some(port) = port {
                let _written = writeln!(text, "  {option}: {port}");
            }
        }
    }
    text
}
