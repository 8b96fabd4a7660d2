//! `cluster recover` makes a new cluster that replaces an old one. The nodes of the old one may come back, form a
//! majority again, and acknowledge updates under the same keys. So the node of the new cluster repeatedly notifies all
//! members of the old one that their cluster is superseded. It uses the certificate and the key of the old member that
//! it was made from.
//!
//! ```text
//!   new node:  "catamaran-peer\0\x01"  0xFA  length(4)  Superseded (JSON)
//!   old node:  length(4)  Result<(), reason> (JSON)
//! ```
//! The old node accepts the message only from a member whose key is pinned in its state. It writes `data.superseded`
//! and exits with 7. Older software closes the connection at the byte 0xFA.

use super::admission::Admission;
use super::frame::{SUPERSEDE_KIND, read_message, request, write_message};
use super::resolve;
use crate::limits::{PEER_DIAL_BACK_MS, SUPERSEDED_TEXT_BYTES_MAX};
use crate::replica_host::superseded::superseded;
use crate::tls::names::node_number;
use crate::tls::peer_identity::PeerIdentity;
use crate::tls::session::{PeerFiles, PeerTls, server_name};
use config::files::layout::{superseded_of, supersedes_of};
use config::files::{Readers, read_bounded, write_atomic};
use config::limits::SMALL_FILE_BYTES_MAX;
use process::log;
use process::problem::Exit;
use replica::io::{Member, NodeId};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::server::TlsStream;

/// Pause between two rounds in which a node tells the members of the old cluster that it is superseded.
const SUPERSEDES_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize, Deserialize)]
struct Superseded {
    /// The raft id, in the old cluster, of the member that the new cluster was made from.
    from: NodeId,
    /// The id of the new cluster.
    by: String,
}

/// The old cluster, in the file that `recover` leaves for the new node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OldCluster {
    /// The raft id of the member that the new cluster was made from.
    pub(crate) from: NodeId,
    /// The id of the new cluster.
    pub(crate) by: String,
    /// The members of the old cluster.
    pub(crate) members: Vec<OldMember>,
}

/// A member of the old cluster.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OldMember {
    id: NodeId,
    address: String,
}

impl From<Member> for OldMember {
    fn from(Member { id, address }: Member) -> Self {
        Self { id, address }
    }
}

/// The node that exits when its cluster is superseded.
#[derive(Clone, Debug)]
pub(crate) struct SupersededNode {
    pub(crate) id: u32,
    pub(crate) data: PathBuf,
}

impl SupersededNode {
    /// Handles the message of a member. The caller limits the time.
    pub(super) async fn serve(
        &self,
        stream: &mut TlsStream<TcpStream>,
        admission: &Admission,
        identity: &PeerIdentity,
    ) -> io::Result<()> {
        let Superseded { from, by } = read_message(stream).await?;
        let is_id = by.len() <= SUPERSEDED_TEXT_BYTES_MAX && by.bytes().all(|byte| byte.is_ascii_hexdigit());
        let result = match admission.check(from, identity) {
            _ if !is_id => Err("the id of the new cluster is not valid".to_owned()),
            // A removed member may have the CA's key.
            Ok(()) if !admission.is_pinned(from, identity) => Err("the key of the node is not pinned".to_owned()),
            Ok(()) => Ok(()),
            Err(refusal) => Err(refusal.to_string()),
        };
        if result.is_err() {
            return write_message(stream, &result).await;
        }
        let why = format!("cluster {by} was made from node {} and replaces this cluster", node_number(from));
        if let Err(error) = mark(&self.data, &why) {
            tracing::error!(%error, "cannot write data.superseded: do not start this node again");
        }
        let sent = write_message(stream, &result).await.and(stream.shutdown().await);
        if let Err(error) = sent {
            tracing::debug!(%error, "the new cluster did not get the answer; it will repeat the message");
        }
        log::exit_at_once(Exit::Removed, superseded(self.id, &self.data, &why))
    }
}

/// Writes `data.superseded`. No node starts with this data afterwards.
pub(crate) fn mark(data: &Path, why: &str) -> io::Result<()> {
    write_atomic(&superseded_of(data), format!("{why}\n").as_bytes(), Readers::Owner)
}

/// Stores the old cluster's members, and the certificate of one of them, for the node with this data.
pub(crate) fn leave(data: &Path, old: &OldCluster, files: &PeerFiles) -> io::Result<()> {
    let dir = supersedes_of(data);
    std::fs::create_dir_all(&dir)?;
    let left = files_in(&dir);
    for (from, to) in [(&files.ca, &left.ca), (&files.cert, &left.cert), (&files.key, &left.key)] {
        write_atomic(to, &read_bounded(from, SMALL_FILE_BYTES_MAX)?, Readers::Owner)?;
    }
    // This file is written last: if it exists, the others exist too.
    write_atomic(&dir.join("members.json"), &serde_json::to_vec_pretty(old)?, Readers::Owner)
}

fn files_in(dir: &Path) -> PeerFiles {
    PeerFiles { ca: dir.join("ca.pem"), cert: dir.join("node.pem"), key: dir.join("node.key") }
}

/// Notifies the members of an old cluster.
pub(crate) struct Superseder {
    old: OldCluster,
    tls: PeerTls,
    /// The address where this node listens for its own peers. A member of the old cluster cannot be at this address.
    own: String,
}

impl Superseder {
    /// The old cluster of the node with this data, if there is one.
    pub(crate) fn load(data: &Path, own: String) -> Option<Self> {
        let dir = supersedes_of(data);
        let loaded = || {
            let old = serde_json::from_slice(&read_bounded(&dir.join("members.json"), SMALL_FILE_BYTES_MAX)?)?;
            Ok::<_, io::Error>(Self { old, tls: files_in(&dir).load()?, own })
        };
        match loaded() {
            Ok(superseder) => Some(superseder),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let dir = dir.display();
                tracing::warn!(%error, %dir, "cannot notify the nodes of the old cluster that it is superseded");
                None
            }
        }
    }

    /// Notifies all of them repeatedly, because any of them may start at any time.
    pub(crate) async fn run(self) {
        loop {
            for member in self.old.members.iter().filter(|member| member.address != self.own) {
                let limit = Duration::from_millis(PEER_DIAL_BACK_MS);
                let answer = tokio::time::timeout(limit, self.notify(member)).await;
                let (node, address) = (node_number(member.id), &member.address);
                match answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(Ok(())) => tracing::warn!(node, address, "a running node of the old cluster now exits"),
                    Ok(Err(why)) => tracing::warn!(node, address, why, "a node of the old cluster keeps running"),
                    Err(error) => tracing::debug!(node, address, %error, "cannot reach a node of the old cluster"),
                }
            }
            tokio::time::sleep(SUPERSEDES_EVERY).await;
        }
    }

    async fn notify(&self, member: &OldMember) -> io::Result<Result<(), String>> {
        let stream = resolve::connect(&member.address).await?;
        let connector = TlsConnector::from(self.tls.client.clone());
        let mut stream = connector.connect(server_name(node_number(member.id)), stream).await?;
        let message = Superseded { from: self.old.from, by: self.old.by.clone() };
        request(&mut stream, SUPERSEDE_KIND, &message).await
    }
}
