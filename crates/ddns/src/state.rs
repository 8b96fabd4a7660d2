//! The state file: the addresses that this client wrote. Without it, prerequisites still protect foreign records,
//! and records that equal the target count as our own.

use crate::address::{Addresses, Family, PerFamily};
use crate::limits::{ATTEMPT_LIFE_S, ATTEMPTS_MAX, LATE_SIGNED_S, SAVED_NAMES_MAX};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the file that this software writes and reads.
const VERSION: u32 = 1;

/// The state file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedState {
    version: u32,
    /// The zone of the names. The state of another zone is not used.
    pub zone: String,
    /// By owner, in presentation format. Names that are no longer configured stay, as long as there is room.
    pub names: BTreeMap<String, SavedName>,
}

/// The saved state of one name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SavedName {
    /// The records that a server last confirmed.
    pub confirmed: PerFamily<Addresses>,
    /// Their TTL.
    pub ttl: u32,
    /// When that was, in seconds since 1970; 0 means never.
    pub confirmed_at_s: u64,
    /// Updates that were sent and may have been applied.
    pub attempts: Vec<Attempt>,
    /// Since when a family with records has no address, in seconds since 1970.
    #[serde(default)]
    pub gone_since_s: PerFamily<Option<u64>>,
}

/// An update whose outcome was unknown when this was written.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attempt {
    /// The new RRsets. `None` for a family that it does not change.
    pub sets: PerFamily<Option<Addresses>>,
    /// When it was signed, in seconds since 1970.
    pub sent_at_s: u64,
}

impl SavedState {
    /// An empty state.
    #[must_use]
    pub fn new(zone: &str) -> Self {
        Self { version: VERSION, zone: zone.to_owned(), names: BTreeMap::new() }
    }

    /// Reads the file's bytes.
    ///
    /// # Errors
    /// Why the file cannot be used.
    pub fn parse(bytes: &[u8], zone: &str) -> Result<Self, String> {
        let saved: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if saved.version != VERSION {
            return Err(format!("it has version {}, but this software reads {VERSION}", saved.version));
        }
        if saved.zone != zone {
            return Err(format!("it is for zone {}", saved.zone));
        }
        if saved.names.len() > SAVED_NAMES_MAX {
            return Err(format!("it has {} names, more than {SAVED_NAMES_MAX}", saved.names.len()));
        }
        Ok(saved)
    }

    /// Removes names that are not configured, the oldest first, down to the maximum of [`Self::parse`].
    pub(crate) fn prune(&mut self, is_configured: impl Fn(&str) -> bool) {
        let excess = self.names.len().saturating_sub(SAVED_NAMES_MAX);
        if excess == 0 {
            return;
        }
        let others = self.names.iter().filter(|(name, _)| !is_configured(name));
        let mut others: Vec<_> = others.map(|(name, known)| (known.confirmed_at_s, name.clone())).collect();
        others.sort_unstable();
        for (_, name) in others.into_iter().take(excess) {
            self.names.remove(&name);
        }
    }

    /// The file's bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("maps with keys of text, numbers and addresses");
        bytes.push(b'\n');
        bytes
    }
}

impl SavedName {
    /// Whether an update may have been applied after the last confirmation.
    pub(crate) fn may_be_late(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.sent_at_s.saturating_add(LATE_SIGNED_S) >= self.confirmed_at_s)
    }

    /// Whether an update with an unknown outcome would change the confirmed records.
    pub(crate) fn may_change(&self) -> bool {
        let sets_other = |attempt: &Attempt, family| {
            attempt.sets[family].as_ref().is_some_and(|to: &Addresses| *to != self.confirmed[family])
        };
        self.attempts.iter().any(|attempt| Family::ALL.into_iter().any(|family| sets_other(attempt, family)))
    }

    /// Whether this client wrote, or may have written, this RRset.
    pub(crate) fn is_own(&self, family: Family, addresses: &Addresses) -> bool {
        self.confirmed[family] == *addresses
            || self.attempts.iter().any(|attempt| attempt.sets[family].as_ref() == Some(addresses))
    }

    /// Removes updates that can no longer have an effect.
    pub(crate) fn forget_old(&mut self, now_s: u64) {
        self.attempts.retain(|attempt| now_s.saturating_sub(attempt.sent_at_s) < ATTEMPT_LIFE_S);
    }

    /// Whether one more update can be saved.
    pub(crate) const fn has_room(&self) -> bool {
        self.attempts.len() < ATTEMPTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_file_is_read_back() {
        let mut saved = SavedState::new("example.test.");
        let mut name = SavedName { ttl: 60, confirmed_at_s: 1_700_000_000, ..SavedName::default() };
        name.confirmed.ipv4.insert("192.0.2.1".parse().unwrap());
        let sets = PerFamily { ipv4: Some(Addresses::new()), ipv6: None };
        name.attempts.push(Attempt { sets, sent_at_s: 1_700_000_001 });
        saved.names.insert("home.example.test.".into(), name);
        assert_eq!(SavedState::parse(&saved.to_bytes(), "example.test.").unwrap(), saved);
        assert!(saved.names["home.example.test."].may_be_late());
    }

    #[test]
    fn damaged_files_and_other_zones_are_refused() {
        let saved = SavedState::new("example.test.");
        let bytes = saved.to_bytes();
        assert!(SavedState::parse(&bytes, "other.test.").unwrap_err().contains("example.test."));
        for len in 0..bytes.len() - 2 {
            assert!(SavedState::parse(&bytes[..len], "example.test.").is_err(), "{len}");
        }
        let newer = String::from_utf8(bytes).unwrap().replace("\"version\": 1", "\"version\": 2");
        assert!(SavedState::parse(newer.as_bytes(), "example.test.").unwrap_err().contains("version 2"));
    }

    #[test]
    fn an_attempt_is_remembered_as_long_as_it_can_have_an_effect() {
        let sets = PerFamily { ipv4: Some(Addresses::from(["192.0.2.1".parse().unwrap()])), ipv6: None };
        let mut name = SavedName { confirmed_at_s: 1_001, ..SavedName::default() };
        name.attempts.push(Attempt { sets: sets.clone(), sent_at_s: 1_000 });
        assert!(name.may_be_late() && name.may_change() && name.is_own(Family::V4, &sets.ipv4.clone().unwrap()));
        name.confirmed_at_s += LATE_SIGNED_S;
        assert!(!name.may_be_late(), "it took effect before that, or never");
        name.confirmed.ipv4 = sets.ipv4.clone().unwrap();
        assert!(!name.may_change(), "it would set the current records");
        name.confirmed.ipv4 = Addresses::new();
        assert!(!name.is_own(Family::V6, &sets.ipv4.unwrap()) && name.is_own(Family::V6, &Addresses::new()));
        name.forget_old(1_599);
        assert_eq!(name.attempts.len(), 1);
        name.forget_old(1_600);
        assert!(name.attempts.is_empty());
    }
}
