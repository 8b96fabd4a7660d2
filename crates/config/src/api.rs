//! The `[api]` table.

use crate::limits::API_HOSTS_MAX;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The HTTP API for operators.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Address of the HTTP API.
    pub listen: SocketAddr,
    /// File with the bearer token, which changes need.
    pub token_file: PathBuf,
    /// Unix socket of the API, for commands on this machine. Default: beside the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Host names that requests over TCP may use, besides localhost and the node's addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

impl Api {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["listen", "token_file", "socket", "hosts"];

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.hosts.len() > API_HOSTS_MAX {
            return Err(("hosts", format!("`api.hosts` takes at most {API_HOSTS_MAX} names")));
        }
        Ok(())
    }
}
