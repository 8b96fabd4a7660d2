//! BIND 9: no recursion, minimal responses.

use super::error::PeerError;
use super::setup::{ServedZone, Setup};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Connections that wait to be accepted. With BIND's default of 10, clients that connect at the same time have to send
/// their SYN again, a second later.
const LISTEN_QUEUE: u32 = 4_096;
/// Transfers at the same time with a catalog. BIND's default is 10.
const TRANSFERS: u32 = 200;

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let mut text = String::new();
    for key in &setup.keys {
        text.push_str(&key.bind_text());
    }
    text.push_str(&tls(setup));
    text.push_str(&options(setup));
    if let Some(port) = setup.statistics {
        let _written = writeln!(text, "statistics-channels {{ inet 127.0.0.1 port {port} allow {{ 127.0.0.1; }}; }};");
    }
    let catalog = setup.write_catalog()?;
    for (index, zone) in setup.zones.iter().enumerate() {
        // A secondary takes its zones from the catalog.
        if setup.primary.is_some() && catalog.is_some() {
            break;
        }
        let file = setup.copy_zone(index)?;
        let _written =
            writeln!(text, "zone \"{}\" {{ file \"{}\"; {} }};", zone.apex, file.display(), role(setup, zone));
    }
    if let Some((catalog, file)) = &catalog {
        let (apex, role) = (&catalog.apex, role(setup, catalog));
        let _written = writeln!(text, "zone \"{apex}\" {{ file \"{}\"; {role} }};", file.display());
    }
    let config = setup.write("named.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-g");
    if let Some(threads) = setup.threads {
        command.arg("-n").arg(threads.to_string());
    }
    command.arg("-c").arg(config);
    Ok(command)
}

fn options(setup: &Setup) -> String {
    let (folder, ip, port) = (setup.folder.display(), setup.address.ip(), setup.address.port());
    let (connections_max, lines) = (setup.connections(), &setup.lines);
    let transfers = match setup.primary {
        Some(_) => "any;".to_owned(),
        None if setup.keys.is_empty() => "none;".to_owned(),
        None => keys(setup),
    };
    let refresh = if setup.primary.is_some() { "request-ixfr yes;" } else { "request-ixfr no;" };
    let mut text = format!(
        "options {{ directory \"{folder}\"; pid-file \"{folder}/named.pid\"; session-keyfile \"{folder}/session.key\";
 listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion no;
 dnssec-validation no; notify no;
 minimal-responses yes; minimal-any yes; zero-no-soa-ttl no;
 version none; hostname none; server-id none;
 rrset-order {{ order none; }}; allow-transfer {{ {transfers} }};
 empty-zones-enable no;
 {refresh} zone-statistics no; querylog no; tcp-clients {connections_max}; tcp-listen-queue {LISTEN_QUEUE};
 max-records 0; max-records-per-type 0; max-types-per-name 0;
 check-names primary ignore; check-integrity no;
 check-mx ignore; check-srv-cname ignore;
 check-mx-cname ignore; check-sibling no;\n"
    );
    if let Some(encryption) = &setup.encryption {
        let dot = encryption.dot.map(|port| format!(" listen-on port {port} tls own {{ {ip}; }};\n"));
        let doh = encryption.doh.map(|port| format!(" listen-on port {port} tls own http own {{ {ip}; }};\n"));
        text.extend(dot.into_iter().chain(doh));
    }
    if let Some(seconds) = setup.idle_s {
        // In units of 100 ms.
        let units = 10 * seconds;
        let _written = writeln!(text, " tcp-initial-timeout {units}; tcp-idle-timeout {units};");
    }
    if setup.keeps_changes {
        text.push_str(" max-journal-size unlimited; update-quota 4096;\n");
    }
    text.push_str(&catalog(setup));
    let _written = write!(text, " {lines} }};\ncontrols {{ }};\n");
    text
}

/// The certificate, and HTTP with room for all connections.
fn tls(setup: &Setup) -> String {
    let Some(encryption) = &setup.encryption else { return String::new() };
    let (certificate, key) = (encryption.certificate.display(), encryption.key.display());
    let connections_max = setup.connections();
    format!(
        "tls own {{ cert-file \"{certificate}\"; key-file \"{key}\"; }};
http own {{ endpoints {{ \"/dns-query\"; }}; listener-clients {connections_max}; streams-per-connection 100; }};\n"
    )
}

/// Transfers of many zones at once, and for a secondary the catalog that lists them.
fn catalog(setup: &Setup) -> String {
    let Some(apex) = &setup.catalog else { return String::new() };
    let mut text = format!(
        " transfers-in {TRANSFERS}; transfers-per-ns {TRANSFERS}; transfers-out {TRANSFERS}; serial-query-rate 5000;\n"
    );
    if let Some(primary) = primary(setup) {
        let _written = writeln!(
            text,
            " catalog-zones {{ zone \"{apex}\" default-primaries {{ {primary} }}
  in-memory yes min-update-interval 1; }};"
        );
    }
    text
}

/// The primary of a secondary, with the key for transfers.
fn primary(setup: &Setup) -> Option<String> {
    let (primary, key) = (setup.primary?, setup.keys.first()?);
    Some(format!("{} port {} key \"{}\";", primary.ip(), primary.port(), key.name))
}

/// Primary or secondary of the zone, and the permission to update it.
fn role(setup: &Setup, zone: &ServedZone) -> String {
    if let Some(primary) = primary(setup) {
        return format!(
            "type secondary; primaries {{ {primary} }};
 min-refresh-time 1; max-refresh-time 1; min-retry-time 1; max-retry-time 1;"
        );
    }
    let updates = if !zone.update_policy.is_empty() {
        format!("update-policy {{\n    {}\n  }};", zone.update_policy.join("\n    "))
    } else if setup.keys.is_empty() {
        "allow-update { none; };".to_owned()
    } else {
        format!("allow-update {{ {} }};", keys(setup))
    };
    format!("type primary; {updates}")
}

/// All keys, as a list of addresses.
fn keys(setup: &Setup) -> String {
    setup.keys.iter().map(|key| format!("key \"{}\";", key.name)).collect::<Vec<_>>().join(" ")
}
