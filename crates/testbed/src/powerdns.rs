//! PowerDNS. Without a key, it serves zone files with the BIND backend and its default caches. With a key, it takes
//! updates with its default SQLite settings, which sync each transaction.

use super::error::PeerError;
use super::kind::Kind;
use super::peer_tree;
use super::ports::installed;
use super::setup::{Setup, UpdateKey};
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The SQLite schema of PowerDNS, from the root.
const SCHEMA: &str = "usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";

pub(super) fn command(program: &Path, setup: &Setup) -> Result<Command, PeerError> {
    let mut text = format!(
        "local-address={}\nlocal-port={}\nsocket-dir={}\nguardian=no\ndaemon=no\ndisable-syslog=yes\nloglevel=3\n\
         webserver=no\nmax-tcp-connections={}\n",
        setup.address.ip(),
        setup.address.port(),
        setup.folder.display(),
        setup.connections(),
    );
    if let Some(threads) = setup.threads {
        let _written = writeln!(text, "receiver-threads={threads}\ndistributor-threads={threads}");
    }
    let root = peer_tree::root_of(program);
    if let Some(libraries) = root.as_deref().and_then(peer_tree::libraries) {
        let _written = writeln!(text, "module-dir={}/pdns", libraries.display());
    }
    match setup.keys.first() {
        Some(_) => text.push_str(&format!(
            "launch=gsqlite3\ngsqlite3-database={}\ngsqlite3-pragma-synchronous=2\ndnsupdate=yes\n\
             allow-dnsupdate-from={}\nallow-axfr-ips=\nprimary=yes\n",
            setup.folder.join("database").display(),
            setup.clients_v4()
        )),
        None => {
            let zones = setup.zones.iter();
            let zone_list: String = zones
                .map(|zone| format!("zone \"{}\" {{ type master; file \"{}\"; }};\n", zone.apex, zone.file.display()))
                .collect();
            let zone_list = setup.write("named.conf", &zone_list)?;
            let _written = writeln!(text, "launch=bind\nbind-config={}", zone_list.display());
        }
    }
    text.push_str(&setup.lines);
    setup.write("pdns.conf", &text)?;
    if let Some(key) = setup.keys.first() {
        fill_database(setup, key, root.as_deref().unwrap_or(Path::new("/")))?;
    }
    let mut command = Command::new(program);
    command.arg(config_option(setup));
    Ok(command)
}

fn config_option(setup: &Setup) -> String {
    format!("--config-dir={}", setup.folder.display())
}

/// Loads the zones into a new database, and gives the key its permissions.
fn fill_database(setup: &Setup, key: &UpdateKey, root: &Path) -> Result<(), PeerError> {
    let missing = || PeerError::Missing(Kind::PowerDns);
    let (tool, sqlite) = (installed("pdnsutil").ok_or_else(missing)?, installed("sqlite3").ok_or_else(missing)?);
    let schema = root.join(SCHEMA);
    if !schema.is_file() {
        return Err(missing());
    }
    run(Command::new(sqlite).arg(setup.folder.join("database")).arg(format!(".read '{}'", schema.display())))?;
    let (key_name, secret) = (key.name.trim_end_matches('.'), key.base64());
    let call = |words: &[&str]| run(Command::new(&tool).arg(config_option(setup)).args(words));
    call(&["import-tsig-key", key_name, "hmac-sha256", &secret])?;
    for zone in &setup.zones {
        let (apex, file) = (zone.apex.trim_end_matches('.'), zone.file.to_string_lossy());
        call(&["load-zone", apex, &file])?;
        call(&["set-meta", apex, "TSIG-ALLOW-DNSUPDATE", key_name])?;
        call(&["set-meta", apex, "ALLOW-DNSUPDATE-FROM", setup.clients_v4()])?;
        call(&["set-meta", apex, "TSIG-ALLOW-AXFR", key_name])?;
        call(&["set-kind", apex, "master"])?;
    }
    Ok(())
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Result<(), PeerError> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| PeerError::Start(Kind::PowerDns, error))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(PeerError::NotReady(Kind::PowerDns, format!("{command:?}: {error}")))
}
