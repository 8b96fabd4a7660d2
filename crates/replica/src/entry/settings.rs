//! Changes of the settings: zones, keys, grants, members, tokens, feature level.
//!
//! Numbers that are set aside: 11 to 19 for update policy and keys, 20 to 29 for updates and their rotation (20 to 22
//! are taken), 30 to 49 for membership and what members know each other by (to 42 taken). Items of a checkpoint: 9 to
//! 14 for policy and keys, 15 to 19 for the others, of which 17 to 19 are of the rotation, 30 to 39 for what members
//! know each other by (30 to 36 are taken).

use super::import::{decode_options, encode_options, options_level};
use super::keys::{decode_algorithm, decode_grant, decode_policy, encode_algorithm, encode_grant, encode_policy};
use super::trust::{self, TrustChange};
use crate::io::{NodeId, Right, ZoneOptions};
use crate::limits::{ADDRESS_BYTES_MAX, MEMBERS_MAX, SECRET_BYTES_MAX};
use crate::secrets::Sealed;
use crate::trust::token_id;
use policy::Policy;
use std::sync::Arc;
use tsig::KeyAlgorithm;
use wire::name::Name;
use zone::ZoneId;
use zone::codec::{DecodeError, Decoder, Encoder};

/// A change of the settings, bound to the settings that it was made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsEntry {
    /// Epoch of the settings that the change applies to; each applied change raises it by one.
    pub epoch: u64,
    /// The change.
    pub change: SettingsChange,
}

/// One change of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsChange {
    /// Other options for a zone.
    ZoneOptions {
        /// Which.
        zone: ZoneId,
        /// The options.
        options: ZoneOptions,
    },
    /// A zone goes, its grants with it.
    ZoneRemove {
        /// Which.
        zone: ZoneId,
    },
    /// A TSIG key. Its generation is the index of this entry.
    KeyAdd {
        /// Its name, canonical.
        name: Name,
        /// Its algorithm.
        algorithm: KeyAlgorithm,
        /// Its secret, sealed.
        secret: Sealed,
    },
    /// A TSIG key goes, its grants with it.
    KeyRemove {
        /// Its name.
        name: Name,
    },
    /// A key may do something.
    Grant {
        /// Its name.
        key: Name,
        /// Where; `None` is everywhere.
        zone: Option<ZoneId>,
        /// What.
        right: Right,
    },
    /// A key may no longer do something.
    Revoke {
        /// Its name.
        key: Name,
        /// Where; `None` is the grant for everywhere.
        zone: Option<ZoneId>,
        /// What.
        right: Right,
    },
    /// A member's address; its place in raft's configuration is a change of its own.
    MemberAdd {
        /// Its id.
        id: NodeId,
        /// Where its peers connect to it.
        address: String,
        /// Digest of the join token that is used up by this.
        token: Option<[u8; 32]>,
    },
    /// A member's address goes.
    MemberRemove {
        /// Its id.
        id: NodeId,
    },
    /// Adds a join token. With the expiry time [`TOKEN_REVOKED`] it revokes an existing token. Software that cannot
    /// revoke tokens applies such an entry in the same way.
    TokenAdd {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// Milliseconds since 1970 after which it is void.
        expires_wall_ms: u64,
    },
    /// Who may write what.
    PolicySet {
        /// Where; `None` is in all zones.
        zone: Option<ZoneId>,
        /// The rules; an empty policy leaves none.
        policy: Arc<Policy>,
    },
    /// A TSIG key has a new secret, beside the one that it had.
    KeyRoll {
        /// Its name.
        name: Name,
        /// The new secret, sealed.
        secret: Sealed,
    },
    /// The older of two secrets of a TSIG key is void.
    KeyRetire {
        /// Its name.
        name: Name,
    },
    /// All members can do what this level names, and an administrator says that none goes back.
    FeatureLevel {
        /// The level.
        level: u32,
    },
    /// Whether a member is to vote, or to stay a learner; its place in raft's configuration follows.
    MemberRole {
        /// Its id.
        id: NodeId,
        /// Whether it is to vote.
        votes: bool,
    },
    /// A join token whose bearer becomes a learner and stays one.
    LearnerTokenAdd {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// Milliseconds since 1970 after which it is void.
        expires_wall_ms: u64,
    },
    /// A member goes, and a learner gets its vote.
    MemberReplace {
        /// Who goes.
        gone: NodeId,
        /// Who gets the vote.
        new: NodeId,
    },
    /// What members know each other by.
    Trust(TrustChange),
    /// Members are in the rotation from now on: updates of zones with `ack = all-live` wait for them.
    RotationIn {
        /// Which.
        ids: Vec<NodeId>,
    },
    /// Members are in the rotation no more: they do not answer for such zones.
    RotationOut {
        /// Which.
        ids: Vec<NodeId>,
    },
    /// Every member knows which zones have `ack = all-live`, as far as that was set up to this index.
    AllLiveKnown {
        /// The index.
        index: u64,
    },
    /// From now on peers connect to a member at another address. Feature level 4.
    MemberMove {
        /// Its id.
        id: NodeId,
        /// The new address.
        address: String,
    },
    /// A join token whose lifetime starts at the time of the entry. Feature level 4.
    TokenFor {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// The token's lifetime.
        life_ms: u64,
        /// Whether the joining member becomes a learner and stays one.
        is_learner: bool,
    },
    /// The cluster's clock was ahead and moves back to the time of this entry. Feature level 4.
    ClockBack {
        /// The difference.
        by_ms: u64,
    },
}

/// Number of the node, and how often it was made anew.
pub(super) fn node_of(id: NodeId) -> String {
    format!("{}.{}", id as u32, id >> 32)
}

impl SettingsEntry {
    pub(super) fn encode(&self, out: &mut Encoder) {
        out.u64(self.epoch);
        self.change.encode(out);
    }

    pub(super) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { epoch: from.u64()?, change: SettingsChange::decode(from)? })
    }
}

/// The expiry time of a revoked token, in milliseconds since 1970. It is earlier than any other.
pub(crate) const TOKEN_REVOKED: u64 = 0;

impl SettingsChange {
    /// The feature level from which on members know it. A new change is of a new level, as long as the one before may
    /// be in use anywhere.
    pub(crate) const fn feature_level(&self) -> u32 {
        match self {
            Self::Grant { right: Right::UpdateApex, .. }
            | Self::Revoke { right: Right::UpdateApex, .. }
            | Self::PolicySet { .. }
            | Self::KeyRoll { .. }
            | Self::KeyRetire { .. } => 2,
            Self::ZoneOptions { options, .. } => options_level(*options),
            Self::KeyAdd { algorithm, .. } if algorithm.is_weak() => 4,
            Self::ZoneRemove { .. }
            | Self::KeyAdd { .. }
            | Self::KeyRemove { .. }
            | Self::Grant { .. }
            | Self::Revoke { .. }
            | Self::MemberAdd { .. }
            | Self::MemberRemove { .. }
            | Self::TokenAdd { .. }
            | Self::FeatureLevel { .. } => 1,
            Self::MemberRole { .. } | Self::LearnerTokenAdd { .. } | Self::MemberReplace { .. } => 2,
            Self::Trust(change) => change.feature_level(),
            Self::RotationIn { .. } | Self::RotationOut { .. } | Self::AllLiveKnown { .. } => 2,
            Self::MemberMove { .. } | Self::TokenFor { .. } | Self::ClockBack { .. } => 4,
        }
    }

    /// What an administrator did by it and to what, for the audit log: no secret, no digest of one. `None` is what the
    /// cluster does by itself.
    pub(crate) fn in_words(&self) -> Option<(&'static str, String)> {
        let place = |zone: &Option<ZoneId>| zone.as_ref().map_or("all zones".to_owned(), |zone| zone.apex.to_string());
        Some(match self {
            Self::ZoneOptions { zone, options } => ("zone set", format!("{} {options:?}", zone.apex)),
            Self::ZoneRemove { zone } => ("zone remove", zone.apex.to_string()),
            Self::KeyAdd { name, .. } => ("key add", name.to_string()),
            Self::KeyRemove { name } => ("key remove", name.to_string()),
            Self::KeyRoll { name, .. } => ("key roll", name.to_string()),
            Self::KeyRetire { name } => ("key retire", name.to_string()),
            Self::Grant { key, zone, right } => ("grant", format!("{key} {} {}", right.label(), place(zone))),
            Self::Revoke { key, zone, right } => ("revoke", format!("{key} {} {}", right.label(), place(zone))),
            Self::PolicySet { zone, .. } => ("policy set", place(zone)),
            Self::MemberAdd { id, address, .. } => ("cluster add", format!("{} {address}", node_of(*id))),
            Self::MemberRemove { id } => ("cluster remove", node_of(*id)),
            Self::MemberRole { id, votes: true } => ("cluster promote", node_of(*id)),
            Self::MemberRole { id, votes: false } => ("cluster demote", node_of(*id)),
            Self::MemberReplace { gone, new } => {
                ("cluster replace", format!("{} by {}", node_of(*gone), node_of(*new)))
            }
            // The cluster makes this change itself. The audit log lists it because every later line has the corrected
            // time.
            Self::ClockBack { by_ms } => ("clock back", format!("{} s", by_ms / 1_000)),
            Self::TokenAdd { .. } | Self::LearnerTokenAdd { .. } | Self::TokenFor { .. } | Self::MemberMove { .. } => {
                return self.member_in_words();
            }
            Self::FeatureLevel { level } => ("cluster upgrade", format!("level {level}")),
            Self::RotationIn { .. } | Self::RotationOut { .. } | Self::AllLiveKnown { .. } => return None,
            Self::Trust(change) => return change.in_words(),
        })
    }

    /// Describes the changes of join tokens and of a member's address.
    fn member_in_words(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::TokenAdd { digest, expires_wall_ms: TOKEN_REVOKED } => ("token revoke", token_id(digest)),
            Self::TokenAdd { expires_wall_ms, .. } => ("token add", format!("until {expires_wall_ms}")),
            Self::LearnerTokenAdd { expires_wall_ms, .. } => ("token add", format!("learner, until {expires_wall_ms}")),
            Self::TokenFor { life_ms, is_learner, .. } => {
                ("token add", format!("{}for {} s", if *is_learner { "learner, " } else { "" }, life_ms / 1_000))
            }
            Self::MemberMove { id, address } => ("cluster move", format!("{} {address}", node_of(*id))),
            _ => return None,
        })
    }

    /// Also the form in which a follower forwards a change to the leader.
    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::ZoneOptions { zone, options } => {
                out.u8(1);
                out.zone_id(zone);
                encode_options(*options, out);
            }
            Self::ZoneRemove { zone } => {
                out.u8(2);
                out.zone_id(zone);
            }
            Self::KeyAdd { name, algorithm, secret } => {
                out.u8(3);
                out.name(name);
                encode_algorithm(*algorithm, out);
                secret.encode(out);
            }
            Self::KeyRemove { name } => {
                out.u8(4);
                out.name(name);
            }
            Self::Grant { key, zone, right } => {
                out.u8(5);
                encode_grant(key, zone.as_ref(), *right, out);
            }
            Self::Revoke { key, zone, right } => {
                out.u8(6);
                encode_grant(key, zone.as_ref(), *right, out);
            }
            Self::FeatureLevel { level } => {
                out.u8(10);
                out.u32(*level);
            }
            Self::PolicySet { zone, policy } => {
                out.u8(11);
                encode_policy(zone.as_ref(), policy, out);
            }
            Self::KeyRoll { name, secret } => {
                out.u8(12);
                out.name(name);
                secret.encode(out);
            }
            Self::KeyRetire { name } => {
                out.u8(13);
                out.name(name);
            }
            Self::Trust(change) => change.encode(out),
            Self::RotationIn { ids } => {
                out.u8(20);
                encode_ids(ids, out);
            }
            Self::RotationOut { ids } => {
                out.u8(21);
                encode_ids(ids, out);
            }
            Self::AllLiveKnown { index } => {
                out.u8(22);
                out.u64(*index);
            }
            Self::MemberAdd { .. }
            | Self::MemberRemove { .. }
            | Self::TokenAdd { .. }
            | Self::MemberRole { .. }
            | Self::LearnerTokenAdd { .. }
            | Self::MemberMove { .. }
            | Self::TokenFor { .. }
            | Self::ClockBack { .. }
            | Self::MemberReplace { .. } => self.encode_member(out),
        }
    }

    /// Encodes the changes of members, of join tokens and of the cluster's clock.
    fn encode_member(&self, out: &mut Encoder) {
        match self {
            Self::MemberAdd { id, address, token } => {
                out.u8(7);
                out.u64(*id);
                out.text(address);
                out.bool(token.is_some());
                out.fixed(token.as_ref().map_or(&[], |digest| &digest[..]));
            }
            Self::MemberRemove { id } => {
                out.u8(8);
                out.u64(*id);
            }
            Self::TokenAdd { digest, expires_wall_ms } => {
                out.u8(9);
                out.fixed(digest);
                out.u64(*expires_wall_ms);
            }
            Self::MemberRole { id, votes } => {
                out.u8(30);
                out.u64(*id);
                out.bool(*votes);
            }
            Self::LearnerTokenAdd { digest, expires_wall_ms } => {
                out.u8(31);
                out.fixed(digest);
                out.u64(*expires_wall_ms);
            }
            Self::MemberReplace { gone, new } => {
                out.u8(32);
                out.u64(*gone);
                out.u64(*new);
            }
            Self::MemberMove { id, address } => {
                out.u8(50);
                out.u64(*id);
                out.text(address);
            }
            Self::TokenFor { digest, life_ms, is_learner } => {
                out.u8(51);
                out.fixed(digest);
                out.u64(*life_ms);
                out.bool(*is_learner);
            }
            Self::ClockBack { by_ms } => {
                out.u8(52);
                out.u64(*by_ms);
            }
            _ => {}
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match from.u8()? {
            1 => Self::ZoneOptions { zone: from.zone_id()?, options: decode_options(from)? },
            2 => Self::ZoneRemove { zone: from.zone_id()? },
            3 => Self::KeyAdd {
                name: from.name()?,
                algorithm: decode_algorithm(from)?,
                secret: Sealed::decode(from, SECRET_BYTES_MAX)?,
            },
            4 => Self::KeyRemove { name: from.name()? },
            5 => {
                let (key, zone, right) = decode_grant(from)?;
                Self::Grant { key, zone, right }
            }
            6 => {
                let (key, zone, right) = decode_grant(from)?;
                Self::Revoke { key, zone, right }
            }
            7 => Self::MemberAdd {
                id: from.u64()?,
                address: from.text(ADDRESS_BYTES_MAX)?,
                token: if from.bool()? { Some(from.array()?) } else { None },
            },
            8 => Self::MemberRemove { id: from.u64()? },
            9 => Self::TokenAdd { digest: from.array()?, expires_wall_ms: from.u64()? },
            10 => Self::FeatureLevel { level: from.u32()? },
            30 => Self::MemberRole { id: from.u64()?, votes: from.bool()? },
            31 => Self::LearnerTokenAdd { digest: from.array()?, expires_wall_ms: from.u64()? },
            32 => Self::MemberReplace { gone: from.u64()?, new: from.u64()? },
            50 => Self::MemberMove { id: from.u64()?, address: from.text(ADDRESS_BYTES_MAX)? },
            51 => Self::TokenFor { digest: from.array()?, life_ms: from.u64()?, is_learner: from.bool()? },
            52 => Self::ClockBack { by_ms: from.u64()? },
            11 => {
                let (zone, policy) = decode_policy(from)?;
                Self::PolicySet { zone, policy: Arc::new(policy) }
            }
            12 => Self::KeyRoll { name: from.name()?, secret: Sealed::decode(from, SECRET_BYTES_MAX)? },
            13 => Self::KeyRetire { name: from.name()? },
            kind @ trust::FIRST..=trust::LAST => Self::Trust(TrustChange::decode(kind, from)?),
            20 => Self::RotationIn { ids: decode_ids(from)? },
            21 => Self::RotationOut { ids: decode_ids(from)? },
            22 => Self::AllLiveKnown { index: from.u64()? },
            _ => return Err(DecodeError::Unknown),
        })
    }
}

fn encode_ids(ids: &[NodeId], out: &mut Encoder) {
    out.u8(ids.len() as u8);
    ids.iter().for_each(|&id| out.u64(id));
}

fn decode_ids(from: &mut Decoder<'_>) -> Result<Vec<NodeId>, DecodeError> {
    let count = usize::from(from.u8()?);
    if count > MEMBERS_MAX {
        return Err(DecodeError::TooLarge);
    }
    (0..count).map(|_| from.u64()).collect()
}
