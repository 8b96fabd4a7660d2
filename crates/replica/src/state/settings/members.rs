//! Members with their ids and roles, and join tokens.

use super::Settings;
use crate::entry::{SettingsChange, TOKEN_REVOKED};
use crate::io::{Member, NodeId};
use crate::limits::{TOKEN_LIFE_MS_MAX, TOKENS_MAX};
use crate::state::{Item, item_hash};
use std::collections::BTreeMap;

/// A join token without its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinTokenStatus {
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// Milliseconds since 1970 after which it is void.
    pub expires_wall_ms: u64,
    /// Whether the joining member stays a learner.
    pub is_learner: bool,
}

impl Settings {
    pub(crate) fn members(&self) -> Vec<Member> {
        self.members.iter().map(|(&id, address)| Member { id, address: address.clone() }).collect()
    }

    pub(crate) fn is_member(&self, id: NodeId) -> bool {
        self.members.contains_key(&id)
    }

    /// Whether a member is to stay a learner.
    pub(crate) fn is_learner(&self, id: NodeId) -> bool {
        self.learners.contains(&id)
    }

    /// Next incarnation of each node number ever used.
    pub(crate) const fn incarnations(&self) -> &BTreeMap<u32, u32> {
        &self.incarnations
    }

    /// The id for a node: its number with the next incarnation, or the next free number.
    pub(crate) fn next_id(&self, node: Option<u32>) -> NodeId {
        let node =
            node.unwrap_or_else(|| self.incarnations.keys().next_back().map_or(1, |last| last.saturating_add(1)));
        let incarnation = if planted!(RaftIdReused) { 0 } else { self.incarnations.get(&node).copied().unwrap_or(0) };
        u64::from(incarnation) << 32 | u64::from(node)
    }

    /// The join tokens that are neither used nor revoked.
    pub(crate) fn open_tokens(&self) -> impl Iterator<Item = JoinTokenStatus> {
        let open = self.tokens.iter().filter(|(_, expires)| **expires != TOKEN_REVOKED);
        open.map(|(&digest, &expires_wall_ms)| JoinTokenStatus {
            digest,
            expires_wall_ms,
            is_learner: self.learner_tokens.contains(&digest),
        })
    }

    /// Applies the changes of members and of join tokens.
    pub(super) fn apply_member(&mut self, change: &SettingsChange, time_ms: u64) {
        match change {
            SettingsChange::MemberAdd { id, address, token } => {
                self.put_member(*id, address.clone());
                if let Some(digest) = token {
                    if self.learner_tokens.contains(digest) {
                        self.set_learner(*id, true);
                    }
                    self.remove_token(digest);
                }
            }
            SettingsChange::MemberRemove { id } => self.remove_member(*id),
            SettingsChange::TokenAdd { digest, expires_wall_ms } => {
                self.remove_void_tokens(time_ms);
                self.put_token(*digest, *expires_wall_ms);
            }
            SettingsChange::LearnerTokenAdd { digest, expires_wall_ms } => {
                self.remove_void_tokens(time_ms);
                self.put_token(*digest, *expires_wall_ms);
                self.put_learner_token(*digest);
            }
            SettingsChange::TokenFor { digest, life_ms, is_learner } => {
                // The time may be wrong, so expired tokens are removed only when their places are needed.
                if self.tokens.len() >= TOKENS_MAX {
                    self.remove_void_tokens(time_ms);
                }
                self.put_token(*digest, time_ms.saturating_add((*life_ms).min(TOKEN_LIFE_MS_MAX)));
                if *is_learner {
                    self.put_learner_token(*digest);
                }
            }
            SettingsChange::MemberMove { id, address } if self.is_member(*id) => self.put_member(*id, address.clone()),
            SettingsChange::MemberRole { id, votes } if self.is_member(*id) => self.set_learner(*id, !votes),
            SettingsChange::MemberReplace { gone, new }
                if self.is_member(*gone) && self.is_member(*new) && gone != new =>
            {
                self.remove_member(*gone);
                self.set_learner(*new, false);
            }
            _ => {}
        }
    }

    pub(super) fn put_member(&mut self, id: NodeId, address: String) {
        self.add(member_hash(id, &address));
        if let Some(old) = self.members.insert(id, address) {
            self.sub(member_hash(id, &old));
        }
        let (node, incarnation) = (id as u32, (id >> 32) as u32);
        let next = self.incarnations.get(&node).copied().unwrap_or(0).max(incarnation.saturating_add(1));
        self.put_incarnation(node, next);
    }

    pub(super) fn remove_member(&mut self, id: NodeId) {
        if let Some(address) = self.members.remove(&id) {
            self.sub(member_hash(id, &address));
            self.set_learner(id, false);
            self.forget_credentials(id);
            self.data_key_is_known_outside();
            self.take_out_of_rotation(id);
        }
    }

    pub(super) fn set_learner(&mut self, id: NodeId, stays: bool) {
        let hash = item_hash(Item::Learner, &[&id.to_be_bytes()]);
        if stays && self.learners.insert(id) {
            self.add(hash);
        } else if !stays && self.learners.remove(&id) {
            self.sub(hash);
        }
    }

    pub(super) fn put_incarnation(&mut self, node: u32, next: u32) {
        self.add(incarnation_hash(node, next));
        if let Some(old) = self.incarnations.insert(node, next) {
            self.sub(incarnation_hash(node, old));
        }
    }

    pub(super) fn put_token(&mut self, digest: [u8; 32], expires: u64) {
        self.add(token_hash(&digest, expires));
        if let Some(old) = self.tokens.insert(digest, expires) {
            self.sub(token_hash(&digest, old));
        }
    }

    pub(super) fn put_learner_token(&mut self, digest: [u8; 32]) {
        if self.learner_tokens.insert(digest) {
            self.add(item_hash(Item::LearnerToken, &[&digest]));
        }
    }

    pub(super) fn remove_token(&mut self, digest: &[u8; 32]) {
        if let Some(expires) = self.tokens.remove(digest) {
            self.sub(token_hash(digest, expires));
        }
        if self.learner_tokens.remove(digest) {
            self.sub(item_hash(Item::LearnerToken, &[digest]));
        }
    }

    fn remove_void_tokens(&mut self, time_ms: u64) {
        let void = |(digest, &expires): (&[u8; 32], &u64)| (expires < time_ms).then_some(*digest);
        for digest in self.tokens.iter().filter_map(void).collect::<Vec<_>>() {
            self.remove_token(&digest);
        }
    }

    /// Corrects tokens after the clock was ahead; it now shows `time_ms`. A token with more than the longest lifetime
    /// left was made while the clock was ahead, and keeps its planned lifetime. Older tokens stay as they are.
    pub(super) fn move_tokens_back(&mut self, by_ms: u64, time_ms: u64) {
        let last_ms = time_ms.saturating_add(TOKEN_LIFE_MS_MAX);
        for (digest, expires) in self.tokens.clone() {
            if expires > last_ms {
                self.put_token(digest, expires.saturating_sub(by_ms).min(last_ms));
            }
        }
    }
}

fn member_hash(id: NodeId, address: &str) -> u128 {
    item_hash(Item::Member, &[&id.to_be_bytes(), address.as_bytes()])
}

fn incarnation_hash(node: u32, next: u32) -> u128 {
    item_hash(Item::Incarnation, &[&node.to_be_bytes(), &next.to_be_bytes()])
}

fn token_hash(digest: &[u8; 32], expires: u64) -> u128 {
    item_hash(Item::Token, &[digest, &expires.to_be_bytes()])
}
