//! The `[dns.tls]` table: DNS over TLS, HTTPS and QUIC.

use crate::limits::LISTEN_ADDRESSES_MAX;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Encrypted transports and their certificate.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate chain, PEM. Reloaded when it changes.
    pub cert_file: PathBuf,
    /// Its private key, PEM. Reloaded when it changes.
    pub key_file: PathBuf,
    /// Addresses for DNS over TLS (RFC 7858; TCP, port 853).
    #[serde(default)]
    pub dot: Vec<SocketAddr>,
    /// Addresses for DNS over HTTPS (RFC 8484; TCP, port 443).
    #[serde(default)]
    pub doh: Vec<SocketAddr>,
    /// Addresses for DNS over QUIC (RFC 9250; UDP, port 853).
    #[serde(default)]
    pub doq: Vec<SocketAddr>,
    /// TLS versions of DNS over TLS. HTTPS and QUIC always use 1.3.
    #[serde(default = "versions_default")]
    pub versions: Vec<Version>,
}

/// A version of TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Version {
    /// RFC 5246, for old clients.
    #[serde(rename = "1.2")]
    Tls12,
    /// RFC 8446.
    #[serde(rename = "1.3")]
    Tls13,
}

fn versions_default() -> Vec<Version> {
    vec![Version::Tls13]
}

impl Tls {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["cert_file", "key_file", "dot", "doh", "doq", "versions"];

    /// A table with these files and no addresses.
    pub fn new(cert_file: PathBuf, key_file: PathBuf) -> Self {
        Self { cert_file, key_file, dot: vec![], doh: vec![], doq: vec![], versions: versions_default() }
    }

    /// Whether it has any address.
    pub const fn is_open(&self) -> bool {
        !(self.dot.is_empty() && self.doh.is_empty() && self.doq.is_empty())
    }

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, addresses) in [("dot", &self.dot), ("doh", &self.doh), ("doq", &self.doq)] {
            if addresses.len() > LISTEN_ADDRESSES_MAX {
                return Err((key, format!("`dns.tls.{key}` takes at most {LISTEN_ADDRESSES_MAX} addresses")));
            }
        }
        if let Some(both) = self.dot.iter().find(|address| self.doh.contains(address)) {
            return Err(("doh", format!("{both} is in both `dot` and `doh`; they need different ports")));
        }
        if self.versions.is_empty() {
            return Err(("versions", "`versions` needs \"1.3\", \"1.2\" or both".into()));
        }
        Ok(())
    }
}
