//! How the replica is opened: from its disk, or as the member of a new cluster, or as one that joins.

use super::audit_log::last_index;
use super::disk::{StartReads, Writer};
use super::identity::Identity;
use super::system;
use crate::config::Config;
use crate::files::layout::{audit_of, booted_of};
use crate::files::{Readers, write_atomic};
use crate::metrics::DurationHistogram;
use crate::problem::{Exit, Problem};
use replica::disk::{DiskOp, DiskRead};
use replica::io::Member;
use replica::{OpenError, Replica, ReplicaConfig};
use std::sync::Arc;

/// Opens the replica in the node's data directory.
pub(super) fn open(config: &Config, identity: &Identity) -> Result<Replica, Problem> {
    let disk = StartReads::new(&config.dir);
    let booted = booted_of(&config.dir);
    let failed =
        |why: String| Problem::new(Exit::Failed, "the node's data cannot be opened", why).at(config.dir.display());
    let files = disk.list().map_err(|error| failed(error.to_string()))?;
    match (booted.exists(), files.is_empty()) {
        (true, true) => {
            return Err(failed("it is gone: the node has had data before, and voted on it".into())
                .hint("restore the directory; or remove the node (`catamaran node remove`), and let a new one join"));
        }
        (true, false) => {}
        // What a crash left of a first start is written again; nobody has seen it.
        (false, _) => {
            let ops = first_boot(config, identity).map_err(|error| failed(error.to_string()))?;
            let mut writer = Writer::new(&config.dir, Arc::<DurationHistogram>::default());
            writer.execute_all(&ops).map_err(|error| failed(error.to_string()))?;
            write_atomic(&booted, b"", Readers::All).map_err(|error| failed(error.to_string()))?;
        }
    }
    let opened = Replica::open(&disk, replica_config(config, identity), system::now());
    for repair in opened.iter().flat_map(Replica::repairs) {
        tracing::warn!(%repair, "the log was put right");
    }
    opened.map_err(|error| {
        let mut problem = failed(error.to_string());
        match error {
            OpenError::Apply { index } => {
                problem.exit = Exit::Unappliable;
                problem.hint(unappliable(index))
            }
            OpenError::Log(_) | OpenError::Checkpoint(_) | OpenError::State => problem.hint(
                "the data is damaged and the node must not vote on it: remove the node (`catamaran node remove`) and \
                 let a new one join; the other nodes have all that was acknowledged",
            ),
            _ => problem,
        }
    })
}

/// What to do where an entry makes this software panic. Whoever left it out would hold another state than the others.
fn unappliable(index: u64) -> String {
    format!(
        "this is a bug: please report it with the panic above and the number {index}. Nothing is damaged: keep the \
         directory. Start the node with software that has it mended; if the other nodes run, they have applied the \
         entry, and the node can also be removed (`catamaran node remove`) and a new one join: it gets their state"
    )
}

/// What the replica of this node is started with.
pub(crate) fn replica_config(config: &Config, identity: &Identity) -> ReplicaConfig {
    let data_key = identity.data_keys.to_replica().expect("a file of data keys has one");
    let replica = ReplicaConfig::new(identity.cluster_id, config.raft_id(), identity.boot_id, identity.seed, data_key);
    let audit_after = last_index(&audit_of(&config.dir));
    let answers_queries = config.answers_queries();
    ReplicaConfig { log: config.log.to_sizes(), audit_after, answers_queries, ..replica }
}

fn first_boot(config: &Config, identity: &Identity) -> Result<Vec<DiskOp>, OpenError> {
    let replica = replica_config(config, identity);
    if config.joined {
        return Ok(Replica::init_joining(&replica));
    }
    let members: Vec<Member> = config
        .peer
        .members
        .iter()
        .map(|member| Member { id: member.id, address: member.address.to_string() })
        .collect();
    Replica::init(&replica, &members)
}
