//! From an empty directory to a member, and from a member's directory to a running replica.

use super::Replica;
use super::founding::{Founding, create_log, log_id};
use super::torn::doubt_of;
use crate::apply::record_of;
use crate::checkpoint::{CheckpointError, CheckpointReader, has_remains, stale_files};
use crate::config::ReplicaConfig;
use crate::disk::{DiskOp, DiskRead, Tickets};
use crate::entry::Entry;
use crate::io::{AuditRecord, Member, Now, Output};
use crate::log::{self, CheckpointRef, Log};
use crate::machine::{Applied, Machine, Restore, RestoreError, empty_machine};
use crate::raft::{ConfTracker, decode_conf_change, is_conf_change};
use crate::state::Settings;
use core::fmt;
use raft::eraftpb::ConfState;
use zone::codec::DecodeError;

/// Index and term of the state that a cluster begins with.
const GENESIS: (u64, u64) = (1, 1);

/// Why a replica cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The log; a damaged one means quarantine: the node comes back under its next incarnation.
    Log(log::OpenError),
    /// The checkpoint.
    Checkpoint(CheckpointError),
    /// Log and checkpoint are sound, and cannot be read by this software.
    Version(DecodeError),
    /// The checkpoint does not lead to the state that it was written from.
    State,
    /// Memory for the zones cannot be reserved.
    Memory,
    /// The zones, as the cluster has them, are larger than what is reserved for them.
    Full,
    /// The directory belongs to another member or cluster.
    Foreign,
    /// Our own code panics at an entry that the cluster has committed. Log and checkpoint are sound.
    Apply {
        /// Of the entry.
        index: u64,
    },
    /// The cluster is at a feature level above what this software knows: what it writes could stop this member at any
    /// time.
    Level {
        /// That of the cluster.
        cluster: u32,
        /// That of this software.
        known: u32,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Checkpoint(error) => error.fmt(f),
            Self::Version(_) => f.write_str("written by newer software"),
            Self::State => f.write_str("the checkpoint does not restore the state that it was written from"),
            Self::Memory => f.write_str("cannot reserve memory for the zones"),
            Self::Full => f.write_str("the zones are larger than the memory that this software reserves for them"),
            Self::Foreign => f.write_str("the directory belongs to another member or cluster"),
            Self::Apply { index } => write!(f, "this software panics at entry {index}, which the cluster committed"),
            Self::Level { cluster, known } => {
                write!(f, "the cluster is at feature level {cluster}, this software knows {known} and none above")
            }
        }
    }
}

impl std::error::Error for OpenError {}

impl From<RestoreError> for OpenError {
    fn from(error: RestoreError) -> Self {
        match error {
            RestoreError::Decode(error) => Self::Version(error),
            RestoreError::Zone | RestoreError::Hash => Self::State,
            RestoreError::Memory => Self::Memory,
            RestoreError::Full => Self::Full,
        }
    }
}

impl Replica {
    /// What makes an empty directory that of a founding member: to be executed, in order, before [`Replica::open`].
    /// All founders must be given the same members. Executing it again after a crash is harmless as long as
    /// [`Replica::open`] says [`log::OpenError::Uninitialised`].
    ///
    /// # Errors
    /// [`OpenError::Memory`].
    pub fn init(config: &ReplicaConfig, members: &[Member]) -> Result<Vec<DiskOp>, OpenError> {
        let settings = Settings::genesis(config.cluster_id, members, config.feature_level);
        let mut machine = empty_machine(config, settings)?;
        machine.apply_empty(GENESIS.0, GENESIS.1);
        let voters = members.iter().map(|member| member.id).collect();
        Ok(Founding::new(config, &mut machine, voters).flatten().collect())
    }

    /// What makes an empty directory that of a member that joins: its state comes from the leader.
    #[must_use]
    pub fn init_joining(config: &ReplicaConfig) -> Vec<DiskOp> {
        create_log(log_id(config), config.log.clone(), CheckpointRef::default(), &mut Tickets::default())
    }

    /// Starts from what the disk holds.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(disk: &dyn DiskRead, mut config: ReplicaConfig, now: Now) -> Result<Self, OpenError> {
        let (log, repairs) = Log::open(disk, config.log.clone()).map_err(OpenError::Log)?;
        if let Some(torn) = doubt_of(&log, &repairs) {
            config.doubt = Some(config.doubt.map_or(torn, |known| known.and(torn)));
        }
        if log.id() != log_id(&config) {
            return Err(OpenError::Foreign);
        }
        let reference = log.checkpoint();
        let mut offer = None;
        let (mut machine, mut conf_state) = if reference.index == 0 {
            (empty_machine(&config, Settings::empty(config.cluster_id))?, ConfState::default())
        } else {
            let reader = CheckpointReader::open(disk, &reference).map_err(OpenError::Checkpoint)?;
            let machine = restore(disk, &reader, &config)?;
            let members = reader.manifest().header.members.clone();
            offer = Some(reader.into_parts());
            (machine, members)
        };
        let commit = log.hard_state().commit;
        let mut audited = Vec::new();
        let audit_after = config.audit_after;
        let mut audit = |record: AuditRecord| {
            if record.index() > audit_after {
                audited.push(record);
            }
        };
        replay(disk, &log, &mut machine, &mut conf_state, commit, &mut audit)?;
        let (cluster, known) = (machine.settings.feature_level(), config.feature_level);
        if cluster > known {
            return Err(OpenError::Level { cluster, known });
        }
        let files = disk.list().map_err(|error| OpenError::Log(log::OpenError::Disk(error)))?;
        let stale = stale_files(files.iter().map(|(file, _)| file.as_str()), &reference);
        let mut replica = Self::assemble(config, now, log, conf_state, machine);
        if let Some((manifest, table)) = offer {
            replica.offer_checkpoint(manifest, table);
        }
        replica.transfers.has_remains = has_remains(files.iter().map(|(file, _)| file.as_str()));
        replica.repairs = repairs;
        // The record that names the newest one may be in the kernel's memory only: on the disk is one before it then.
        replica.transfers.schedule_removal(stale);
        if reference.index > GENESIS.0.max(audit_after) {
            replica.out.push_back(Output::AuditGap { after: audit_after, to: reference.index });
        }
        if !audited.is_empty() {
            replica.out.push_back(Output::Audited { records: audited });
        }
        replica.report_all();
        if planted!(ServesAtStart) {
            replica.set_serving(crate::io::Serving::Yes);
        }
        Ok(replica)
    }
}

pub(super) fn restore(
    disk: &dyn DiskRead,
    reader: &CheckpointReader,
    config: &ReplicaConfig,
) -> Result<Machine, OpenError> {
    let mut restore = Restore::new(config)?;
    let mut result = Ok(());
    reader
        .for_each_item(disk, |section, item| {
            if result.is_ok() {
                result = restore.item(section, item);
            }
        })
        .map_err(OpenError::Checkpoint)?;
    result?;
    let header = &reader.manifest().header;
    Ok(restore.finish((header.index, header.term))?)
}

/// Applies the log up to that index.
pub(super) fn replay(
    disk: &dyn DiskRead,
    log: &Log,
    machine: &mut Machine,
    conf_state: &mut ConfState,
    commit: u64,
    audit: &mut impl FnMut(AuditRecord),
) -> Result<(), OpenError> {
    let first = machine.applied.0 + 1;
    if first > commit {
        return Ok(());
    }
    apply_all(|each| log.replay(disk, first, commit, each), machine, conf_state, audit)
}

/// Applies entries in order.
pub(super) fn apply_all(
    entries: impl FnOnce(&mut dyn FnMut(raft::eraftpb::Entry)) -> Result<(), log::OpenError>,
    machine: &mut Machine,
    conf_state: &mut ConfState,
    audit: &mut impl FnMut(AuditRecord),
) -> Result<(), OpenError> {
    let mut tracker = ConfTracker::new(conf_state);
    let mut result = Ok(());
    entries(&mut |entry| {
        if result.is_err() {
            return;
        }
        if is_conf_change(&entry) {
            if let Some(change) = decode_conf_change(&entry.data) {
                tracker.apply(&change);
            }
            machine.apply_empty(entry.index, entry.term);
        } else if entry.data.is_empty() {
            machine.apply_empty(entry.index, entry.term);
        } else {
            match Entry::decode(&entry.data) {
                Ok(decoded) => match machine.apply_guarded(entry.index, entry.term, &decoded, None) {
                    Some(Applied::Full) => result = Err(OpenError::Full),
                    Some(applied) => {
                        record_of(entry.index, &decoded, &applied).into_iter().for_each(&mut *audit);
                        machine.publish();
                    }
                    None => result = Err(OpenError::Apply { index: entry.index }),
                },
                Err(error) => result = Err(OpenError::Version(error)),
            }
        }
    })
    .map_err(OpenError::Log)?;
    if !planted!(ConfigurationOfCheckpoint) {
        *conf_state = tracker.conf_state();
    }
    result
}
