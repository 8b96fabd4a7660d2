//! The lines, each with the digest of the previous one, so that edits and removals are detected.

use super::work::Attempt;
use config::files::audit_log::{LineDigest, digest_of};
use data_encoding::HEXLOWER;
use replica::io::{ActionRecord, AuditNames, AuditRecord};
use serde::{Deserialize, Serialize};
use std::io;
use wire::Rtype;

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    Gap {
        gap_after: u64,
        gap_to: u64,
    },
    Through {
        through: u64,
    },
    /// An action on this node only, after the last applied index.
    Local {
        after: u64,
        time_ms: u64,
        action: String,
        subject: String,
    },
    /// A request that this node refused.
    Refused {
        after: u64,
        time_ms: u64,
        refused: String,
        attempt: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        source: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        zone: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<String>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
        /// Earlier refusals without a line.
        #[serde(default, skip_serializing_if = "is_zero")]
        unsaid: u64,
    },
    Action {
        index: u64,
        time_ms: u64,
        action: String,
        subject: String,
    },
    Update {
        index: u64,
        time_ms: u64,
        key: String,
        source: String,
        zone: String,
        serial_from: Option<u32>,
        serial_to: u32,
        deleted: usize,
        added: usize,
        /// Owners and types; absent in lines of older versions.
        #[serde(default)]
        names: Vec<String>,
        /// Whether there are more names than these.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
}

impl Line {
    pub(super) const fn last_index(&self) -> u64 {
        match self {
            Self::Gap { gap_to, .. } => *gap_to,
            Self::Through { through } => *through,
            Self::Update { index, .. } | Self::Action { index, .. } => *index,
            Self::Local { after, .. } | Self::Refused { after, .. } => *after,
        }
    }

    pub(super) fn of(record: &AuditRecord) -> Self {
        let record = match record {
            AuditRecord::Update(record) => record,
            AuditRecord::Action(ActionRecord { index, time_ms, action, subject }) => {
                let (action, subject) = ((*action).to_owned(), subject.clone());
                return Self::Action { index: *index, time_ms: *time_ms, action, subject };
            }
        };
        Self::Update {
            index: record.index,
            time_ms: record.time_ms,
            key: record.key.to_string(),
            source: record.source.to_canonical().to_string(),
            zone: record.zone.apex.to_string(),
            serial_from: record.serial_from.map(|serial| serial.0),
            serial_to: record.serial_to.0,
            deleted: record.deleted_count,
            added: record.added_count,
            names: shown(&record.names),
            more: record.names.has_more,
        }
    }

    /// The line of a refused request, after the index `after`.
    pub(super) fn of_attempt(after: u64, attempt: &Attempt, unsaid: u64) -> Self {
        Self::Refused {
            after,
            time_ms: attempt.time_ms,
            refused: attempt.reason.to_owned(),
            attempt: attempt.what.to_owned(),
            key: attempt.key.as_ref().map(ToString::to_string),
            source: attempt.source.to_canonical().to_string(),
            zone: attempt.zone.as_ref().map(ToString::to_string),
            names: shown(&attempt.names),
            more: attempt.names.has_more,
            unsaid,
        }
    }

    /// The line without its newline. `prev` is the digest of the previous line, and is replaced by the digest of this
    /// one.
    pub(super) fn chain(&self, prev: &mut LineDigest) -> io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        // Add a field to the JSON object, which has at least one.
        bytes.pop();
        bytes.extend_from_slice(b",\"prev\":\"");
        bytes.extend_from_slice(HEXLOWER.encode(prev).as_bytes());
        bytes.extend_from_slice(b"\"}");
        *prev = digest_of(&bytes);
        Ok(bytes)
    }
}

fn shown(names: &AuditNames) -> Vec<String> {
    let rtype = |rtype: Rtype| rtype.mnemonic().map_or_else(|| format!("TYPE{}", rtype.0), str::to_owned);
    names.names.iter().map(|(owner, of)| format!("{owner} {}", rtype(*of))).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}
