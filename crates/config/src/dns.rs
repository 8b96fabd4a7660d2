//! The `[dns]` table.

use super::rate_limit::RateLimit;
use super::tcp::Tcp;
use super::tls::Tls;
use super::transfer::Transfer;
use crate::limits::{LISTEN_ADDRESSES_MAX, UDP_PAYLOAD_DEFAULT, UDP_RESPONSE_BYTES_MAX, UDP_WORKERS_MAX};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The DNS service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dns {
    /// Addresses for UDP and TCP. Empty on a node that only votes and stores data.
    pub listen: Vec<SocketAddr>,
    /// UDP threads; 0 means one for each core.
    #[serde(default)]
    pub udp_workers: usize,
    /// Largest UDP response, bytes (RFC 6891 6.2.3).
    #[serde(default = "udp_payload_default")]
    pub udp_payload: u16,
    /// Identifier for clients that send NSID (RFC 5001). Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nsid: Option<String>,
    /// Answer to CH TXT `id.server` and `hostname.bind` (RFC 4892). Default: REFUSED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos_id: Option<String>,
    /// Answer to CH TXT `version.server` and `version.bind`. Default: REFUSED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chaos_version: Option<String>,
    /// File with secrets of DNS cookies (RFC 9018), shared by all servers of an anycast address. Default: derived from
    /// the data key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie_secrets_file: Option<PathBuf>,
    /// Response rate limits over UDP.
    #[serde(default)]
    pub rate_limit: RateLimit,
    /// Limits of connections, for all transports.
    #[serde(default)]
    pub tcp: Tcp,
    /// Minimum speed of zone transfers.
    #[serde(default)]
    pub transfer: Transfer,
    /// DNS over TLS, HTTPS and QUIC. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

const fn udp_payload_default() -> u16 {
    UDP_PAYLOAD_DEFAULT
}

impl Dns {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &[
        "listen",
        "udp_workers",
        "udp_payload",
        "nsid",
        "chaos_id",
        "chaos_version",
        "cookie_secrets_file",
        "rate_limit",
        "tcp",
        "transfer",
        "tls",
    ];

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.listen.len() > LISTEN_ADDRESSES_MAX {
            return Err(("listen", format!("`dns.listen` takes at most {LISTEN_ADDRESSES_MAX} addresses")));
        }
        if self.udp_workers > UDP_WORKERS_MAX {
            return Err(("udp_workers", format!("`udp_workers` must be at most {UDP_WORKERS_MAX}")));
        }
        // RFC 6891 6.2.3: values below 512 are treated as 512; above 4096 fragments are certain.
        if !(512..=UDP_RESPONSE_BYTES_MAX).contains(&usize::from(self.udp_payload)) {
            return Err(("udp_payload", format!("`udp_payload` must be 512 to {UDP_RESPONSE_BYTES_MAX}")));
        }
        self.tcp.check()?;
        self.tls.as_ref().map_or(Ok(()), Tls::check)?;
        self.rate_limit.check()?;
        self.transfer.check()?;
        Ok(())
    }
}
