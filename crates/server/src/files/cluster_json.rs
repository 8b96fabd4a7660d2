//! `DIR/cluster.json`: processes and addresses of the nodes, for scripts and tests.

use super::{Readers, write_atomic};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterJson {
    /// The leader's id; null while there is none.
    pub(crate) leader: Option<u64>,
    /// The CA certificate for clients of the encrypted transports; absent without such transports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<PathBuf>,
    /// All nodes, by id.
    pub(crate) nodes: Vec<NodeJson>,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeJson {
    pub(crate) id: u64,
    /// Its process; null while it does not run.
    pub(crate) pid: Option<u32>,
    /// Over UDP and TCP.
    pub(crate) dns: SocketAddr,
    /// Over TLS, HTTPS and QUIC; absent if closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dot: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) doh: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) doq: Option<SocketAddr>,
    pub(crate) api: SocketAddr,
}

impl ClusterJson {
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_atomic(path, text.as_bytes(), Readers::Owner)
    }

    pub(crate) fn load(path: &Path) -> io::Result<Self> {
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
        let dir = crate::test_dir("cluster-json");
        parsed.save(&dir.path().join("cluster.json")).unwrap();
        assert_eq!(ClusterJson::load(&dir.path().join("cluster.json")).unwrap(), parsed);
    }
}
