//! `DIR/cluster.json`: processes and addresses of the nodes, for scripts and tests.

use super::{Readers, write_atomic};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterJson {
    /// The leader's id; null while there is none.
    pub leader: Option<u64>,
    /// The CA certificate for clients of the encrypted transports; absent without such transports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// All nodes, by id.
    pub nodes: Vec<NodeJson>,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeJson {
    /// Number of the node.
    pub id: u64,
    /// Its process; null while it does not run.
    pub pid: Option<u32>,
    /// Address for DNS over UDP and TCP.
    pub dns: SocketAddr,
    /// Address for DNS over TLS; absent if closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dot: Option<SocketAddr>,
    /// Address for DNS over HTTPS; absent if closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doh: Option<SocketAddr>,
    /// Address for DNS over QUIC; absent if closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doq: Option<SocketAddr>,
    /// Address of the API.
    pub api: SocketAddr,
}

impl ClusterJson {
    /// Writes the file.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_atomic(path, text.as_bytes(), Readers::Owner)
    }

    /// Reads the file.
    pub fn load(path: &Path) -> io::Result<Self> {
        let bytes = super::read_bounded(path, crate::limits::SMALL_FILE_BYTES_MAX)?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_has_the_documented_form() {
        let text = r#"{"leader":2,"nodes":[{"id":1,"pid":4711,"dns":"127.0.0.1:5301","api":"127.0.0.1:8054"}]}"#;
        let parsed: ClusterJson = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), text);
        let encrypted = text
            .replace(r#""nodes""#, r#""ca":"/d/ca.pem","nodes""#)
            .replace(r#","api""#, r#","dot":"127.0.0.1:8531","doh":"127.0.0.1:8441","doq":"127.0.0.1:8531","api""#);
        let parsed_too: ClusterJson = serde_json::from_str(&encrypted).unwrap();
        assert_eq!(serde_json::to_string(&parsed_too).unwrap(), encrypted);
        let dir = process::testing::test_dir("cluster-json");
        parsed.save(&dir.path().join("cluster.json")).unwrap();
        assert_eq!(ClusterJson::load(&dir.path().join("cluster.json")).unwrap(), parsed);
    }
}
