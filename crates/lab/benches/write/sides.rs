//! The servers under test. Each is started for its turn and stopped after it.

use super::bare::Bare;
use super::lost;
use super::machine::family;
use super::options::Options;
use super::rivals;
use super::side::Side;
use super::zone::{APEX, make_zone};
use std::net::SocketAddr;
use std::path::PathBuf;
use testbed::{Cluster, Peer, ServedZone};

/// A running side.
pub(crate) struct RunningSide {
    /// The addresses of its nodes.
    pub(crate) nodes: Vec<SocketAddr>,
    /// A key file in the format of `dig -k`.
    pub(crate) key: PathBuf,
    process: Process,
}

enum Process {
    Catamaran(Cluster),
    Bare(Bare),
    Rival(Peer),
}

impl RunningSide {
    /// Starts a side with a new zone. Returns `None` if its program is not installed.
    pub(crate) fn start(side: Side, options: &Options) -> Result<Option<Self>, String> {
        let folder = options.folder.join(side.name());
        // Removes the files of the previous turn.
        let _removed = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let zone = make_zone(&folder, options.names)?;
        if side == Side::Bare {
            let bare = Bare::start(&folder)?;
            let key = rivals::make_key(&folder)?;
            return Ok(Some(Self { nodes: bare.addresses.clone(), key, process: Process::Bare(bare) }));
        }
        let Side::Catamaran(count) = side else {
            let rival = side.rival().map_or(Ok(None), |kind| rivals::start(kind, &folder, &zone))?;
            return Ok(rival.map(|(peer, key)| Self { nodes: vec![peer.address], key, process: Process::Rival(peer) }));
        };
        let started = Cluster::start_nodes(&folder, &[ServedZone::new(APEX, &zone)], count);
        let own = started.map_err(|error| error.to_string())?;
        let nodes = (1..=count).map(|node| own.dns_of(node)).collect();
        Ok(Some(Self { nodes, key: own.cluster_folder().join("update.key"), process: Process::Catamaran(own) }))
    }

    /// The addresses of its nodes as a value for `--server`.
    pub(crate) fn servers(&self) -> String {
        self.nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// How many acknowledged updates are missing. Each update adds a new name with this prefix.
    pub(crate) fn count_lost(&self, prefix: &str, acknowledged: u64, unanswered: u64) -> Result<u64, String> {
        match &self.process {
            Process::Bare(bare) => bare.count_lost(acknowledged),
            Process::Catamaran(_) | Process::Rival(_) => {
                lost::count_lost(&self.nodes, &self.key, prefix, acknowledged, unanswered)
            }
        }
    }

    /// Its processes.
    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.process {
            Process::Catamaran(own) => family(own.pid()),
            Process::Bare(bare) => bare.pids(),
            Process::Rival(peer) => family(peer.pid()),
        }
    }
}
