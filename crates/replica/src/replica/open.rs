//! Creates a member in an empty directory, and starts a replica from a member's directory.

use super::Replica;
use super::founding::{Founding, create_log, log_id};
use crate::audit::record_of;
use crate::checkpoint::{CheckpointError, CheckpointReader, has_remains, stale_files};
use crate::config::ReplicaConfig;
use crate::disk::{DiskOp, DiskRead, Tickets};
use crate::entry::Entry;
use crate::io::{AuditRecord, Member, Now, Output};
use crate::log::{self, CheckpointRef, Log};
use crate::log_loss::loss_of_torn_record;
use crate::machine::{Applied, Machine, Restore, RestoreError, empty_machine};
use crate::raft::{ConfTracker, decode_conf_change, is_conf_change};
use crate::state::Settings;
use core::fmt;
use raft::eraftpb::ConfState;
use zone::codec::DecodeError;

/// Index and term of a new cluster's first state.
const GENESIS: (u64, u64) = (1, 1);

/// Why a replica cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The log. If it is damaged, the member goes into quarantine and the node returns under its next incarnation.
    Log(log::OpenError),
    /// The checkpoint.
    Checkpoint(CheckpointError),
    /// Log and checkpoint are intact, but this software cannot read them.
    Version(DecodeError),
    /// The checkpoint does not restore the state that it was written from.
    State,
    /// Memory for the zones cannot be reserved.
    Memory,
    /// The zones of the cluster are larger than the memory reserved for them.
    Full,
    /// The directory belongs to another member or cluster.
    Foreign,
    /// This software panics on an entry that the cluster committed. Log and checkpoint are intact.
    Apply {
        /// Index of the entry.
        index: u64,
    },
    /// The cluster's feature level is higher than this software supports, so an unknown entry could stop this member
    /// at any time.
    Level {
        /// The level of the cluster.
        cluster: u32,
        /// The level of this software.
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
    /// Operations that turn an empty directory into that of a founding member. Execute them in order before
    /// [`Replica::open`]. All founders must be given the same members. Repeating them after a crash is harmless while
    /// [`Replica::open`] returns [`log::OpenError::Uninitialised`].
    /// # Errors
    /// [`OpenError::Memory`].
    pub fn init(config: &ReplicaConfig, members: &[Member]) -> Result<Vec<DiskOp>, OpenError> {
        let settings = Settings::genesis(config.cluster_id, members, config.feature_level);
        let mut machine = empty_machine(config, settings)?;
        machine.apply_empty(GENESIS.0, GENESIS.1);
        let voters = members.iter().map(|member| member.id).collect();
        Ok(Founding::new(config, &mut machine, voters).flatten().collect())
    }

    /// Operations that turn an empty directory into that of a joining member. Its state comes from the leader.
    #[must_use]
    pub fn init_joining(config: &ReplicaConfig) -> Vec<DiskOp> {
        create_log(log_id(config), config.log.clone(), CheckpointRef::default(), &mut Tickets::default())
    }

    /// Starts from the state on disk.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(disk: &dyn DiskRead, mut config: ReplicaConfig, now: Now) -> Result<Self, OpenError> {
        let (log, repairs) = Log::open(disk, config.log.clone()).map_err(OpenError::Log)?;
        if let Some(torn) = loss_of_torn_record(&log, &repairs) {
            config.suspected_loss = Some(config.suspected_loss.map_or(torn, |known| known.and(torn)));
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
            let offer = replica.transfers.offer(manifest, table);
            replica.driver.set_offer(Some(offer));
        }
        replica.transfers.has_remains = has_remains(files.iter().map(|(file, _)| file.as_str()));
        replica.repairs = repairs;
        // The record that names the newest checkpoint may be only in the kernel's memory, while the record on disk
        // names an earlier one.
        replica.transfers.schedule_removal(stale);
        if reference.index > GENESIS.0.max(audit_after) {
            replica.outputs.push(Output::AuditGap { after: audit_after, to: reference.index });
        }
        if !audited.is_empty() {
            replica.outputs.push(Output::Audited { records: audited });
        }
        replica.report_all();
        if planted!(ServesAtStart) {
            replica.local.lifecycle.set_serving(crate::io::Serving::Yes, &mut replica.outputs);
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

/// Applies the log up to the given index.
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
