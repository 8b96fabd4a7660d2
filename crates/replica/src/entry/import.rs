//! Imports in parts: begin, chunks, commit. The stage is invisible before its commit.

use crate::io::{AckOption, LimitsChange, OptionsChange, SerialPolicyOption, StaleOption, ZoneLimits, ZoneOptions};
use crate::limits::{IMPORT_CHUNK_BYTES_MAX, IMPORT_CHUNKS_MAX};
use zone::codec::{DecodeError, Decoder, Encoder};
use zone::{RecordList, ZoneId};

/// Identifies a stage. The importing replica chooses it, unique among its imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StageId(pub [u8; 16]);

/// The purpose of the staged records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportPurpose {
    /// Create a zone.
    Create {
        /// Its options.
        options: ZoneOptions,
    },
    /// Replace the contents of a zone.
    Replace {
        /// Hash of the contents that are replaced.
        base_hash: u128,
    },
}

/// Opens a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportBegin {
    /// The stage.
    pub stage: StageId,
    /// The zone.
    pub zone: ZoneId,
    /// The purpose.
    pub purpose: ImportPurpose,
    /// Number of chunks.
    pub chunk_count: u32,
}

/// Records of a stage. An RRset may be spread over several chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportChunk {
    /// The stage.
    pub stage: StageId,
    /// Number of the chunk, from zero.
    pub chunk_index: u32,
    /// The records.
    pub records: RecordList,
}

/// Closes a stage and publishes its contents, all at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportCommit {
    /// The stage.
    pub stage: StageId,
    /// Digest over the bytes of all chunks in order.
    pub digest: u128,
    /// Epoch of the settings at evaluation.
    pub policy_epoch: u64,
}

impl ImportBegin {
    pub(super) const fn feature_level(&self) -> u32 {
        match self.purpose {
            ImportPurpose::Create { options } => options_level(options),
            ImportPurpose::Replace { .. } => 1,
        }
    }

    pub(super) fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.stage.0);
        out.zone_id(&self.zone);
        encode_purpose(self.purpose, out);
        out.u32(self.chunk_count);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let stage = StageId(from.array()?);
        let zone = from.zone_id()?;
        let purpose = decode_purpose(from)?;
        let chunk_count = from.u32()?;
        if chunk_count > IMPORT_CHUNKS_MAX {
            return Err(DecodeError::TooLarge);
        }
        Ok(Self { stage, zone, purpose, chunk_count })
    }
}

impl ImportChunk {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.stage.0);
        out.u32(self.chunk_index);
        out.record_list(&self.records);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        // A record larger than the usual chunk has a chunk of its own.
        if from.rest().len() > IMPORT_CHUNK_BYTES_MAX + 2 * usize::from(u16::MAX) {
            return Err(DecodeError::TooLarge);
        }
        Ok(Self { stage: StageId(from.array()?), chunk_index: from.u32()?, records: from.record_list()? })
    }
}

impl ImportCommit {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.fixed(&self.stage.0);
        out.u128(self.digest);
        out.u64(self.policy_epoch);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { stage: StageId(from.array()?), digest: from.u128()?, policy_epoch: from.u64()? })
    }
}

/// The purpose of an import, in entries and in checkpoints.
pub(crate) fn encode_purpose(purpose: ImportPurpose, out: &mut Encoder) {
    match purpose {
        ImportPurpose::Create { options } => {
            out.u8(1);
            encode_options(options, out);
        }
        ImportPurpose::Replace { base_hash } => {
            out.u8(2);
            out.u128(base_hash);
        }
    }
}

/// Reads what [`encode_purpose`] wrote.
pub(crate) fn decode_purpose(from: &mut Decoder<'_>) -> Result<ImportPurpose, DecodeError> {
    match from.u8()? {
        1 => Ok(ImportPurpose::Create { options: decode_options(from)? }),
        2 => Ok(ImportPurpose::Replace { base_hash: from.u128()? }),
        _ => Err(DecodeError::Unknown),
    }
}

/// Options of a zone, in entries and in checkpoints.
pub(crate) fn encode_options(options: ZoneOptions, out: &mut Encoder) {
    encode_flagged_options(options, 0, out);
}

/// Like [`encode_options`], with the caller's flags in the byte of the option `stale`.
fn encode_flagged_options(options: ZoneOptions, flags: u8, out: &mut Encoder) {
    let ZoneOptions { serial_policy, stale, ack, limits } = options;
    out.u8(match serial_policy {
        SerialPolicyOption::Increment => 1,
        SerialPolicyOption::UnixTime => 2,
        SerialPolicyOption::Date => 3,
    });
    let stale = match stale {
        StaleOption::Serve => 1,
        StaleOption::Expire => 2,
    };
    let ack = if ack == AckOption::AllLive { ALL_LIVE } else { 0 };
    let limited = if limits.is_none() { 0 } else { LIMITED };
    out.u8(stale | ack | limited | flags);
    if !limits.is_none() {
        for limit in [limits.ttl_max_s, limits.rrset_records_max, limits.records_max] {
            out.u32(limit);
        }
    }
}

/// A flag in the byte of the option `stale`, so that the encoding of level 1 needs no new byte.
const ALL_LIVE: u8 = 0x10;
/// In the same byte, from level 4 on: the zone's limits follow.
const LIMITED: u8 = 0x20;
/// In a change of options, from level 4 on: the end of the change lists the limits that it sets.
const LIMITS_NAMED: u8 = 0x40;

/// Reads what [`encode_options`] wrote.
pub(crate) fn decode_options(from: &mut Decoder<'_>) -> Result<ZoneOptions, DecodeError> {
    match decode_flagged_options(from)? {
        (options, 0) => Ok(options),
        _ => Err(DecodeError::Unknown),
    }
}

/// Like [`decode_options`], but also returns the caller's flags.
fn decode_flagged_options(from: &mut Decoder<'_>) -> Result<(ZoneOptions, u8), DecodeError> {
    let serial_policy = match from.u8()? {
        1 => SerialPolicyOption::Increment,
        2 => SerialPolicyOption::UnixTime,
        3 => SerialPolicyOption::Date,
        _ => return Err(DecodeError::Unknown),
    };
    let byte = from.u8()?;
    let stale = match byte & !(ALL_LIVE | LIMITED | LIMITS_NAMED) {
        1 => StaleOption::Serve,
        2 => StaleOption::Expire,
        _ => return Err(DecodeError::Unknown),
    };
    let ack = if byte & ALL_LIVE == 0 { AckOption::Majority } else { AckOption::AllLive };
    let limits = if byte & LIMITED == 0 {
        ZoneLimits::NONE
    } else {
        ZoneLimits { ttl_max_s: from.u32()?, rrset_records_max: from.u32()?, records_max: from.u32()? }
    };
    // Equal options must have one encoding, because replicas compare their state by its bytes.
    if byte & LIMITED != 0 && limits.is_none() {
        return Err(DecodeError::Unknown);
    }
    Ok((ZoneOptions { serial_policy, stale, ack, limits }, byte & LIMITS_NAMED))
}

/// A change of options in a command: whole options with defaults for the unnamed ones, and flags for the named ones.
pub(crate) fn encode_options_change(change: OptionsChange, out: &mut Encoder) {
    let OptionsChange { serial_policy, stale, ack, limits } = change;
    let flags = if limits.is_none() { 0 } else { LIMITS_NAMED };
    encode_flagged_options(change.of(ZoneOptions::default()), flags, out);
    for is_named in [serial_policy.is_some(), stale.is_some(), ack.is_some()] {
        out.bool(is_named);
    }
    if !limits.is_none() {
        for limit in [limits.ttl_max_s, limits.rrset_records_max, limits.records_max] {
            out.bool(limit.is_some());
        }
    }
}

/// Reads what [`encode_options_change`] wrote.
pub(crate) fn decode_options_change(from: &mut Decoder<'_>) -> Result<OptionsChange, DecodeError> {
    let (options, flags) = decode_flagged_options(from)?;
    let mut change = OptionsChange {
        serial_policy: from.bool()?.then_some(options.serial_policy),
        stale: from.bool()?.then_some(options.stale),
        ack: from.bool()?.then_some(options.ack),
        limits: LimitsChange::NONE,
    };
    if flags & LIMITS_NAMED != 0 {
        change.limits = LimitsChange {
            ttl_max_s: from.bool()?.then_some(options.limits.ttl_max_s),
            rrset_records_max: from.bool()?.then_some(options.limits.rrset_records_max),
            records_max: from.bool()?.then_some(options.limits.records_max),
        };
    }
    if change.of(ZoneOptions::default()) == options { Ok(change) } else { Err(DecodeError::Unknown) }
}

/// The first feature level at which members know all the options that the change sets.
pub(crate) const fn options_change_level(change: OptionsChange) -> u32 {
    match change {
        OptionsChange { serial_policy: Some(SerialPolicyOption::Date), .. } => 4,
        OptionsChange { limits, .. } if !limits.is_none() => 4,
        OptionsChange { ack: Some(AckOption::AllLive), .. } => 2,
        _ => 1,
    }
}

/// The first feature level at which members know these options.
pub(crate) const fn options_level(options: ZoneOptions) -> u32 {
    match options {
        ZoneOptions { serial_policy: SerialPolicyOption::Date, .. } => 4,
        ZoneOptions { limits, .. } if !limits.is_none() => 4,
        ZoneOptions { ack: AckOption::AllLive, .. } => 2,
        ZoneOptions { ack: AckOption::Majority, .. } => 1,
    }
}
