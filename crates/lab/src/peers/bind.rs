//! BIND 9 as a peer: one process, no recursion, minimal responses.

use super::{PeerError, Setup, copy_zone, write};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let folder = setup.folder.display();
    let (ip, port) = (setup.address.ip(), setup.address.port());
    let mut text = String::new();
    let mut rights = "allow-update { none; };".to_string();
    let mut transfer = "none;".to_string();
    if let Some(key) = &setup.key {
        let secret = data_encoding::BASE64.encode(&key.secret);
        let _written = writeln!(text, "key \"{}\" {{ algorithm hmac-sha256; secret \"{secret}\"; }};", key.name);
        rights = format!("allow-update {{ key \"{}\"; }};", key.name);
        transfer = format!("key \"{}\";", key.name);
    }
    let _written = write!(
        text,
        "options {{ directory \"{folder}\"; pid-file \"{folder}/named.pid\"; session-keyfile \"{folder}/session.key\";
 listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion no;
 dnssec-validation no; notify no;
 minimal-responses yes; minimal-any yes; zero-no-soa-ttl no;
 version none; hostname none; server-id none;
 rrset-order {{ order none; }}; allow-transfer {{ {transfer} }};
 empty-zones-enable no;
 request-ixfr no; zone-statistics no; querylog no; tcp-clients 500;
 max-records 0; max-records-per-type 0; max-types-per-name 0;
 check-names primary ignore; check-integrity no;
 check-mx ignore; check-srv-cname ignore;
 check-mx-cname ignore; check-sibling no; }};
controls {{ }};\n",
    );
    for (index, zone) in setup.zones.iter().enumerate() {
        let file = copy_zone(setup, index, zone)?;
        let _written =
            writeln!(text, "zone \"{}\" {{ type primary; file \"{}\"; {rights} }};", zone.apex, file.display());
    }
    let config = write(setup, "named.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-g").arg("-n").arg("1").arg("-c").arg(config);
    Ok(command)
}
