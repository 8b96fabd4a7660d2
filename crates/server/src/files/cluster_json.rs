//! `DIR/cluster.json`: who runs where, for scripts and tests.

use super::{Readers, write_atomic};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::path::Path;

/// The file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterJson {
    /// The leader's id; null while there is none.
    pub(crate) leader: Option<u64>,
    /// All nodes, by id.
    pub(crate) nodes: Vec<NodeJson>,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct NodeJson {
    pub(crate) id: u64,
    /// Its process; null while it does not run.
    pub(crate) pid: Option<u32>,
    pub(crate) dns: SocketAddr,
    pub(crate) api: SocketAddr,
}

impl ClusterJson {
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        write_atomic(path, text.as_bytes(), Readers::All)
    }

    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let octets = super::read_bounded(path, crate::limits::SMALL_FILE_BYTES_MAX)?;
        Ok(serde_json::from_slice(&octets)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shape_is_that_of_the_contract() {
        let text = r#"{"leader":2,"nodes":[{"id":1,"pid":4711,"dns":"127.0.0.1:5301","api":"127.0.0.1:8054"}]}"#;
        let parsed: ClusterJson = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), text);
        let dir = crate::test_dir("cluster-json");
        parsed.save(&dir.path().join("cluster.json")).unwrap();
        assert_eq!(ClusterJson::load(&dir.path().join("cluster.json")).unwrap(), parsed);
    }
}
