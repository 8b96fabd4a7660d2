//! The `[peer]` table.

use super::address::PeerAddress;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Connections between nodes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Address to listen on for other nodes.
    pub listen: SocketAddr,
    /// The address that other nodes connect to: a host name or an IP address, and a port. Default: `listen`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertise: Option<PeerAddress>,
    /// Certificate of the cluster's CA, PEM.
    pub ca_file: PathBuf,
    /// This node's certificate, PEM.
    pub cert_file: PathBuf,
    /// Its private key, PEM.
    pub key_file: PathBuf,
    /// The members at the first start, including this node. Later, the replicated state counts.
    #[serde(default)]
    pub members: Vec<Member>,
    /// Further addresses of other nodes, by node number, from `serve --peer-address`.
    #[serde(skip)]
    pub extra_addresses: Vec<(u64, PeerAddress)>,
}

/// One `[[peer.members]]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its raft id: its number, and its incarnation in the upper 32 bits.
    pub id: u64,
    /// Its address for the other nodes.
    pub address: PeerAddress,
}

impl Peer {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["listen", "advertise", "ca_file", "cert_file", "key_file", "members"];

    /// Checks the values. An error names the key.
    pub(super) fn check(&self, node: u32, raft_id: u64) -> Result<(), (&'static str, String)> {
        if self.advertise.as_ref().is_some_and(|address| !address.is_reachable()) {
            return Err(("advertise", "`peer.advertise` must be an address that other nodes can connect to".into()));
        }
        let mut ids: Vec<u64> = self.members.iter().map(|member| member.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(("members", "two members have the same `id`".into()));
        }
        if !ids.is_empty() && !ids.contains(&raft_id) {
            return Err(("members", format!("node {node} is not among the members")));
        }
        Ok(())
    }
}

impl Member {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &["id", "address"];
}
