//! NSD as a peer: one server process, no rate limit, no rotation.

use super::{PeerError, Setup, copy_zone, write};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let folder = setup.folder.display();
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let mut text = format!(
        "server:
  ip-address: {ip}@{port}
  server-count: 1
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
  tcp-count: 500
  hide-version: yes
  hide-identity: yes
remote-control:
  control-enable: no
"
    );
    if let Some(key) = &setup.key {
        let secret = data_encoding::BASE64.encode(&key.secret);
        let _written =
            write!(text, "key:\n  name: \"{}\"\n  algorithm: hmac-sha256\n  secret: \"{secret}\"\n", key.name);
    }
    for (index, zone) in setup.zones.iter().enumerate() {
        let file = copy_zone(setup, index, zone)?;
        let _written = write!(text, "zone:\n  name: \"{}\"\n  zonefile: \"{}\"\n", zone.apex, file.display());
        if let Some(key) = &setup.key {
            let _written = writeln!(text, "  provide-xfr: 127.0.0.1 {}", key.name);
        }
    }
    let config = write(setup, "nsd.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-d").arg("-c").arg(config);
    Ok(command)
}
