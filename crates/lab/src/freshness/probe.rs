//! The plan of a probe.

use load::workload::TsigKey;
use std::net::SocketAddr;
use std::time::Duration;
use wire::name::Name;

/// The plan of a probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The server for updates.
    pub server: SocketAddr,
    /// The watched servers.
    pub watched: Vec<SocketAddr>,
    /// The zone.
    pub zone: Name,
    /// The owner of the probe's TXT record, which is deleted at the end.
    pub owner: Name,
    /// Signs the updates. `None` if the server accepts them by address.
    pub key: Option<TsigKey>,
    /// Interval between updates.
    pub interval: Duration,
}
