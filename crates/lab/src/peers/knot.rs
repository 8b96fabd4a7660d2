//! Knot DNS as a peer: semantic checks off, so that it serves what the others serve.

use super::{PeerError, Setup, copy_zone, write};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let folder = setup.folder.display();
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let mut text = format!(
        "server:
    rundir: \"{folder}\"
    listen: {ip}@{port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
    tcp-max-clients: 500
    identity: \"\"
    version: \"\"
database:
    storage: \"{folder}/db\"
log:
  - target: stderr
    any: warning
"
    );
    let mut acl = String::new();
    if let Some(key) = &setup.key {
        let secret = data_encoding::BASE64.encode(&key.secret);
        let name = key.name.trim_end_matches('.');
        let _written = write!(
            text,
            "key:\n  - id: {name}\n    algorithm: hmac-sha256\n    secret: {secret}
acl:\n  - id: all\n    key: {name}\n    action: [update, transfer]\n"
        );
        acl = "    acl: all\n".into();
    }
    let _written = write!(
        text,
        "template:\n  - id: default\n    semantic-checks: off\n    journal-content: none\n\
         \x20   zonefile-sync: -1\n    zonefile-load: whole\n{acl}zone:\n"
    );
    for (index, zone) in setup.zones.iter().enumerate() {
        let file = copy_zone(setup, index, zone)?;
        let _written = write!(text, "  - domain: \"{}\"\n    file: \"{}\"\n", zone.apex, file.display());
    }
    let config = write(setup, "knot.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(config);
    Ok(command)
}
