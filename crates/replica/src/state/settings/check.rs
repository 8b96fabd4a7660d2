//! Checks changes of the settings before they are proposed.

use super::Settings;
use crate::entry::{SettingsChange, TOKEN_REVOKED};
use crate::io::{AdminError, Right};
use crate::limits::{GRANTS_MAX, MEMBERS_MAX, TOKENS_MAX};
use policy::Policy;
use policy::limits::POLICIES_BYTES_MAX;
use tsig::limits::KEYS_MAX;
use wire::name::Name;
use zone::ZoneId;

impl Settings {
    /// Checks a change; `Ok(false)` if it would change nothing.
    ///
    /// # Errors
    /// The error for the administrator.
    pub(crate) fn check(&self, change: &SettingsChange, now_wall_ms: u64) -> Result<bool, AdminError> {
        let full = |full: bool| if full { Err(AdminError::TooLarge) } else { Ok(true) };
        match change {
            SettingsChange::ZoneOptions { zone, options } => match self.zones.get(zone) {
                None => Err(AdminError::ZoneUnknown),
                Some(old) => Ok(old != options),
            },
            SettingsChange::ZoneRemove { zone } => {
                if self.zones.contains_key(zone) {
                    Ok(true)
                } else {
                    Err(AdminError::ZoneUnknown)
                }
            }
            SettingsChange::KeyAdd { name, algorithm, secret } => match self.keys.get(name) {
                Some(old) if old.algorithm == *algorithm && old.secret == *secret => Ok(false),
                Some(_) => Err(AdminError::KeyExists),
                None => full(self.keys.len() >= KEYS_MAX).and_then(|room| self.check_sealed(secret).map(|()| room)),
            },
            SettingsChange::KeyRemove { name } => {
                if self.keys.contains_key(name) {
                    Ok(true)
                } else {
                    Err(AdminError::KeyUnknown)
                }
            }
            SettingsChange::Grant { key, zone, right } => self.check_grant(key, zone.as_ref(), *right),
            SettingsChange::Revoke { key, zone, right } => {
                if !self.keys.contains_key(key) {
                    return Err(AdminError::KeyUnknown);
                }
                Ok(self.grants.contains(&(key.clone(), zone.clone(), *right)))
            }
            SettingsChange::MemberAdd { .. }
            | SettingsChange::MemberRemove { .. }
            | SettingsChange::MemberRole { .. }
            | SettingsChange::MemberMove { .. }
            | SettingsChange::MemberReplace { .. } => self.check_member(change, now_wall_ms),
            SettingsChange::ClockBack { by_ms } => Ok(*by_ms > 0),
            // Only an existing token can be revoked, and only once.
            SettingsChange::TokenAdd { digest, expires_wall_ms: TOKEN_REVOKED } => {
                Ok(self.tokens.get(digest).is_some_and(|&expires| expires != TOKEN_REVOKED))
            }
            SettingsChange::TokenAdd { digest, .. }
            | SettingsChange::LearnerTokenAdd { digest, .. }
            | SettingsChange::TokenFor { digest, .. } => {
                // The change removes expired tokens when it is applied.
                let good = || self.tokens.values().filter(|&&expires| expires >= now_wall_ms).count();
                if self.tokens.contains_key(digest) { Ok(false) } else { full(good() >= TOKENS_MAX) }
            }
            SettingsChange::PolicySet { zone, policy } => self.check_policy(zone.as_ref(), policy),
            SettingsChange::KeyRoll { name, .. } if self.is_rolling(name)? => Err(AdminError::KeyRolling),
            SettingsChange::KeyRoll { secret, .. } => self.check_sealed(secret).map(|()| true),
            SettingsChange::KeyRetire { name } => self.is_rolling(name),
            SettingsChange::Trust(change) => self.check_trust(change),
            SettingsChange::FeatureLevel { level } => Ok(*level > self.feature_level),
            SettingsChange::RotationIn { ids } => {
                Ok(ids.iter().any(|id| self.is_member(*id) && !self.rotation().contains_key(id)))
            }
            SettingsChange::RotationOut { ids } => Ok(ids.iter().any(|id| self.rotation().contains_key(id))),
            SettingsChange::AllLiveKnown { index } => Ok(*index > self.all_live_known()),
        }
    }

    fn check_member(&self, change: &SettingsChange, now_wall_ms: u64) -> Result<bool, AdminError> {
        match change {
            SettingsChange::MemberAdd { id, token, .. } => {
                if self.members.contains_key(id) {
                    return Err(AdminError::NodeExists);
                }
                if let Some(digest) = token
                    && self.tokens.get(digest).is_none_or(|&expires| expires < now_wall_ms)
                {
                    return Err(AdminError::TokenInvalid);
                }
                if self.members.len() >= MEMBERS_MAX { Err(AdminError::TooLarge) } else { Ok(true) }
            }
            SettingsChange::MemberRemove { id } => {
                if self.members.contains_key(id) {
                    Ok(true)
                } else {
                    Err(AdminError::NodeUnknown)
                }
            }
            SettingsChange::MemberRole { id, votes } => {
                if self.members.contains_key(id) {
                    Ok(self.is_learner(*id) == *votes)
                } else {
                    Err(AdminError::NodeUnknown)
                }
            }
            // Two members may have the same address for a moment, while several members exchange addresses.
            SettingsChange::MemberMove { id, address } => match self.members.get(id) {
                None => Err(AdminError::NodeUnknown),
                Some(old) => Ok(old != address),
            },
            SettingsChange::MemberReplace { gone, new } => {
                if !self.members.contains_key(gone) || !self.members.contains_key(new) {
                    Err(AdminError::NodeUnknown)
                } else if gone == new || !self.is_learner(*new) {
                    Err(AdminError::NodeVotes)
                } else {
                    Ok(true)
                }
            }
            _ => Ok(true),
        }
    }

    /// Whether a key has two secrets.
    fn is_rolling(&self, name: &Name) -> Result<bool, AdminError> {
        self.keys.get(name).map(|key| key.previous.is_some()).ok_or(AdminError::KeyUnknown)
    }

    fn check_policy(&self, zone: Option<&ZoneId>, policy: &Policy) -> Result<bool, AdminError> {
        if zone.is_some_and(|zone| !self.zones.contains_key(zone)) {
            return Err(AdminError::ZoneUnknown);
        }
        let old = self.policies.get(&zone.cloned());
        let bytes = self.policies_bytes - old.map_or(0, |old| old.bytes_count()) + policy.bytes_count();
        if bytes > POLICIES_BYTES_MAX {
            Err(AdminError::TooLarge)
        } else {
            Ok(old.map_or(!policy.is_empty(), |old| **old != *policy))
        }
    }

    fn check_grant(&self, key: &Name, zone: Option<&ZoneId>, right: Right) -> Result<bool, AdminError> {
        if !self.keys.contains_key(key) {
            Err(AdminError::KeyUnknown)
        } else if zone.is_some_and(|zone| !self.zones.contains_key(zone)) {
            Err(AdminError::ZoneUnknown)
        } else if self.grants.contains(&(key.clone(), zone.cloned(), right)) {
            Ok(false)
        } else if self.grants.len() >= GRANTS_MAX {
            Err(AdminError::TooLarge)
        } else {
            Ok(true)
        }
    }
}
