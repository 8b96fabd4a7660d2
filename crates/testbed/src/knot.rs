//! Knot DNS. Semantic checks are off, so that it accepts the same zones as the others.

use super::error::PeerError;
use super::setup::{Setup, create_folder};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A journal that keeps every change.
const JOURNAL: &str = "    journal-content: changes\n    journal-max-usage: 2G\n    journal-max-depth: 4294967295\n";

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    // Knot creates the folders of its databases, but not their parent folder.
    create_folder(&setup.folder.join("db"))?;
    let mut text = server(setup);
    text.push_str(&access(setup));
    text.push_str(&template(setup));
    let catalog = setup.write_catalog()?;
    for index in 0..setup.zones.len() {
        // A secondary takes its zones from the catalog.
        if setup.primary.is_some() && catalog.is_some() {
            break;
        }
        let file = setup.copy_zone(index)?;
        let _written = writeln!(text, "  - domain: \"{}\"\n    file: \"{}\"", setup.zones[index].apex, file.display());
    }
    if let Some((catalog, file)) = catalog {
        let _written = writeln!(text, "  - domain: \"{}\"\n    file: \"{}\"", catalog.apex, file.display());
        if setup.primary.is_some() {
            text.push_str("    catalog-role: interpret\n    catalog-template: member\n");
            text.push_str("    refresh-min-interval: 2\n    refresh-max-interval: 2\n");
        }
    }
    text.push_str(&setup.lines);
    let config = setup.write("knot.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(config);
    Ok(command)
}

fn server(setup: &Setup) -> String {
    let folder = setup.folder.display();
    let (ip, port, connections_max) = (setup.address.ip(), setup.address.port(), setup.connections());
    // With its default of half a second for a message, Knot closes connections while a busy machine stalls.
    let mut text = format!(
        "server:
    rundir: \"{folder}\"
    listen: {ip}@{port}
    tcp-max-clients: {connections_max}
    tcp-io-timeout: 10000
    identity: \"\"
    version: \"\"
"
    );
    if let Some(threads) = setup.threads {
        for threads_of in ["udp-workers", "tcp-workers", "background-workers"] {
            let _written = writeln!(text, "    {threads_of}: {threads}");
        }
    }
    if let Some(seconds) = setup.idle_s {
        let _written = writeln!(text, "    tcp-idle-timeout: {seconds}");
    }
    let _written = writeln!(text, "database:\n    storage: \"{folder}/db\"");
    if setup.keeps_changes {
        text.push_str("    journal-db-max-size: 4G\n");
    }
    text.push_str("log:\n  - target: stderr\n    any: warning\n    server: info\n");
    text
}

/// Keys and permissions.
fn access(setup: &Setup) -> String {
    let mut text = String::new();
    for (index, key) in setup.keys.iter().enumerate() {
        let _written = writeln!(
            text,
            "{}  - id: {}\n    algorithm: hmac-sha256\n    secret: {}",
            if index == 0 { "key:\n" } else { "" },
            id(&key.name),
            key.base64(),
        );
    }
    let names: Vec<&str> = setup.keys.iter().map(|key| id(&key.name)).collect();
    if let (Some(primary), Some(key)) = (setup.primary, names.first()) {
        let (ip, port) = (primary.ip(), primary.port());
        let _written = writeln!(
            text,
            "remote:\n  - id: primary\n    address: {ip}@{port}\n    key: {key}\n\
             acl:\n  - id: all\n    address: {}\n    action: transfer\n\
             \x20 - id: signed\n    key: [{}]\n    action: transfer",
            setup.clients_v4(),
            names.join(", ")
        );
    } else if !names.is_empty() {
        let names = names.join(", ");
        let _written = writeln!(text, "acl:\n  - id: all\n    key: [{names}]\n    action: [update, transfer]");
    }
    text
}

/// The settings of all zones, and the start of the list of zones.
fn template(setup: &Setup) -> String {
    let mut text = String::new();
    if setup.statistics.is_some() {
        text.push_str("mod-stats:\n  - id: all\n    request-protocol: on\n    response-code: on\n");
    }
    text.push_str("template:\n  - id: default\n    semantic-checks: off\n");
    text.push_str(match setup.primary {
        Some(_) if setup.catalog.is_some() => "    master: primary\n",
        Some(_) => "    master: primary\n    refresh-min-interval: 2\n    refresh-max-interval: 2\n",
        None => "    zonefile-sync: -1\n    zonefile-load: whole\n",
    });
    match setup.primary {
        None if setup.keeps_changes => text.push_str(JOURNAL),
        None => text.push_str("    journal-content: none\n"),
        Some(_) => {}
    }
    text.push_str(acl(setup));
    if setup.statistics.is_some() {
        text.push_str("    global-module: mod-stats/all\n");
    }
    if setup.primary.is_some() && setup.catalog.is_some() {
        let transfers = acl(setup);
        let _written = write!(
            text,
            "  - id: member\n    semantic-checks: off\n    master: primary\n    journal-content: none\n    \
             zonefile-sync: -1\n    zonefile-load: none\n{transfers}"
        );
    }
    text.push_str("zone:\n");
    text
}

/// The access of clients to a zone. A secondary has a second entry: a signed request needs one with its key.
const fn acl(setup: &Setup) -> &'static str {
    match (setup.keys.is_empty(), setup.primary.is_some()) {
        (true, _) => "",
        (false, true) => "    acl: [all, signed]\n",
        (false, false) => "    acl: all\n",
    }
}

/// The ID of a key is its name without the final dot.
fn id(name: &str) -> &str {
    name.trim_end_matches('.')
}
