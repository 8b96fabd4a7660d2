//! What a replica asks of the leader, be it itself or another, and what the leader says to it.

use crate::entry::{
    Body, Entry, SettingsChange, decode_algorithm, decode_options_change, decode_policy, encode_algorithm,
    encode_options_change, encode_policy, options_change_level,
};
use crate::io::{AdminError, NodeId, OptionsChange, Transport};
use crate::limits::{ADDRESS_BYTES_MAX, ENTRY_BYTES_MAX, SECRET_BYTES_MAX, UPDATE_BYTES_MAX};
use crate::secrets::Sealed;
use policy::{External, Policy, Revision};
use std::sync::Arc;
use tsig::{KeyAlgorithm, SecretId};
use wire::name::Name;
use wire::number::Rcode;
use zone::ZoneId;
use zone::codec::{DecodeError, Decoder, Encoder};

/// Something that only a leader can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Evaluate an UPDATE.
    Update(UpdateCommand),
    /// Propose this; the leader checks it and fills in epochs and time.
    Propose(Body),
    /// Change the settings.
    Settings(SettingsChange),
    /// Change options of a zone: the leader knows what the others are. Of feature level 2.
    ZoneSet {
        /// Which.
        zone: ZoneId,
        /// Those that are named.
        change: OptionsChange,
    },
    /// Give a TSIG key another secret, if its algorithm is this one. Of feature level 2.
    KeyRoll {
        /// Its name, canonical.
        name: Name,
        /// What the secret is for.
        algorithm: KeyAlgorithm,
        /// The new secret, sealed.
        secret: Sealed,
    },
    /// Set who may write what, where the rules are those that the administrator started from. Of feature level 2.
    PolicySet {
        /// Where; `None` is in all zones.
        zone: Option<ZoneId>,
        /// The rules.
        policy: Arc<Policy>,
        /// Those that he started from.
        expected: Revision,
    },
    /// Make a member; the leader chooses its id.
    NodeAdd {
        /// The node number; `None` takes the next free one.
        node: Option<u32>,
        /// Where its peers connect to it.
        address: String,
        /// Digest of the join token that is used up.
        token: Option<[u8; 32]>,
    },
    /// Remove a member.
    NodeRemove {
        /// Which.
        id: NodeId,
    },
    /// Hand the leadership over.
    TransferLeader {
        /// To whom.
        to: Option<NodeId>,
    },
    /// Wait until all members that are heard have applied this index. Of feature level 2.
    WaitAllLive {
        /// The index.
        index: u64,
    },
}

/// An authenticated UPDATE on its way to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpdateCommand {
    pub(crate) identity: [u8; 16],
    pub(crate) key_name: Name,
    pub(crate) time_signed: u64,
    pub(crate) fudge: u16,
    /// Address of the client, an IPv4 one mapped into IPv6.
    pub(crate) source: [u8; 16],
    /// How the node took it; not said below feature level 2.
    pub(crate) taken: Option<Taken>,
    /// What the daemons of `external` rules said to the node that took it; that is believed as its word on the
    /// signature is. Of feature level 2, where there is anything.
    pub(crate) external: External,
    pub(crate) message: Vec<u8>,
}

/// How a node took an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) transport: Transport,
    /// What made its signature. The node may not know yet that this is no secret of the key any more; the leader does.
    pub(crate) secret: SecretId,
}

/// What the leader says to a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is in the log; done when the entry of this index and term is applied.
    Proposed { index: u64, term: u64 },
    /// It was done before, at the latest at this index.
    Done { index: u64 },
    /// A new member, done when the entry of this index and term is applied.
    Joined { index: u64, term: u64, id: NodeId },
    /// The UPDATE was executed before, with this outcome, at the latest at this index.
    Repeat { rcode: Rcode, index: u64 },
    /// The UPDATE is a repeat that its sender may not make, or is too old to tell.
    BadTime,
    /// This replica does not lead or has no room: certainly not proposed.
    NotProposed,
    /// The leader refuses; certainly not proposed.
    Refused(AdminError),
    /// This leader has no room; certainly not proposed, and not to be asked again at once. Of feature level 2.
    Overloaded,
}

impl Command {
    /// The feature level from which on a leader knows it. Above the level of the cluster it is not even sent: a leader
    /// of older software could make nothing of the frame.
    pub(crate) const fn feature_level(&self) -> u32 {
        match self {
            Self::Propose(body) => body.feature_level(),
            Self::Settings(change) => change.feature_level(),
            Self::ZoneSet { change, .. } => match options_change_level(*change) {
                level @ 3.. => level,
                _ => 2,
            },
            Self::KeyRoll { algorithm, .. } if algorithm.is_weak() => 4,
            Self::Update(UpdateCommand { taken: Some(_), .. })
            | Self::WaitAllLive { .. }
            | Self::KeyRoll { .. }
            | Self::PolicySet { .. } => 2,
            Self::Update(_) | Self::NodeAdd { .. } | Self::NodeRemove { .. } | Self::TransferLeader { .. } => 1,
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Update(update) => {
                out.u8(match (update.taken, update.external.is_empty()) {
                    (None, _) => 1,
                    (Some(_), true) => 7,
                    (Some(_), false) => 12,
                });
                out.fixed(&update.identity);
                out.name(&update.key_name);
                out.u64(update.time_signed);
                out.u16(update.fudge);
                out.fixed(&update.source);
                if let Some(Taken { transport, secret }) = update.taken {
                    out.bool(transport == Transport::Tcp);
                    out.fixed(&secret.0);
                    if !update.external.is_empty() {
                        update.external.encode(out);
                    }
                }
                out.bytes(&update.message);
            }
            Self::Propose(body) => {
                out.u8(2);
                out.bytes(&body.encode(0, 0));
            }
            Self::Settings(change) => {
                out.u8(3);
                change.encode(out);
            }
            Self::NodeAdd { node, address, token } => {
                out.u8(4);
                out.bool(node.is_some());
                out.u32(node.unwrap_or(0));
                out.text(address);
                out.bool(token.is_some());
                out.fixed(token.as_ref().map_or(&[], |digest| &digest[..]));
            }
            Self::NodeRemove { id } => {
                out.u8(5);
                out.u64(*id);
            }
            Self::TransferLeader { to } => {
                out.u8(6);
                out.u64(to.unwrap_or(0));
            }
            Self::WaitAllLive { index } => {
                out.u8(11);
                out.u64(*index);
            }
            Self::ZoneSet { zone, change } => {
                out.u8(13);
                out.zone_id(zone);
                encode_options_change(*change, out);
            }
            Self::KeyRoll { name, algorithm, secret } => {
                out.u8(14);
                out.name(name);
                encode_algorithm(*algorithm, out);
                secret.encode(out);
            }
            Self::PolicySet { zone, policy, expected } => {
                out.u8(15);
                encode_policy(zone.as_ref(), policy, out);
                out.u64(expected.0);
            }
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match from.u8()? {
            kind @ (1 | 7 | 12) => Self::Update(UpdateCommand {
                identity: from.array()?,
                key_name: from.name()?,
                time_signed: from.u64()?,
                fudge: from.u16()?,
                source: from.array()?,
                taken: match kind {
                    1 => None,
                    _ => Some(Taken {
                        transport: if from.bool()? { Transport::Tcp } else { Transport::Udp },
                        secret: SecretId(from.array()?),
                    }),
                },
                external: match kind {
                    12 => Some(External::decode(from)?)
                        .filter(|external| !external.is_empty())
                        .ok_or(DecodeError::Unknown)?,
                    _ => External::default(),
                },
                message: from.bytes(UPDATE_BYTES_MAX)?.to_vec(),
            }),
            2 => match Entry::decode(from.bytes(ENTRY_BYTES_MAX)?)? {
                Entry { group: 0, time_ms: 0, body } => Self::Propose(body),
                _ => return Err(DecodeError::Unknown),
            },
            3 => Self::Settings(SettingsChange::decode(from)?),
            4 => {
                let (present, number) = (from.bool()?, from.u32()?);
                if !present && number != 0 {
                    return Err(DecodeError::Unknown);
                }
                Self::NodeAdd {
                    node: present.then_some(number),
                    address: from.text(ADDRESS_BYTES_MAX)?,
                    token: if from.bool()? { Some(from.array()?) } else { None },
                }
            }
            5 => Self::NodeRemove { id: from.u64()? },
            6 => Self::TransferLeader { to: Some(from.u64()?).filter(|&id| id != 0) },
            11 => Self::WaitAllLive { index: from.u64()? },
            13 => Self::ZoneSet { zone: from.zone_id()?, change: decode_options_change(from)? },
            14 => Self::KeyRoll {
                name: from.name()?,
                algorithm: decode_algorithm(from)?,
                secret: Sealed::decode(from, SECRET_BYTES_MAX)?,
            },
            15 => {
                let ((zone, policy), expected) = (decode_policy(from)?, Revision(from.u64()?));
                Self::PolicySet { zone, policy: Arc::new(policy), expected }
            }
            _ => return Err(DecodeError::Unknown),
        })
    }
}

impl Answer {
    fn parts(self) -> (u8, [u64; 3]) {
        match self {
            Self::Proposed { index, term } => (1, [index, term, 0]),
            Self::Done { index } => (2, [index, 0, 0]),
            Self::Joined { index, term, id } => (3, [index, term, id]),
            Self::Repeat { rcode, index } => (4, [index, u64::from(rcode.0), 0]),
            Self::BadTime => (5, [0; 3]),
            Self::NotProposed => (6, [0; 3]),
            Self::Refused(error) => (7, [u64::from(error_number(error)), 0, 0]),
            Self::Overloaded => (8, [0; 3]),
        }
    }

    pub(crate) fn encode(self, out: &mut Encoder) {
        let (kind, numbers) = self.parts();
        out.u8(kind);
        for number in numbers {
            out.u64(number);
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let kind = from.u8()?;
        let [index, second, third] = [from.u64()?, from.u64()?, from.u64()?];
        let answer = match kind {
            1 => Self::Proposed { index, term: second },
            2 => Self::Done { index },
            3 => Self::Joined { index, term: second, id: third },
            4 => Self::Repeat { rcode: Rcode(u16::try_from(second).map_err(|_| DecodeError::Unknown)?), index },
            5 => Self::BadTime,
            6 => Self::NotProposed,
            7 => Self::Refused(ERRORS.get(index.wrapping_sub(1) as usize).copied().ok_or(DecodeError::Unknown)?),
            8 => Self::Overloaded,
            _ => return Err(DecodeError::Unknown),
        };
        // Numbers that an answer has no use for are zero.
        if answer.parts().1 == [index, second, third] { Ok(answer) } else { Err(DecodeError::Unknown) }
    }
}

/// The numbers of errors on the wire: their places here, from one. A new one goes last, and only to those who asked for
/// something that came with it.
const ERRORS: [AdminError; 31] = [
    AdminError::ZoneExists,
    AdminError::ZoneUnknown,
    AdminError::ZoneChanged,
    AdminError::ZoneInvalid,
    AdminError::KeyExists,
    AdminError::KeyUnknown,
    AdminError::NodeUnknown,
    AdminError::NodeExists,
    AdminError::MembershipBusy,
    AdminError::LeaderWouldGo,
    AdminError::LastVoter,
    AdminError::TokenInvalid,
    AdminError::TooLarge,
    AdminError::Busy,
    AdminError::NotProposed,
    AdminError::Unknown,
    AdminError::Malformed,
    AdminError::LevelTooLow,
    AdminError::MajorityWouldGo,
    AdminError::NodeVotes,
    AdminError::NodeBehind,
    AdminError::LeaderStayed,
    AdminError::Fenced,
    AdminError::KeyRolling,
    AdminError::MembersBehind,
    AdminError::RotationBusy,
    AdminError::DataKeyOld,
    // Of these two the node that was asked tells by itself; leaders say `Busy` and `ZoneChanged`, as they always did.
    AdminError::ImportUnderWay,
    AdminError::ImportGivenUp,
    AdminError::KeyOfAnotherAlgorithm,
    AdminError::PolicyChanged,
];

fn error_number(error: AdminError) -> u8 {
    let position = ERRORS.iter().position(|&other| other == error).expect("every error has a number");
    position as u8 + 1
}
