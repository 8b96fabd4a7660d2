//! Commands from any replica to the leader, and the leader's answers.

use crate::entry::{
    Body, Entry, SettingsChange, decode_algorithm, decode_options_change, decode_policy, encode_algorithm,
    encode_options_change, encode_policy, options_change_level,
};
use crate::io::{AdminError, NodeId, OptionsChange, Transport};
use crate::limits::{ADDRESS_BYTES_MAX, ENTRY_BYTES_MAX, UPDATE_BYTES_MAX};
use crate::secrets::Sealed;
use policy::{DaemonAnswers, Policy, Revision};
use std::sync::Arc;
use tsig::limits::SECRET_BYTES_MAX;
use tsig::{KeyAlgorithm, SecretId};
use wire::name::Name;
use wire::number::Rcode;
use zone::ZoneId;
use zone::codec::{DecodeError, Decoder, Encoder};

/// Something that only a leader can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Evaluate an UPDATE.
    Update(UpdateCommand),
    /// Propose this entry; the leader checks it and fills in epochs and time.
    Propose(Body),
    /// Change the settings.
    Settings(SettingsChange),
    /// Change some options of a zone. The leader keeps the others. Feature level 2.
    ZoneSet {
        /// The zone.
        zone: ZoneId,
        /// The options to change.
        change: OptionsChange,
    },
    /// Give a TSIG key another secret, if the key has this algorithm. Feature level 2.
    KeyRoll {
        /// Its name, canonical.
        name: Name,
        /// The algorithm of the secret.
        algorithm: KeyAlgorithm,
        /// The new secret, sealed.
        secret: Sealed,
    },
    /// Replace an update policy, if the present rules are still those that the administrator edited. Feature level 2.
    PolicySet {
        /// The zone; `None` is all zones.
        zone: Option<ZoneId>,
        /// The rules.
        policy: Arc<Policy>,
        /// The revision that the administrator edited.
        expected: Revision,
    },
    /// Add a member; the leader chooses its id.
    NodeAdd {
        /// The node number; `None` takes the next free one.
        node: Option<u32>,
        /// The address for its peers.
        address: String,
        /// Digest of the join token that this uses up.
        token: Option<[u8; 32]>,
    },
    /// Remove a member.
    NodeRemove {
        /// The member.
        id: NodeId,
    },
    /// Transfer the leadership.
    TransferLeader {
        /// The new leader.
        to: Option<NodeId>,
    },
    /// Wait until all reachable members have applied this index. Feature level 2.
    WaitAllLive {
        /// The index.
        index: u64,
    },
}

/// An authenticated UPDATE on its way to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateCommand {
    /// Hash of the signed message, by which repeats are recognized.
    pub identity: [u8; 16],
    /// The key that signed it.
    pub key_name: Name,
    /// When it was signed, in seconds since 1970.
    pub time_signed: u64,
    /// Seconds by which that time may differ from the receiver's clock.
    pub fudge: u16,
    /// Address of the client; an IPv4 address is mapped into IPv6.
    pub source: [u8; 16],
    /// How the node received it; absent below feature level 2.
    pub reception: Option<Reception>,
    /// The answers of the daemons of `external` rules to the receiving node. The leader trusts them as it trusts the
    /// node's check of the signature. Feature level 2 if not empty.
    pub external: DaemonAnswers,
    /// The message.
    pub message: Vec<u8>,
}

/// How a node received an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reception {
    /// The transport.
    pub transport: Transport,
    /// The secret that signed it. The node may not know yet that the key no longer has this secret; the leader does.
    pub secret: SecretId,
}

/// The leader's answer to a [`Command`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in the log. It is done when the entry with this index and term is applied.
    Proposed {
        /// The index of the entry.
        index: u64,
        /// The term of the entry.
        term: u64,
    },
    /// It was done before, at this index or earlier.
    Done {
        /// The index.
        index: u64,
    },
    /// A new member. It is done when the entry with this index and term is applied.
    Joined {
        /// The index of the entry.
        index: u64,
        /// The term of the entry.
        term: u64,
        /// The id of the new member.
        id: NodeId,
    },
    /// The UPDATE was executed before with this outcome, at this index or earlier.
    Repeat {
        /// The outcome.
        rcode: Rcode,
        /// The index.
        index: u64,
    },
    /// The UPDATE is a repeat from another sender, or too old to tell.
    BadTime,
    /// This replica does not lead or has no room. The command was certainly not proposed.
    NotProposed,
    /// The leader refuses. The command was certainly not proposed.
    Refused(AdminError),
    /// This leader has no room. The command was certainly not proposed, and should not be repeated immediately.
    /// Feature level 2.
    Overloaded,
}

impl Command {
    /// The first feature level at which leaders know the command. Above the cluster's level it is not sent, because a
    /// leader with older software could not decode it.
    pub(crate) const fn feature_level(&self) -> u32 {
        match self {
            Self::Propose(body) => body.feature_level(),
            Self::Settings(change) => change.feature_level(),
            Self::ZoneSet { change, .. } => match options_change_level(*change) {
                level @ 3.. => level,
                _ => 2,
            },
            Self::KeyRoll { algorithm, .. } if algorithm.is_weak() => 4,
            Self::Update(UpdateCommand { reception: Some(_), .. })
            | Self::WaitAllLive { .. }
            | Self::KeyRoll { .. }
            | Self::PolicySet { .. } => 2,
            Self::Update(_) | Self::NodeAdd { .. } | Self::NodeRemove { .. } | Self::TransferLeader { .. } => 1,
        }
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Update(update) => {
                out.u8(match (update.reception, update.external.is_empty()) {
                    (None, _) => 1,
                    (Some(_), true) => 7,
                    (Some(_), false) => 12,
                });
                out.fixed(&update.identity);
                out.name(&update.key_name);
                out.u64(update.time_signed);
                out.u16(update.fudge);
                out.fixed(&update.source);
                if let Some(Reception { transport, secret }) = update.reception {
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
                reception: match kind {
                    1 => None,
                    _ => Some(Reception {
                        transport: if from.bool()? { Transport::Tcp } else { Transport::Udp },
                        secret: SecretId(from.array()?),
                    }),
                },
                external: match kind {
                    12 => Some(DaemonAnswers::decode(from)?)
                        .filter(|external| !external.is_empty())
                        .ok_or(DecodeError::Unknown)?,
                    _ => DaemonAnswers::default(),
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
        // Unused numbers of an answer are zero.
        if answer.parts().1 == [index, second, third] { Ok(answer) } else { Err(DecodeError::Unknown) }
    }
}

/// Errors on the wire; the number of each is its position plus one. A new one goes last, and is sent only in answer
/// to a command that came with it.
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
    // The receiving node finds these two itself; leaders send `Busy` and `ZoneChanged`, as in earlier versions.
    AdminError::ImportUnderWay,
    AdminError::ImportGivenUp,
    AdminError::KeyOfAnotherAlgorithm,
    AdminError::PolicyChanged,
];

fn error_number(error: AdminError) -> u8 {
    let position = ERRORS.iter().position(|&other| other == error).expect("every error has a number");
    position as u8 + 1
}
