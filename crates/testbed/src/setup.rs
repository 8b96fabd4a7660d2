//! The settings of a server.

use super::catalog;
use super::error::PeerError;
use super::kind::Kind;
use super::launch::Launch;
use super::programs::Programs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Default limit of TCP connections.
const CONNECTIONS_MAX: usize = 500;

/// A zone that a server serves.
#[derive(Clone, Debug)]
pub struct ServedZone {
    /// The apex in presentation format, with its final dot.
    pub apex: String,
    /// The zone file, uncompressed. A secondary ignores it.
    pub file: PathBuf,
    /// Rules of BIND's `update-policy` for the zone. Without rules, every key may update it. Only for BIND.
    pub update_policy: Vec<String>,
}

impl ServedZone {
    /// A zone without update rules.
    #[must_use]
    pub fn new(apex: impl Into<String>, file: impl Into<PathBuf>) -> Self {
        Self { apex: apex.into(), file: file.into(), update_policy: Vec::new() }
    }
}

/// A TSIG key with permission to update and transfer every zone of a server. The algorithm is hmac-sha256.
#[derive(Clone, Debug)]
pub struct UpdateKey {
    /// Key name, with its final dot.
    pub name: String,
    /// The secret.
    pub secret: Vec<u8>,
}

impl UpdateKey {
    /// The secret in Base64.
    pub(crate) fn base64(&self) -> String {
        data_encoding::BASE64.encode(&self.secret)
    }

    /// The key as a key file of BIND.
    #[must_use]
    pub fn bind_text(&self) -> String {
        let Self { name, .. } = self;
        format!("key \"{name}\" {{\n\talgorithm hmac-sha256;\n\tsecret \"{}\";\n}};\n", self.base64())
    }
}

/// Ports for encrypted transports, on the address of the server.
#[derive(Clone, Debug, Default)]
pub struct Encryption {
    /// The certificate chain, in PEM.
    pub certificate: PathBuf,
    /// The key of the certificate, in PEM.
    pub key: PathBuf,
    /// The port of DNS over TLS. Catamaran also answers over QUIC on this port.
    pub dot: Option<u16>,
    /// The port of DNS over HTTPS.
    pub doh: Option<u16>,
}

/// The settings of a server. [`Setup::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The folder of the server. It is created if missing.
    pub folder: PathBuf,
    /// Address for UDP and TCP.
    pub address: SocketAddr,
    /// The zones.
    pub zones: Vec<ServedZone>,
    /// The keys. Only BIND and Knot use more than one.
    pub keys: Vec<UpdateKey>,
    /// Serve the zones as a secondary of this server, and allow anyone to transfer them. Requires a key. Only for BIND,
    /// Knot and NSD.
    pub primary: Option<SocketAddr>,
    /// The apex of a catalog zone (RFC 9432), with its final dot. A primary serves a catalog of all its zones, and a
    /// secondary takes its zones from there. Requires a key. Only for BIND and Knot.
    pub catalog: Option<String>,
    /// The servers that answer its queries: required for dnsdist, HAProxy and Knot Resolver. Unbound forwards all
    /// queries to them, except those for its zones.
    pub backends: Vec<SocketAddr>,
    /// Number of threads or processes that answer; `None` is the default of the server.
    pub threads: Option<usize>,
    /// Limit of TCP connections, for dnsdist per thread. If `None`, Catamaran keeps its own limits, and others get
    /// 500. CoreDNS and Knot Resolver always keep their own.
    pub connections_max: Option<usize>,
    /// Seconds until an idle connection is closed; `None` is the default of the server. Only for BIND, Knot, NSD,
    /// Unbound, dnsdist and HAProxy.
    pub idle_s: Option<u32>,
    /// Encrypted transports.
    pub encryption: Option<Encryption>,
    /// Count queries. BIND and catamaran show the counts over HTTP on this loopback port, the others on request of
    /// their control program, which finds the configuration in the folder.
    pub statistics: Option<u16>,
    /// Keep every change in the journal. Otherwise BIND trims its journal, and Knot has none.
    pub keeps_changes: bool,
    /// More lines, in the syntax of the server: in `options` of BIND, at the end of the file of others.
    pub lines: String,
    /// Control groups, core, network namespace and environment of its processes.
    pub launch: Launch,
    /// Which program runs.
    pub programs: Programs,
}

impl Setup {
    /// One thread, no key, only UDP and TCP, and the installed program.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, address: SocketAddr, zones: Vec<ServedZone>) -> Self {
        Self {
            folder: folder.into(),
            address,
            zones,
            keys: Vec::new(),
            primary: None,
            catalog: None,
            backends: Vec::new(),
            threads: Some(1),
            connections_max: None,
            idle_s: None,
            encryption: None,
            statistics: None,
            keeps_changes: false,
            lines: String::new(),
            launch: Launch::default(),
            programs: Programs::default(),
        }
    }

    /// The TCP ports.
    pub(crate) fn tcp_ports(&self) -> Vec<u16> {
        let encrypted = self.encryption.iter().flat_map(|encryption| [encryption.dot, encryption.doh]);
        let mut ports = vec![self.address.port()];
        ports.extend(encrypted.flatten());
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// The limit of TCP connections of servers that need one.
    pub(crate) fn connections(&self) -> usize {
        self.connections_max.unwrap_or(CONNECTIONS_MAX)
    }

    /// The IPv4 addresses that may query and transfer: this computer, or everything that reaches the address.
    pub(crate) fn clients_v4(&self) -> &'static str {
        if self.address.ip().is_loopback() { "127.0.0.0/8" } else { "0.0.0.0/0" }
    }

    /// Writes a configuration file to the folder. Returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf, PeerError> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).map_err(|error| PeerError::Folder(path.clone(), error))?;
        Ok(path)
    }

    /// Copies the file of a zone to the folder, because servers overwrite it on updates. A secondary has no file yet.
    pub(crate) fn copy_zone(&self, index: usize) -> Result<PathBuf, PeerError> {
        let (path, source) = (self.folder.join(format!("zone{index}")), &self.zones[index].file);
        if self.primary.is_none() {
            std::fs::copy(source, &path).map_err(|error| PeerError::Folder(source.clone(), error))?;
        }
        Ok(path)
    }

    /// The catalog zone and its file, if there is one. A secondary has no file yet.
    pub(crate) fn write_catalog(&self) -> Result<Option<(ServedZone, PathBuf)>, PeerError> {
        let Some(apex) = &self.catalog else { return Ok(None) };
        let path = match self.primary {
            Some(_) => self.folder.join("catalog"),
            None => self.write("catalog", &catalog::text(apex, &self.zones))?,
        };
        Ok(Some((ServedZone::new(apex, &path), path)))
    }

    /// Fails if a setting is used that this kind does not support.
    pub(crate) fn check(&self, kind: Kind) -> Result<(), PeerError> {
        let is_secondary = matches!(kind, Kind::Bind | Kind::Knot | Kind::Nsd);
        let has_tls = !matches!(kind, Kind::Knot | Kind::PowerDns | Kind::CoreDns);
        let has_idle_limit = is_secondary || matches!(kind, Kind::Unbound | Kind::Dnsdist | Kind::HaProxy);
        let has_limit = !matches!(kind, Kind::CoreDns | Kind::KnotResolver);
        let has_keys = is_secondary || matches!(kind, Kind::Catamaran | Kind::PowerDns);
        let has_statistics = !matches!(kind, Kind::PowerDns | Kind::CoreDns) && !kind.needs_backends();
        let has_doh = self.encryption.as_ref().is_some_and(|encryption| encryption.doh.is_some());
        let has_backends = !self.backends.is_empty();
        let has_update_policy = self.zones.iter().any(|zone| !zone.update_policy.is_empty());
        for (is_wrong, setting) in [
            (self.primary.is_some() && !is_secondary, "primary"),
            (self.primary.is_some() && self.keys.is_empty(), "primary without a key"),
            (self.catalog.is_some() && !matches!(kind, Kind::Bind | Kind::Knot), "catalog"),
            (self.catalog.is_some() && self.keys.is_empty(), "catalog without a key"),
            (self.encryption.is_some() && !has_tls, "encryption"),
            (has_doh && kind == Kind::HaProxy, "doh"),
            (has_backends && !kind.takes_backends(), "backends"),
            (!has_backends && kind.needs_backends(), "backends without an address"),
            (!self.zones.is_empty() && kind.needs_backends(), "zones"),
            (self.idle_s.is_some() && !has_idle_limit, "idle"),
            (self.connections_max.is_some() && !has_limit, "connections"),
            (!self.keys.is_empty() && !has_keys, "key"),
            (self.statistics.is_some() && !has_statistics, "statistics"),
            // `catamaran up` listens on loopback.
            (kind == Kind::Catamaran && !self.address.ip().is_loopback(), "address"),
            (has_update_policy && kind != Kind::Bind, "update_policy"),
            (!self.lines.is_empty() && matches!(kind, Kind::Catamaran), "lines"),
        ] {
            if is_wrong {
                return Err(PeerError::Unsupported(kind, setting));
            }
        }
        Ok(())
    }
}

/// Creates a folder and its parents.
pub(crate) fn create_folder(folder: &Path) -> Result<(), PeerError> {
    std::fs::create_dir_all(folder).map_err(|error| PeerError::Folder(folder.to_owned(), error))
}

/// Replaces texts in a configuration file. Fails if it does not contain one of them.
pub(crate) fn replace_in_file(path: &Path, edits: &[(&str, &str)]) -> Result<(), PeerError> {
    let wrong = |error| PeerError::Folder(path.to_owned(), error);
    let mut text = std::fs::read_to_string(path).map_err(wrong)?;
    for (from, to) in edits {
        if !text.contains(from) {
            return Err(wrong(io::Error::other(format!("the file has no `{from}`"))));
        }
        text = text.replace(from, to);
    }
    std::fs::write(path, text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_a_server_does_not_support_is_refused() {
        let plain = Setup::new("folder", ([127, 0, 0, 1], 53).into(), vec![ServedZone::new("example.", "zone")]);
        let secondary = Setup { primary: Some(plain.address), ..plain.clone() };
        let key = UpdateKey { name: "key.".into(), secret: vec![1] };
        let encrypted = Setup { encryption: Some(Encryption::default()), ..plain.clone() };
        let with_backend = Setup { backends: vec![plain.address], ..plain.clone() };
        for (setup, kind, refused) in [
            (&plain, Kind::Catamaran, None),
            (&secondary, Kind::Bind, Some("primary without a key")),
            (&Setup { keys: vec![key.clone()], ..secondary.clone() }, Kind::Unbound, Some("primary")),
            (&Setup { address: ([10, 53, 0, 11], 53).into(), ..plain.clone() }, Kind::Catamaran, Some("address")),
            (&encrypted, Kind::Nsd, None),
            (&encrypted, Kind::Knot, Some("encryption")),
            (&Setup { idle_s: Some(1), ..plain.clone() }, Kind::CoreDns, Some("idle")),
            (&Setup { connections_max: Some(1), ..plain.clone() }, Kind::CoreDns, Some("connections")),
            (&Setup { keys: vec![key], ..plain.clone() }, Kind::Unbound, Some("key")),
            (&with_backend, Kind::Unbound, None),
            (&with_backend, Kind::Nsd, Some("backends")),
            (&with_backend, Kind::Dnsdist, Some("zones")),
            (&Setup { zones: Vec::new(), ..plain.clone() }, Kind::HaProxy, Some("backends without an address")),
            (&Setup { zones: Vec::new(), ..with_backend.clone() }, Kind::HaProxy, None),
        ] {
            let found = match setup.check(kind) {
                Err(PeerError::Unsupported(_, setting)) => Some(setting),
                _ => None,
            };
            assert_eq!(found, refused, "{kind:?}");
        }
    }
}
