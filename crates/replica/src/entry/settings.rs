//! Changes of the settings: zones, keys, grants, members, tokens, feature level.
//!
//! Reserved numbers: 11 to 19 for update policies and keys, 20 to 29 for updates and the rotation (20 to 22 in use),
//! 30 to 49 for membership and trust between members (30 to 42 in use). Sections of a checkpoint: 9 to 14 for
//! policies and keys, 15 to 19 for other settings (17 to 19 for the rotation), 30 to 39 for trust between members (30
//! to 36 in use).

use super::import::{decode_options, encode_options, options_level};
use super::keys::{decode_algorithm, decode_grant, decode_policy, encode_algorithm, encode_grant, encode_policy};
use super::trust::{self, TrustChange, node_of, token_id};
use crate::io::{NodeId, Right, ZoneOptions};
use crate::limits::{ADDRESS_BYTES_MAX, MEMBERS_MAX};
use crate::secrets::Sealed;
use policy::Policy;
use std::sync::Arc;
use tsig::KeyAlgorithm;
use tsig::limits::SECRET_BYTES_MAX;
use wire::name::Name;
use zone::ZoneId;
use zone::codec::{DecodeError, Decoder, Encoder};

/// A change of the settings, bound to the settings that it was evaluated against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsEntry {
    /// Epoch of the settings that the change applies to. Each applied change raises it by one.
    pub epoch: u64,
    /// The change.
    pub change: SettingsChange,
}

/// One change of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingsChange {
    /// Sets the options of a zone.
    ZoneOptions {
        /// The zone.
        zone: ZoneId,
        /// The options.
        options: ZoneOptions,
    },
    /// Removes a zone and its grants.
    ZoneRemove {
        /// The zone.
        zone: ZoneId,
    },
    /// Adds a TSIG key. Its generation is the index of this entry.
    KeyAdd {
        /// Its name, canonical.
        name: Name,
        /// Its algorithm.
        algorithm: KeyAlgorithm,
        /// Its secret, sealed.
        secret: Sealed,
    },
    /// Removes a TSIG key and its grants.
    KeyRemove {
        /// Its name.
        name: Name,
    },
    /// Grants a right to a key.
    Grant {
        /// Its name.
        key: Name,
        /// The zone; `None` is all zones.
        zone: Option<ZoneId>,
        /// The right.
        right: Right,
    },
    /// Revokes a right of a key.
    Revoke {
        /// Its name.
        key: Name,
        /// The zone; `None` is the grant for all zones.
        zone: Option<ZoneId>,
        /// The right.
        right: Right,
    },
    /// Adds a member's address. Raft's configuration changes in an entry of its own.
    MemberAdd {
        /// Its id.
        id: NodeId,
        /// The address for its peers.
        address: String,
        /// Digest of the join token that this uses up.
        token: Option<[u8; 32]>,
    },
    /// Removes a member's address.
    MemberRemove {
        /// Its id.
        id: NodeId,
    },
    /// Adds a join token. With the expiry time 0 it revokes an existing token. Software that cannot
    /// revoke tokens applies such an entry in the same way.
    TokenAdd {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// Milliseconds since 1970 after which the token is void.
        expires_wall_ms: u64,
    },
    /// Sets an update policy.
    PolicySet {
        /// The zone; `None` is all zones.
        zone: Option<ZoneId>,
        /// The rules; an empty policy removes them.
        policy: Arc<Policy>,
    },
    /// Gives a TSIG key a new secret, in addition to its present one.
    KeyRoll {
        /// Its name.
        name: Name,
        /// The new secret, sealed.
        secret: Sealed,
    },
    /// Removes the older of two secrets of a TSIG key.
    KeyRetire {
        /// Its name.
        name: Name,
    },
    /// Raises the feature level. An administrator declares that all members support it and that none will go back.
    FeatureLevel {
        /// The level.
        level: u32,
    },
    /// Makes a member a voter or a learner. Raft's configuration follows.
    MemberRole {
        /// Its id.
        id: NodeId,
        /// Whether it is to vote.
        votes: bool,
    },
    /// Adds a join token for a member that becomes a learner and stays one.
    LearnerTokenAdd {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// Milliseconds since 1970 after which the token is void.
        expires_wall_ms: u64,
    },
    /// Removes a member, and gives its vote to a learner.
    MemberReplace {
        /// The removed member.
        gone: NodeId,
        /// The learner.
        new: NodeId,
    },
    /// Changes the trust between members.
    Trust(TrustChange),
    /// Adds members to the rotation: updates of zones with `ack = all-live` wait for them.
    RotationIn {
        /// The members.
        ids: Vec<NodeId>,
    },
    /// Removes members from the rotation: they do not answer for such zones.
    RotationOut {
        /// The members.
        ids: Vec<NodeId>,
    },
    /// All members know which zones had `ack = all-live` at this index.
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
    /// The first feature level at which members know the change. A new change needs a new level once the present one
    /// may be in use anywhere.
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

    /// What an administrator did, and to what, for the audit log, without secrets and their digests. `None` for
    /// changes that the cluster makes itself.
    pub(crate) fn in_words(&self) -> Option<(&'static str, String)> {
        let scope = |zone: &Option<ZoneId>| zone.as_ref().map_or("all zones".to_owned(), |zone| zone.apex.to_string());
        Some(match self {
            Self::ZoneOptions { zone, options } => ("zone set", format!("{} {options:?}", zone.apex)),
            Self::ZoneRemove { zone } => ("zone remove", zone.apex.to_string()),
            Self::KeyAdd { name, .. } => ("key add", name.to_string()),
            Self::KeyRemove { name } => ("key remove", name.to_string()),
            Self::KeyRoll { name, .. } => ("key roll", name.to_string()),
            Self::KeyRetire { name } => ("key retire", name.to_string()),
            Self::Grant { key, zone, right } => ("grant", format!("{key} {} {}", right.label(), scope(zone))),
            Self::Revoke { key, zone, right } => ("revoke", format!("{key} {} {}", right.label(), scope(zone))),
            Self::PolicySet { zone, .. } => ("policy set", scope(zone)),
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

    /// A follower forwards a change to the leader in this form too.
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
