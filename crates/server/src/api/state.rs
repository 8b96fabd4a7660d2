//! The state that all handlers share.

use super::backups::Backups;
use super::host_names::Hosts;
use super::join_offer::JoinOffer;
use super::metrics::NodeMetrics;
use crate::peer::announce::PeerCheck;
use crate::published::readers::Zones;
use crate::published::serving::{ServingState, ZoneLimits};
use crate::replica_host::handle::ReplicaHandle;
use config::files::api_token::ApiToken;
use config::files::data_key::DataKeyFile;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The state that all handlers share.
pub(crate) struct Api {
    pub(crate) node: u64,
    pub(crate) started_at: Instant,
    /// Whether the node has addresses for clients.
    pub(crate) has_dns: bool,
    pub(crate) token: ApiToken,
    /// The user of the node's process.
    pub(crate) uid: u32,
    /// Host names that requests may use.
    pub(crate) hosts: Hosts,
    pub(crate) handle: ReplicaHandle,
    pub(crate) serving: Arc<ServingState>,
    pub(crate) limits: Arc<ZoneLimits>,
    pub(crate) metrics: NodeMetrics,
    pub(crate) zones: Mutex<Zones>,
    pub(crate) backups: Backups,
    /// Limits the requests that wait for a serial.
    pub(crate) serial_wait_permits: tokio::sync::Semaphore,
    /// Path of the audit log.
    pub(crate) audit: std::path::PathBuf,
    /// File of this node's data keys.
    pub(crate) data_key_file: DataKeyFile,
    /// Contents of join tokens.
    pub(crate) join: JoinOffer,
    /// Verifies that a node answers at its new address before it is moved.
    pub(crate) peer_check: Option<PeerCheck>,
}
