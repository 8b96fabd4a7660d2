//! Creates a new cluster of one member, from a backup of another cluster or from the disk of the last member of one.
//!
//! The state that clients know is kept: zones, keys, grants, and executed updates, so that a repeat is still not
//! executed twice. The old cluster's members are dropped. Serials jump ahead, because secondaries may have seen
//! changes that the state lacks, and refuse a zone whose serial goes back (RFC 1982 3.2).

use super::Replica;
use super::founding::Founding;
use super::open::{OpenError, apply_all, replay, restore};
use crate::checkpoint::{CheckpointError, CheckpointReader};
use crate::config::ReplicaConfig;
use crate::disk::DiskRead;
use crate::io::Member;
use crate::log::{self, Log, Salvage};
use crate::machine::{Machine, RestoredZone, SettingsOnly};
use crate::secrets::DataKey;
use crate::update::serial::SerialGap;
use core::fmt;
use wire::name::Name;

/// A backup: a checkpoint under any name, with verified header, table and trailer.
#[derive(Debug)]
pub struct Backup(CheckpointReader);

/// Why no new cluster was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreFailure {
    /// The old state cannot be read.
    Open(OpenError),
    /// The given data key does not open the secret of this TSIG key.
    DataKey(Name),
    /// The same, for a member that had been removed: the others have replaced the data key since.
    RemovedMember,
    /// A zone cannot get another serial.
    Zone(Name),
}

impl fmt::Display for RestoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::DataKey(name) => {
                write!(f, "cannot open the secret of key {name}: the data key belongs to another cluster")
            }
            Self::RemovedMember => {
                f.write_str("this node was removed from its cluster, which has replaced its data key since")
            }
            Self::Zone(apex) => write!(f, "cannot set a new serial for zone {apex}"),
        }
    }
}

impl std::error::Error for RestoreFailure {}

impl From<OpenError> for RestoreFailure {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

/// Description of a new cluster, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The id of the old cluster.
    pub cluster_id: [u8; 16],
    /// The members of the old cluster, by its state.
    pub members: Vec<Member>,
    /// Index and term of the last entry in the state.
    pub applied: (u64, u64),
    /// Index of the new cluster's first entry.
    pub founded: u64,
    /// Zones in order, with their old and new serials.
    pub zones: Vec<RestoredZone>,
    /// TSIG keys.
    pub key_count: usize,
    /// The first and the last lost entry of the old log: the first unreadable entry and everything after it.
    pub lost: Option<(u64, u64)>,
    /// The state is from the directory of a removed member, so it lacks later changes of the old cluster.
    pub was_removed: bool,
}

/// The founder of the new cluster.
pub struct Founder<'f> {
    /// Configuration of its replica, with the new cluster's id and data key.
    pub config: &'f ReplicaConfig,
    /// The address for its peers.
    pub address: String,
    /// The data key of the old cluster.
    pub old_key: &'f DataKey,
    /// How far serials jump ahead.
    pub serial_gap: SerialGap,
    /// Seconds since 1970. The serials of zones with the policy `unixtime` jump ahead from this time.
    pub now_s: u64,
    /// Returns random bytes.
    pub nonce: &'f mut dyn FnMut() -> [u8; 12],
}

impl Backup {
    /// Opens a file.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn open(disk: &dyn DiskRead, file: &str) -> Result<Self, CheckpointError> {
        CheckpointReader::open_file(disk, file.to_owned()).map(Self)
    }

    /// Reads and verifies every block; returns the size of the file.
    ///
    /// # Errors
    /// [`CheckpointError`].
    pub fn verify(&self, disk: &dyn DiskRead) -> Result<u64, CheckpointError> {
        self.0.for_each_item(disk, |_, _| {})?;
        Ok(self.0.manifest().file_bytes())
    }

    /// The same, and checks that this data key opens all secrets in it, as [`Replica::restore`] requires.
    ///
    /// # Errors
    /// [`RestoreFailure`].
    pub fn verify_with_key(&self, disk: &dyn DiskRead, key: &DataKey) -> Result<u64, RestoreFailure> {
        let (mut settings, mut result) = (SettingsOnly::new(), Ok(()));
        let each = |section, item: &[u8]| {
            if result.is_ok() {
                result = settings.item(section, item);
            }
        };
        self.0.for_each_item(disk, each).map_err(OpenError::Checkpoint)?;
        result.map_err(OpenError::from)?;
        settings.settings().check_opens(key).map_err(RestoreFailure::DataKey)?;
        Ok(self.0.manifest().file_bytes())
    }

    /// Index of the last entry that it contains.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.0.manifest().header.index
    }
}

impl Replica {
    /// Operations that turn an empty directory into that of the founder of a new cluster with the backup's state.
    /// Execute them in order before [`Replica::open`].
    ///
    /// # Errors
    /// [`RestoreFailure`].
    pub fn restore(
        disk: &dyn DiskRead,
        backup: &Backup,
        founder: Founder<'_>,
    ) -> Result<(Restored, Founding), RestoreFailure> {
        let machine = restore(disk, &backup.0, founder.config)?;
        found(machine, founder, None, false)
    }

    /// Restores from the directory of a member whose cluster has lost its majority. The result contains all entries of
    /// the member's log, even if it does not know that they were committed. `old` is the configuration of that member.
    /// If the log or the checkpoint is damaged and `accepts_damage` is set, the result ends before the first unreadable
    /// entry.
    ///
    /// # Errors
    /// [`RestoreFailure`].
    pub fn recover(
        disk: &dyn DiskRead,
        old: &ReplicaConfig,
        founder: Founder<'_>,
        accepts_damage: bool,
    ) -> Result<(Restored, Founding), RestoreFailure> {
        let (machine, lost) = match last_state(disk, old, founder.config) {
            Err(OpenError::Log(log::OpenError::Damage(_)) | OpenError::Checkpoint(_)) if accepts_damage => {
                readable_state(disk, old, founder.config)?
            }
            state => (state?, None),
        };
        let was_removed = machine.settings.members().iter().all(|member| member.id != old.id);
        found(machine, founder, lost, was_removed).map_err(|failure| match failure {
            RestoreFailure::DataKey(_) if was_removed => RestoreFailure::RemovedMember,
            failure => failure,
        })
    }
}

/// Returns the state at the end of an intact log.
fn last_state(disk: &dyn DiskRead, old: &ReplicaConfig, config: &ReplicaConfig) -> Result<Machine, OpenError> {
    let (log, _repairs) = Log::open(disk, old.log.clone()).map_err(OpenError::Log)?;
    if log.id() != super::founding::log_id(old) {
        return Err(OpenError::Foreign);
    }
    let reader = CheckpointReader::open(disk, &log.checkpoint()).map_err(OpenError::Checkpoint)?;
    let mut machine = restore(disk, &reader, config)?;
    let mut members = reader.manifest().header.members.clone();
    // A majority may have acknowledged entries here without this member knowing it. The old cluster keeps its audit
    // log; the new cluster's audit log begins with this entry.
    let through = if planted!(RecoverTakesCommittedOnly) { log.hard_state().commit } else { log.last_index() };
    replay(disk, &log, &mut machine, &mut members, through, &mut |_| {})?;
    Ok(machine)
}

/// Returns the state before the first unreadable entry, and the first and last lost entry.
fn readable_state(
    disk: &dyn DiskRead,
    old: &ReplicaConfig,
    config: &ReplicaConfig,
) -> Result<(Machine, Option<(u64, u64)>), OpenError> {
    let mut salvage = Salvage::examine(disk).map_err(OpenError::Log)?;
    if salvage.id() != super::founding::log_id(old) {
        return Err(OpenError::Foreign);
    }
    // Without an intact checkpoint, this reports the damage in the log's own checkpoint.
    let checkpoint = salvage.newest_checkpoint(disk).unwrap_or(salvage.checkpoint());
    let reader = CheckpointReader::open(disk, &checkpoint).map_err(OpenError::Checkpoint)?;
    let mut machine = restore(disk, &reader, config)?;
    let mut members = reader.manifest().header.members.clone();
    let lost = salvage.cut(disk, &checkpoint).map_err(OpenError::Log)?;
    let entries = |each: &mut dyn FnMut(raft::eraftpb::Entry)| salvage.for_each_entry(disk, checkpoint.index, each);
    apply_all(entries, &mut machine, &mut members, &mut |_| {})?;
    Ok((machine, lost))
}

fn found(
    mut machine: Machine,
    mut founder: Founder<'_>,
    lost: Option<(u64, u64)>,
    was_removed: bool,
) -> Result<(Restored, Founding), RestoreFailure> {
    let config = founder.config;
    let (cluster, known) = (machine.settings.feature_level(), config.feature_level);
    if cluster > known {
        return Err(OpenError::Level { cluster, known }.into());
    }
    let (index, term) = machine.applied;
    let mut restored = Restored {
        cluster_id: machine.settings.cluster_id(),
        members: machine.settings.members(),
        applied: (index, term),
        founded: index + 1,
        zones: Vec::new(),
        key_count: machine.settings.keys().len(),
        lost,
        was_removed,
    };
    let stepped = machine.step_serials(founder.serial_gap, founder.now_s);
    restored.zones = stepped.map_err(|zone| RestoreFailure::Zone(zone.apex))?;
    machine.forget_history();
    let member = Member { id: config.id, address: core::mem::take(&mut founder.address) };
    let reseal = |context: &[u8], sealed: &crate::Sealed| {
        let plain = founder.old_key.open(sealed, context)?;
        Some(config.data_key.seal((founder.nonce)(), context, &plain))
    };
    machine
        .settings
        .move_to(config.cluster_id, config.data_key.newest(), member, reseal)
        .map_err(RestoreFailure::DataKey)?;
    // An entry that exists in no other log, so the old cluster's logs and this one never match.
    machine.apply_empty(restored.founded, term + 1);
    let founding = Founding::new(config, &mut machine, vec![config.id]);
    Ok((restored, founding))
}
