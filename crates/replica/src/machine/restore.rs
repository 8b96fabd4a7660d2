//! Restores a state from the items of a checkpoint: at start, and after a transfer while the replica runs.

use super::items::{
    HISTORY, PART_LAST, PART_MORE, SCALARS, SESSIONS, SETTINGS, STAGES, ZONE_RECORDS, ZONE_SERVED, ZONE_STAGED, ZONES,
};
use super::{ApplyMismatch, Machine, Stages};
use crate::checkpoint::Section;
use crate::config::ReplicaConfig;
use crate::limits::ENTRY_BYTES_MAX;
use crate::state::{History, HistoryLimits, Sessions, Settings};
use std::borrow::Cow;
use zone::codec::{DecodeError, Decoder};
use zone::set::{Edit, Version};
use zone::{ZoneId, ZoneSet, ZoneSetConfig};

/// Why a checkpoint cannot be restored. Its bytes are verified, so this software or newer software is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestoreError {
    /// An item that this software cannot read.
    Decode(DecodeError),
    /// A zone that the zone set refuses.
    Zone,
    /// The memory for zones cannot be reserved.
    Memory,
    /// The zones are larger than what is reserved for them.
    Full,
    /// The restored state differs from the one that was written.
    Hash,
}

impl From<DecodeError> for RestoreError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}

/// Restores only the settings of a checkpoint.
pub(crate) struct SettingsOnly {
    settings: Settings,
    parts: Vec<u8>,
}

impl SettingsOnly {
    pub(crate) fn new() -> Self {
        Self { settings: Settings::empty([0; 16]), parts: Vec::new() }
    }

    /// Takes the next item of any section.
    pub(crate) fn item(&mut self, section: Section, bytes: &[u8]) -> Result<(), RestoreError> {
        if section != SETTINGS {
            return Ok(());
        }
        let Some(bytes) = whole(&mut self.parts, bytes)? else { return Ok(()) };
        let mut from = Decoder::new(&bytes);
        self.settings.restore(&mut from)?;
        Ok(from.finish()?)
    }

    pub(crate) const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Returns the complete item if this is its last part.
fn whole<'o>(parts: &mut Vec<u8>, bytes: &'o [u8]) -> Result<Option<Cow<'o, [u8]>>, RestoreError> {
    let (&first, part) = bytes.split_first().ok_or(DecodeError::Short)?;
    if parts.len() + part.len() > 2 * ENTRY_BYTES_MAX {
        return Err(DecodeError::TooLarge.into());
    }
    match first {
        PART_LAST if parts.is_empty() => Ok(Some(part.into())),
        PART_MORE | PART_LAST => {
            parts.extend_from_slice(part);
            Ok((first == PART_LAST).then(|| core::mem::take(parts).into()))
        }
        _ => Err(DecodeError::Unknown.into()),
    }
}

/// A state that is being restored.
pub(crate) struct Restore {
    machine: Machine,
    state_hash: Option<u128>,
    /// The parts so far of an incomplete item.
    parts: Vec<u8>,
    /// The zone of the next records, and whether it remains staged.
    zone: Option<(ZoneId, bool)>,
}

/// An empty state.
pub(crate) fn empty_machine(config: &ReplicaConfig, settings: Settings) -> Result<Machine, RestoreError> {
    let zones = ZoneSet::new(ZoneSetConfig { store: config.store }).map_err(|_| RestoreError::Memory)?;
    let history = History::new(HistoryLimits {
        zone_count_max: config.history_count_max,
        zone_bytes_max: config.history_bytes_max,
        total_bytes_max: config.history_total_bytes_max,
    });
    let mut machine = Machine::new(zones, settings, Sessions::new(config.session_count_max), history, (0, 0));
    machine.panics_at.clone_from(&config.panics_at);
    Ok(machine)
}

impl Restore {
    pub(crate) fn new(config: &ReplicaConfig) -> Result<Self, RestoreError> {
        let machine = empty_machine(config, Settings::empty(config.cluster_id))?;
        Ok(Self { machine, state_hash: None, parts: Vec::new(), zone: None })
    }

    /// Takes the next item.
    pub(crate) fn item(&mut self, section: Section, bytes: &[u8]) -> Result<(), RestoreError> {
        match whole(&mut self.parts, bytes)? {
            Some(bytes) => self.whole_item(section, &bytes),
            None => Ok(()),
        }
    }

    fn whole_item(&mut self, section: Section, bytes: &[u8]) -> Result<(), RestoreError> {
        let mut from = Decoder::new(bytes);
        match section {
            SCALARS => {
                self.machine.time_ms = from.u64()?;
                if planted!(CheckpointWithoutTime) {
                    self.machine.time_ms = 0;
                }
                self.state_hash = Some(from.u128()?);
            }
            SETTINGS => self.machine.settings.restore(&mut from)?,
            SESSIONS => self.machine.sessions.restore(&mut from)?,
            HISTORY if planted!(CheckpointWithoutHistory) => return Ok(()),
            HISTORY => self.machine.history.restore(&mut from)?,
            STAGES => Stages::restore(&mut self.machine.stages, &mut from)?,
            ZONES => self.zone_item(&mut from)?,
            _ => return Err(DecodeError::Unknown.into()),
        }
        Ok(from.finish()?)
    }

    fn zone_item(&mut self, from: &mut Decoder<'_>) -> Result<(), RestoreError> {
        match from.u8()? {
            kind @ (ZONE_SERVED | ZONE_STAGED) => {
                self.finish_zone()?;
                self.zone = Some((from.zone_id()?, kind == ZONE_STAGED));
                Ok(())
            }
            ZONE_RECORDS => {
                let records = from.record_list()?;
                let (zone, _) = self.zone.as_ref().ok_or(DecodeError::Unknown)?;
                let zone = zone.clone();
                self.edit(|edit| Ok(edit.add_records(&zone, records.iter())?))
            }
            _ => Err(DecodeError::Unknown.into()),
        }
    }

    /// Makes the staged records the contents of the zone, unless they were staged when the checkpoint was written.
    fn finish_zone(&mut self) -> Result<(), RestoreError> {
        match self.zone.take() {
            Some((zone, false)) => self.edit(|edit| Ok(edit.commit_stage(&zone)?)),
            Some((_, true)) | None => Ok(()),
        }
    }

    fn edit(&mut self, change: impl FnOnce(&mut Edit<'_>) -> Result<(), ApplyMismatch>) -> Result<(), RestoreError> {
        let mut edit = self.machine.zones.edit();
        change(&mut edit).map_err(|mismatch| match mismatch {
            ApplyMismatch::Full => RestoreError::Full,
            ApplyMismatch::Base | ApplyMismatch::Content => RestoreError::Zone,
        })?;
        let version: Version = edit.seal();
        self.machine.zones.publish(version);
        self.machine.zones.reclaim();
        Ok(())
    }

    /// The state at `applied`, if it equals the one that was written.
    pub(crate) fn finish(mut self, applied: (u64, u64)) -> Result<Machine, RestoreError> {
        self.finish_zone()?;
        let mut machine = self.machine;
        machine.zones_hash = machine.zones.head().state_hash();
        machine.apply_empty(applied.0, applied.1);
        if self.parts.is_empty()
            && (planted!(
                CheckpointWithoutRepeats | CheckpointWithoutFloors | CheckpointWithoutTime | CheckpointWithoutHistory
            ) || self.state_hash == Some(machine.state_hash()))
        {
            Ok(machine)
        } else {
            Err(RestoreError::Hash)
        }
    }
}
