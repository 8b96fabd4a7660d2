//! Opens the replica from the data on its disk, as [`super::first_state`] or an earlier run left it.

use super::data_key::to_replica;
use super::disk::StartReads;
use super::fatal::{NEWER, REPLACE, quarantined};
use super::identity::Identity;
use super::log_config::log_config;
use super::room::make_room;
use super::suspected_loss;
use crate::audit_log::last_index;
use crate::limits::ZONES_HELD_SHARE;
use crate::replica_host::superseded::found_mark;
use crate::sys::clock;
use config::Config;
use config::files::layout::{audit_of, suspected_loss_of};
use process::problem::{Exit, Problem};
use replica::checkpoint::{CheckpointError, DamageKind};
use replica::disk::{DiskError, DiskRead};
use replica::io::Input;
use replica::log::Damage;
use replica::{OpenError, Replica, ReplicaConfig, log};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Why a replica could not be opened.
#[derive(Debug)]
pub(crate) enum NotOpened {
    /// Its log or checkpoint is damaged. Other members may have the damaged part.
    Damaged(Problem),
    /// Any other reason.
    Failed(Problem),
}

impl From<Problem> for NotOpened {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl NotOpened {
    pub(crate) fn into_problem(self) -> Problem {
        let (Self::Damaged(problem) | Self::Failed(problem)) = self;
        problem
    }
}

/// Opens the replica in the node's data directory.
pub(crate) fn open(config: &Config, identity: &Identity) -> Result<Replica, NotOpened> {
    let disk = StartReads::new(&config.dir);
    let failed = |why: String| Problem::new(Exit::Failed, "cannot open the node's data", why).at(config.dir.display());
    if let Some(why) = quarantined(&config.dir).map_err(|error| failed(error.to_string()))? {
        return Err(Problem { exit: Exit::Quarantined, ..failed(why) }.hint(REPLACE).into());
    }
    if let Some(problem) = found_mark(config.id, &config.dir).map_err(|error| failed(error.to_string()))? {
        return Err(problem.into());
    }
    if disk.list().map_err(|error| failed(error.to_string()))?.is_empty() {
        return Err(failed("the directory is empty, but this node has had data and has voted".into())
            .hint(GONE)
            .into());
    }
    if let Err(error) = make_room(&config.dir) {
        tracing::warn!(%error, dir = %config.dir.display(), "cannot make room for the start");
    }
    let mut replica = replica_config(config, identity);
    let written = suspected_loss::read(&config.dir).map_err(|error| unreadable_loss(config, &error))?;
    if let Some(written) = &written {
        tracing::warn!(why = written.why, "this node votes only for nodes that have the entries it may have lost");
        replica.suspected_loss = Some(written.loss);
    }
    let mut opened = Replica::open(&disk, replica, clock::now());
    if let Ok(replica) = &mut opened {
        replica.handle(Input::Memory { limit_bytes: config.zones.memory_bytes() }, clock::now());
    }
    for repair in opened.iter().flat_map(Replica::repairs) {
        tracing::warn!(%repair, "repaired the log");
    }
    // The first write to the log overwrites the torn record, so the suspected loss must be on disk before that.
    let found =
        opened.as_ref().ok().and_then(Replica::suspected_loss).filter(|loss| written.is_none_or(|of| of.loss != *loss));
    if let Some(loss) = found {
        let why = suspected_loss::torn_record(loss);
        suspected_loss::write(&config.dir, loss, &why)
            .map_err(|error| failed(format!("{why}; cannot write data.doubt: {error}")))?;
        tracing::warn!(why, "this node votes only for nodes that have the entries it may have lost");
    }
    opened.map_err(|error| {
        let (exit, hint) = exit_and_hint(&error);
        let problem = Problem { exit, ..failed(error.to_string()) };
        let problem = if let Some(hint) = hint { problem.hint(hint) } else { problem };
        if is_damage(&error) { NotOpened::Damaged(problem) } else { NotOpened::Failed(problem) }
    })
}

/// Whether the data is damaged or missing and another member may have the missing part.
pub(crate) fn is_damage(error: &OpenError) -> bool {
    match error {
        OpenError::Log(log::OpenError::Damage(damage)) => !matches!(damage.what, Damage::Version(_) | Damage::Foreign),
        OpenError::Log(log::OpenError::Disk(DiskError::Missing { .. }))
        | OpenError::Checkpoint(CheckpointError::Disk(DiskError::Missing { .. })) => true,
        OpenError::Checkpoint(CheckpointError::Damage(damage)) => !matches!(damage.what, DamageKind::Version(_)),
        _ => false,
    }
}

fn unreadable_loss(config: &Config, error: &std::io::Error) -> Problem {
    let file = suspected_loss_of(&config.dir);
    Problem::new(Exit::Input, "cannot read what the node's log may lack", error.to_string()).at(file.display()).hint(
        "the node wrote this file when a leader contradicted its log, or when the last record of the log was \
             incomplete; remove the file only if that is settled",
    )
}

/// The exit code and the hint for an error. Codes that prevent a restart are for errors that another start would hit
/// again.
fn exit_and_hint(error: &OpenError) -> (Exit, Option<String>) {
    match error {
        OpenError::Apply { index } => (Exit::Unappliable, Some(unappliable(*index))),
        OpenError::Version(_) | OpenError::Level { .. } => (Exit::Unappliable, Some(NEWER.to_owned())),
        OpenError::Full => (Exit::Unappliable, Some(TOO_LARGE.to_owned())),
        OpenError::Log(log::OpenError::Disk(DiskError::Failed { .. }))
        | OpenError::Checkpoint(CheckpointError::Disk(DiskError::Failed { .. })) => {
            (Exit::Failed, Some("check the disk and the file permissions; then start the node again".to_owned()))
        }
        OpenError::Log(_) | OpenError::Checkpoint(_) | OpenError::State => {
            (Exit::Quarantined, Some(REPLACE.to_owned()))
        }
        OpenError::Memory | OpenError::Foreign => (Exit::Failed, None),
    }
}

/// Hint if the data is missing. An older copy must never start: it lacks votes and updates that the node acknowledged
/// since, and Raft 5.4.1 relies on both.
const GONE: &str = "if its file system is not mounted, mount it. Otherwise remove the node (`catamaran cluster \
                    remove`) and join a new one. Never start an older copy of the directory: it lacks votes and \
                    updates that the node has acknowledged since";

/// Hint for zones that do not fit into memory.
const TOO_LARGE: &str = "nothing is damaged: keep the directory. Remove zones or records through the other nodes. Then \
                         remove this node (`catamaran cluster remove`) and join a new one, which gets their state";

/// Hint for an entry at which this software panics. A node that skipped it would have another state than the others.
fn unappliable(index: u64) -> String {
    format!(
        "this is a bug: please report it with the panic above and the number {index}. Nothing is damaged: keep the \
         directory. Start the node with a version that fixes this. If the other nodes run, they have applied the \
         entry. Then you can also remove the node (`catamaran cluster remove`) and join a new \
         one, which gets their state"
    )
}

/// The configuration of the replica.
pub(crate) fn replica_config(config: &Config, identity: &Identity) -> ReplicaConfig {
    let data_key = to_replica(&identity.data_keys).expect("a file of data keys has one");
    let replica = ReplicaConfig::new(identity.cluster_id, config.raft_id(), identity.boot_id, identity.seed, data_key);
    let audit_after = last_index(&audit_of(&config.dir));
    let answers_queries = config.answers_queries();
    let panics_at = panics_at();
    let mut log = log_config(&config.log, config.zones.memory_bytes() / ZONES_HELD_SHARE);
    log.block_bytes = identity.block_bytes;
    let key_growth_bytes_max = config.zones.key_growth_bytes();
    ReplicaConfig { log, audit_after, answers_queries, key_growth_bytes_max, panics_at, ..replica }
}

/// A label at which tests make the node panic. Only builds with debug assertions read it.
fn panics_at() -> Option<Vec<u8>> {
    if !cfg!(debug_assertions) {
        return None;
    }
    std::env::var_os("CATAMARAN_TEST_PANIC_AT").map(OsString::into_vec).filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_that_a_restart_would_hit_again_prevent_a_restart() {
        let refused = || DiskError::Failed { file: "log-1".into(), reason: "Input/output error".into() };
        let missing = || DiskError::Missing { file: "checkpoint-1".into() };
        let cases = [
            (OpenError::Apply { index: 812 }, Exit::Unappliable, "812"),
            (OpenError::Level { cluster: 9, known: 2 }, Exit::Unappliable, "version that the other nodes run"),
            (OpenError::Full, Exit::Unappliable, "Remove zones"),
            (OpenError::State, Exit::Quarantined, "must not vote"),
            (OpenError::Checkpoint(CheckpointError::Disk(missing())), Exit::Quarantined, "must not vote"),
            (OpenError::Log(log::OpenError::Uninitialised), Exit::Quarantined, "must not vote"),
            (OpenError::Checkpoint(CheckpointError::Disk(refused())), Exit::Failed, "check the disk"),
            (OpenError::Log(log::OpenError::Disk(refused())), Exit::Failed, "check the disk"),
            (OpenError::Memory, Exit::Failed, ""),
            (OpenError::Foreign, Exit::Failed, ""),
        ];
        for (error, exit, part) in cases {
            let (code, hint) = exit_and_hint(&error);
            assert_eq!(code, exit, "{error}");
            assert!(hint.unwrap_or_default().contains(part), "{error}");
        }
    }
}
