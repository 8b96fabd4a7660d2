//! The others as primaries that take updates and lose none: each with its journal or database synced to disk as it
//! comes, one zone, one key.

use super::machine;
use super::sides::{APEX, Side};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long one may take to answer.
const READY_MAX: Duration = Duration::from_secs(60);
const KEY: &str = "bench.";
/// HMAC-SHA256, base64.
const SECRET: &str = "Y2F0YW1hcmFuIGJlbmNoIHdyaXRlIHNlY3JldCBrZXk=";
/// Where PowerDNS has the tables of its SQLite database.
const SCHEMA: &str = "/usr/share/pdns-backend-sqlite3/schema/schema.sqlite3.sql";

/// A running server, where it answers, and the file of its key; `None` where it is not installed.
pub(crate) fn start(side: Side, folder: &Path, zone: &Path) -> Result<Option<(Child, SocketAddr, PathBuf)>, String> {
    let address = free_address()?;
    let command = match side {
        Side::Bind => bind(folder, zone, address)?,
        Side::Knot => knot(folder, zone, address)?,
        Side::PowerDns => powerdns(folder, zone, address)?,
        Side::Catamaran(_) | Side::Bare => None,
    };
    let Some(mut command) = command else { return Ok(None) };
    let key = make_key(folder)?;
    let output = folder.join("output");
    let wrong = |error: std::io::Error| format!("{}: {error}", side.name());
    let log = File::create(&output).map_err(wrong)?;
    command.current_dir(folder).stdin(Stdio::null()).stderr(log.try_clone().map_err(wrong)?).stdout(log);
    let mut child = command.spawn().map_err(wrong)?;
    let until = Instant::now() + READY_MAX;
    while !answers(address) {
        if Instant::now() > until || !matches!(child.try_wait(), Ok(None)) {
            machine::end(&mut child);
            let said = std::fs::read_to_string(&output).unwrap_or_default();
            return Err(format!("{} does not answer: {said}", side.name()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some((child, address, key)))
}

/// The file of the key that updates are signed with.
pub(crate) fn make_key(folder: &Path) -> Result<PathBuf, String> {
    file(folder, "update.key", &format!("key \"{KEY}\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};\n"))
}

/// A journal that is never cut: what that costs is not what is measured.
fn bind(folder: &Path, zone: &Path, address: SocketAddr) -> Result<Option<Command>, String> {
    let Some(program) = installed("named") else { return Ok(None) };
    let (ip, port, at) = (address.ip(), address.port(), folder.display());
    let text = format!(
        "key \"{KEY}\" {{ algorithm hmac-sha256; secret \"{SECRET}\"; }};
options {{ directory \"{at}\"; pid-file \"{at}/named.pid\"; session-keyfile \"{at}/session.key\";
 listen-on port {port} {{ {ip}; }}; listen-on-v6 {{ none; }}; recursion no; dnssec-validation no; notify no;
 empty-zones-enable no; max-journal-size unlimited; update-quota 4096; allow-transfer {{ key \"{KEY}\"; }}; }};
controls {{ }};
zone \"{APEX}\" {{ type primary; file \"{}\"; allow-update {{ key \"{KEY}\"; }}; }};
",
        zone.display()
    );
    let config = file(folder, "named.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-g").arg("-c").arg(config);
    Ok(Some(command))
}

/// Its journal is an LMDB in its default mode, which syncs each transaction.
fn knot(folder: &Path, zone: &Path, address: SocketAddr) -> Result<Option<Command>, String> {
    let Some(program) = installed("knotd") else { return Ok(None) };
    let (ip, port, at) = (address.ip(), address.port(), folder.display());
    let key = KEY.trim_end_matches('.');
    // It makes the folders of its databases, and not the one that they are in.
    std::fs::create_dir_all(folder.join("db")).map_err(|error| format!("{}: {error}", folder.display()))?;
    let text = format!(
        "server:\n    rundir: \"{at}\"\n    listen: {ip}@{port}\n    tcp-max-clients: 500
database:\n    storage: \"{at}/db\"\n    journal-db-max-size: 4G
log:\n  - target: stderr\n    any: warning
key:\n  - id: {key}\n    algorithm: hmac-sha256\n    secret: {SECRET}
acl:\n  - id: all\n    key: {key}\n    action: [update, transfer]
template:\n  - id: default\n    semantic-checks: off\n    journal-content: changes\n    journal-max-usage: 2G
    journal-max-depth: 4294967295\n    zonefile-sync: -1\n    zonefile-load: whole\n    acl: all
zone:\n  - domain: \"{APEX}\"\n    file: \"{}\"
",
        zone.display()
    );
    let config = file(folder, "knot.conf", &text)?;
    let mut command = Command::new(program);
    command.arg("-c").arg(config);
    Ok(Some(command))
}

/// SQLite as PowerDNS opens it, with every transaction synced.
fn powerdns(folder: &Path, zone: &Path, address: SocketAddr) -> Result<Option<Command>, String> {
    let (Some(server), Some(tool), Some(sqlite)) =
        (installed("pdns_server"), installed("pdnsutil"), installed("sqlite3"))
    else {
        return Ok(None);
    };
    if !Path::new(SCHEMA).is_file() {
        return Ok(None);
    }
    let database = folder.join("database");
    let text = format!(
        "launch=gsqlite3\ngsqlite3-database={}\ngsqlite3-pragma-synchronous=2\nlocal-address={}\nlocal-port={}
socket-dir={}\ndnsupdate=yes\nallow-dnsupdate-from=127.0.0.0/8\nallow-axfr-ips=\nprimary=yes\nguardian=no\ndaemon=no
disable-syslog=yes\nloglevel=3\nwebserver=no\n",
        database.display(),
        address.ip(),
        address.port(),
        folder.display()
    );
    file(folder, "pdns.conf", &text)?;
    let config = format!("--config-dir={}", folder.display());
    run(Command::new(sqlite).arg(&database).arg(format!(".read {SCHEMA}")))?;
    let name = APEX.trim_end_matches('.');
    let key = KEY.trim_end_matches('.');
    let file = zone.to_string_lossy();
    for words in [
        &["load-zone", name, &file][..],
        &["import-tsig-key", key, "hmac-sha256", SECRET],
        &["set-meta", name, "TSIG-ALLOW-DNSUPDATE", key],
        &["set-meta", name, "ALLOW-DNSUPDATE-FROM", "127.0.0.0/8"],
        &["set-meta", name, "TSIG-ALLOW-AXFR", key],
        &["set-kind", name, "master"],
    ] {
        run(Command::new(&tool).arg(&config).args(words))?;
    }
    let mut command = Command::new(server);
    command.arg(config);
    Ok(Some(command))
}

/// Runs one to its end.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn file(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// On PATH, or among the system's programs.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin"]);
    folders.map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

/// Free over UDP and TCP a moment ago.
fn free_address() -> Result<SocketAddr, String> {
    let free = || -> std::io::Result<SocketAddr> {
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let _tcp = TcpListener::bind(address)?;
        Ok(address)
    };
    (0..100).find_map(|_| free().ok()).ok_or_else(|| "no free port on loopback".into())
}

/// Whether a query for the apex's SOA gets one.
fn answers(server: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.set_read_timeout(Some(Duration::from_millis(300)))?;
        let apex: wire::name::Name = APEX.parse().expect("a name");
        let mut query = vec![0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        query.extend_from_slice(apex.as_bytes());
        query.extend_from_slice(&[0, 6, 0, 1]);
        socket.send_to(&query, server)?;
        let mut response = [0; 512];
        let (length, _) = socket.recv_from(&mut response)?;
        Ok(length >= 12 && response[3] & 0x0F == 0 && response[7] != 0)
    };
    ask().unwrap_or(false)
}
