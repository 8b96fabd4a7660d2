//! The `[api]` table.

use crate::limits::API_HOSTS_MAX;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// How operators reach the node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Api {
    /// Address of the HTTP API.
    pub(crate) listen: SocketAddr,
    /// File with the bearer token that changes need.
    pub(crate) token_file: PathBuf,
    /// The Unix socket of the API, for the command line on this machine; beside the data by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) socket: Option<PathBuf>,
    /// Names by which the API may be asked over TCP, beside its addresses and localhost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hosts: Vec<String>,
}

impl Api {
    /// Its keys, for the search for the nearest one.
    pub(super) const KEYS: &[&str] = &["listen", "token_file", "socket", "hosts"];

    /// What types cannot say; names the key at fault.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.hosts.len() > API_HOSTS_MAX {
            return Err(("hosts", format!("`api.hosts` takes at most {API_HOSTS_MAX} names")));
        }
        Ok(())
    }
}
