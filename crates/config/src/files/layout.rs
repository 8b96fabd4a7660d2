//! The files in the directory of a cluster.
//!
//! ```text
//!   DIR/lock                 locked by the running `up`
//!   DIR/cluster.json         processes and addresses of the nodes, kept up to date by `up`
//!   DIR/update.key           TSIG key with all rights on all zones, made by `up`
//!   DIR/api.token            bearer token of the API
//!   DIR/ca.pem, ca.key       the cluster's CA, for certificates between nodes and for clients of `up`
//!   DIR/cluster.id           id of the cluster
//!   DIR/data.key             the data keys, which seal secrets in log and checkpoints; encrypted
//!   DIR/wrapping.key         the key that encrypts data.key, unless the configuration names another file
//!   DIR/node-1/catamaran.toml, node.pem, node.key, node.log
//!   DIR/node-1/dns.pem, dns.key  certificate for clients of DNS over TLS, HTTPS and QUIC
//!   DIR/node-1/data/         log and checkpoints, and reserved space for a start on a full disk
//!   DIR/node-1/data.lock     locked by the running node
//!   DIR/node-1/data.booted   exists once the node has had data
//!   DIR/node-1/data.quarantined  why the node must not vote on its data
//!   DIR/node-1/data.superseded   why this node must not start: another cluster was made from one of its nodes
//!   DIR/node-1/data.supersedes/  members of the old cluster, to be notified that it is superseded
//!   DIR/node-1/data.doubt    entries that the node's log may lack, until this is resolved
//!   DIR/node-1/data.members  the members and their keys, for a node that cannot read its state
//!   DIR/node-1/data.peer-address  the address that the node last announced to the cluster
//!   DIR/node-1/data.scrubbed time of the last scrub that found no damage
//!   DIR/node-1/data.sock     Unix socket of the API; it stays when the node stops
//!   DIR/node-1/data.audit    audit log; data.audit.1 to .7 are older
//! ```

use std::path::{Path, PathBuf};

/// The directory of a cluster.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// The layout of this directory.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The lock of the running `up`.
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// The nodes and their addresses.
    pub fn cluster_json(&self) -> PathBuf {
        self.dir.join("cluster.json")
    }

    /// The TSIG key for updates.
    pub fn update_key(&self) -> PathBuf {
        self.dir.join("update.key")
    }

    /// The token of the API.
    pub fn api_token(&self) -> PathBuf {
        self.dir.join("api.token")
    }

    /// The keys that seal secrets.
    pub fn data_key(&self) -> PathBuf {
        self.dir.join("data.key")
    }

    /// The certificate of the CA.
    pub fn ca_cert(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The private key of the CA.
    pub fn ca_key(&self) -> PathBuf {
        self.dir.join("ca.key")
    }

    /// The existing files that identify a cluster and its nodes: CA, id, keys, and the directories of nodes.
    pub fn identities(&self) -> Vec<PathBuf> {
        let of_cluster =
            [self.ca_cert(), self.ca_key(), cluster_id_of(&self.ca_cert()), self.data_key(), self.api_token()];
        of_cluster.into_iter().filter(|file| file.exists()).chain(self.nodes()).collect()
    }

    /// The configurations of the nodes, sorted by name.
    pub fn configs(&self) -> Vec<PathBuf> {
        let configs = self.nodes().into_iter().map(|dir| NodeLayout { dir }.config());
        configs.filter(|config| config.is_file()).collect()
    }

    /// The directories of the nodes, sorted by name.
    fn nodes(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let nodes = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"node-"));
        let mut nodes: Vec<PathBuf> = nodes.map(|entry| entry.path()).collect();
        nodes.sort_unstable();
        nodes
    }

    /// The files of one node.
    pub fn node(&self, id: u64) -> NodeLayout {
        NodeLayout { dir: self.dir.join(format!("node-{id}")) }
    }
}

/// The directory of one node.
#[derive(Clone, Debug)]
pub struct NodeLayout {
    dir: PathBuf,
}

impl NodeLayout {
    /// The directory of the node.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its configuration.
    pub fn config(&self) -> PathBuf {
        self.dir.join("catamaran.toml")
    }

    /// Its certificate for connections between nodes.
    pub fn cert(&self) -> PathBuf {
        self.dir.join("node.pem")
    }

    /// The private key of that certificate.
    pub fn key(&self) -> PathBuf {
        self.dir.join("node.key")
    }

    /// Its certificate for DNS clients.
    pub fn dns_cert(&self) -> PathBuf {
        self.dir.join("dns.pem")
    }

    /// The private key of that certificate.
    pub fn dns_key(&self) -> PathBuf {
        self.dir.join("dns.key")
    }

    /// The file with its log output.
    pub fn log(&self) -> PathBuf {
        self.dir.join("node.log")
    }

    /// The directory of its data.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }
}

/// The lock of a node. It is beside the data directory, which contains only files of the replica.
pub fn lock_of(data: &Path) -> PathBuf {
    data.with_extension("lock")
}

/// The cluster id, beside the CA certificate.
pub fn cluster_id_of(ca_file: &Path) -> PathBuf {
    ca_file.with_file_name("cluster.id")
}

/// The Unix socket of a node's API.
pub fn socket_of(data: &Path) -> PathBuf {
    data.with_extension("sock")
}

/// The audit log of a node.
pub fn audit_of(data: &Path) -> PathBuf {
    data.with_extension("audit")
}

/// The address that the node last announced to the cluster. If its configuration differs, the node announces again.
pub fn peer_address_of(data: &Path) -> PathBuf {
    data.with_extension("peer-address")
}

/// Time of the last scrub that found no damage.
pub fn scrubbed_of(data: &Path) -> PathBuf {
    data.with_extension("scrubbed")
}

/// The members and their keys, as the node last knew them.
pub fn members_of(data: &Path) -> PathBuf {
    data.with_extension("members")
}

/// Exists once the node has had data. Older versions, which create data at the first start, check it.
pub fn booted_of(data: &Path) -> PathBuf {
    data.with_extension("booted")
}

/// Exists while the node's log may lack acknowledged entries.
pub fn suspected_loss_of(data: &Path) -> PathBuf {
    data.with_extension("doubt")
}

/// Exists once another cluster has replaced the node's cluster.
pub fn superseded_of(data: &Path) -> PathBuf {
    data.with_extension("superseded")
}

/// The members of the old cluster, which the node notifies that their cluster is superseded.
pub fn supersedes_of(data: &Path) -> PathBuf {
    data.with_extension("supersedes")
}

/// Exists if an older version, or an operator, decided that the node must not vote.
pub fn quarantined_of(data: &Path) -> PathBuf {
    data.with_extension("quarantined")
}
