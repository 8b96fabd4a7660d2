//! Log entries: changes that a leader has evaluated, in a versioned encoding.
//!
//! ```text
//!   version (1) kind (1) group (2) time_ms (8) body
//! ```
//!
//! Applying an entry is mechanical, so an encoding never changes its meaning. A new feature gets a new kind, or a new
//! version behind a raised feature level. `testdata/entries.txt` holds one entry of each kind in hex.

mod import;
mod keys;
mod settings;
mod trust;
mod update;

pub use import::{ImportBegin, ImportChunk, ImportCommit, ImportPurpose, StageId};
pub(crate) use import::{
    decode_options, decode_options_change, decode_purpose, encode_options, encode_options_change, encode_purpose,
    options_change_level, options_level,
};
pub(crate) use keys::{decode_algorithm, decode_grant, decode_policy, encode_algorithm, encode_grant, encode_policy};
pub(crate) use settings::TOKEN_REVOKED;
pub use settings::{SettingsChange, SettingsEntry};
pub use trust::token_id;
pub use trust::{DataKeyChange, PinChange, Resealed, SecretId, TrustChange};
pub(crate) use trust::{decode_credentials, encode_credentials};
pub use update::{UpdateEntry, ZoneChange};

use crate::limits::ENTRY_BYTES_MAX;
use zone::codec::{DecodeError, Decoder, Encoder};

/// The only version of the encoding so far.
pub const ENTRY_VERSION: u8 = 1;

/// An entry of the log. Raft's own empty entries have no bytes and are not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The raft group; zero is the only one today.
    pub group: u16,
    /// Milliseconds since 1970 by the leader's clock, never less than in the entry before. Used for signatures, for
    /// ages and for display; no safety property depends on it.
    pub time_ms: u64,
    /// The change.
    pub body: Body,
}

/// The change of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// An UPDATE was evaluated, with any outcome.
    Update(UpdateEntry),
    /// A staged import begins.
    ImportBegin(ImportBegin),
    /// Records for a stage.
    ImportChunk(ImportChunk),
    /// A stage becomes the contents of its zone.
    ImportCommit(ImportCommit),
    /// A stage is abandoned.
    ImportAbandon(StageId),
    /// Keys, grants, zones, members.
    Settings(SettingsEntry),
    /// A zone changed by an administrator's command, without an UPDATE.
    Change(ZoneChange),
}

const KIND_UPDATE: u8 = 1;
const KIND_IMPORT_BEGIN: u8 = 2;
const KIND_IMPORT_CHUNK: u8 = 3;
const KIND_IMPORT_COMMIT: u8 = 4;
const KIND_IMPORT_ABANDON: u8 = 5;
const KIND_SETTINGS: u8 = 6;
/// Reserved: signatures and expiry that the leader derives from a zone.
#[cfg(test)]
const KIND_DERIVED: u8 = 7;
const KIND_CHANGE: u8 = 8;

impl Entry {
    /// The bytes that go into the log.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.body.encode(self.group, self.time_ms)
    }

    /// Reads what [`Entry::encode`] wrote.
    ///
    /// # Errors
    /// [`DecodeError`]; [`DecodeError::Version`] when newer software wrote it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > ENTRY_BYTES_MAX {
            return Err(DecodeError::TooLarge);
        }
        let mut from = Decoder::new(bytes);
        match from.u8()? {
            ENTRY_VERSION => {}
            version => return Err(DecodeError::Version(version)),
        }
        let kind = from.u8()?;
        let group = from.u16()?;
        let time_ms = from.u64()?;
        let body = match kind {
            KIND_UPDATE => Body::Update(UpdateEntry::decode(&mut from)?),
            KIND_IMPORT_BEGIN => Body::ImportBegin(ImportBegin::decode(&mut from)?),
            KIND_IMPORT_CHUNK => Body::ImportChunk(ImportChunk::decode(&mut from)?),
            KIND_IMPORT_COMMIT => Body::ImportCommit(ImportCommit::decode(&mut from)?),
            KIND_IMPORT_ABANDON => Body::ImportAbandon(StageId(from.array()?)),
            KIND_SETTINGS => Body::Settings(SettingsEntry::decode(&mut from)?),
            KIND_CHANGE => Body::Change(ZoneChange::decode(&mut from)?),
            _ => return Err(DecodeError::Unknown),
        };
        from.finish()?;
        Ok(Self { group, time_ms, body })
    }
}

impl Body {
    /// The bytes of an entry with this body.
    pub(crate) fn encode(&self, group: u16, time_ms: u64) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(ENTRY_VERSION);
        out.u8(self.kind());
        out.u16(group);
        out.u64(time_ms);
        match self {
            Self::Update(update) => update.encode(&mut out),
            Self::ImportBegin(begin) => begin.encode(&mut out),
            Self::ImportChunk(chunk) => chunk.encode(&mut out),
            Self::ImportCommit(commit) => commit.encode(&mut out),
            Self::ImportAbandon(stage) => out.fixed(&stage.0),
            Self::Settings(settings) => settings.encode(&mut out),
            Self::Change(change) => change.encode(&mut out),
        }
        out.finish()
    }

    /// The first feature level at which members know the body. The leader writes nothing above the cluster's level.
    pub(crate) const fn feature_level(&self) -> u32 {
        match self {
            Self::Settings(settings) => settings.change.feature_level(),
            Self::ImportBegin(begin) => begin.feature_level(),
            Self::Update(_)
            | Self::ImportChunk(_)
            | Self::ImportCommit(_)
            | Self::ImportAbandon(_)
            | Self::Change(_) => 1,
        }
    }

    const fn kind(&self) -> u8 {
        match self {
            Self::Update(_) => KIND_UPDATE,
            Self::ImportBegin(_) => KIND_IMPORT_BEGIN,
            Self::ImportChunk(_) => KIND_IMPORT_CHUNK,
            Self::ImportCommit(_) => KIND_IMPORT_COMMIT,
            Self::ImportAbandon(_) => KIND_IMPORT_ABANDON,
            Self::Settings(_) => KIND_SETTINGS,
            Self::Change(_) => KIND_CHANGE,
        }
    }
}

#[cfg(test)]
mod tests;
