//! Commands of administrators, and the replies.

use super::{Contents, KeyAlgorithm, NodeId, OptionsChange, Replacement, Right, ZoneOptions};
use crate::policy::{Policy, Revision};
use std::sync::Arc;
use wire::name::Name;
use zone::ZoneId;

/// A change of replicated state that an administrator asks for; any replica takes it.
#[derive(Clone, Debug)]
pub enum AdminCommand {
    /// Makes a zone with these records, an SOA at the apex among them.
    AddZone {
        /// Which.
        zone: ZoneId,
        /// Its options.
        options: ZoneOptions,
        /// All of its records.
        contents: Contents,
    },
    /// Replaces the contents of a zone at once.
    ReplaceZone {
        /// Which.
        zone: ZoneId,
        /// The new contents, compared with what the zone holds; when it holds something else by then, the command is
        /// refused.
        replacement: Replacement,
    },
    /// Changes options of a zone.
    SetZoneOptions {
        /// Which.
        zone: ZoneId,
        /// Those that are named.
        change: OptionsChange,
    },
    /// Removes a zone with its options and grants.
    RemoveZone {
        /// Which.
        zone: ZoneId,
    },
    /// Makes a TSIG key.
    AddKey {
        /// Its name.
        name: Name,
        /// Its algorithm.
        algorithm: KeyAlgorithm,
        /// The shared secret; leaves this replica sealed only.
        secret: Vec<u8>,
        /// Fresh random octets that seal the secret.
        nonce: [u8; 12],
    },
    /// Gives a TSIG key a second secret; requests signed with either are taken.
    RollKey {
        /// Its name.
        name: Name,
        /// The algorithm that the secret is for; a key keeps the one that it has.
        algorithm: KeyAlgorithm,
        /// The new secret; leaves this replica sealed only.
        secret: Vec<u8>,
        /// Fresh random octets that seal the secret.
        nonce: [u8; 12],
    },
    /// Makes the older secret of a TSIG key void.
    RetireKey {
        /// Its name.
        name: Name,
    },
    /// Sets who may write what.
    SetPolicy {
        /// Where; `None` is in all zones, after what the zone itself says.
        zone: Option<ZoneId>,
        /// The rules; an empty policy leaves none.
        policy: Arc<Policy>,
        /// Which rules they are made from: others that are there stay, unless they say the same.
        expected: Option<Revision>,
    },
    /// Removes a TSIG key with its grants.
    RemoveKey {
        /// Its name.
        name: Name,
    },
    /// Lets a key do something in one zone, or in all.
    Grant {
        /// The key.
        key: Name,
        /// The zone; `None` means all, later ones too.
        zone: Option<ZoneId>,
        /// What it may do.
        right: Right,
    },
    /// Takes a grant back.
    Revoke {
        /// The key.
        key: Name,
        /// The zone; `None` takes back the grant for all.
        zone: Option<ZoneId>,
        /// What it may no longer do.
        right: Right,
    },
    /// Makes a member: a learner first, a voter once it has caught up.
    AddNode {
        /// Its node number; the next incarnation is taken if the number was in use before.
        node: u32,
        /// Where its peers connect to it.
        address: String,
    },
    /// Removes a member. A leader refuses to remove itself until it has handed over, which it starts to do.
    RemoveNode {
        /// Which.
        id: NodeId,
    },
    /// Makes peers connect to a member at another address. Needs feature level 4.
    MoveNode {
        /// The member's id.
        id: NodeId,
        /// The address at which its peers connect to it.
        address: String,
    },
    /// Gives a member a vote, or takes it away; a learner serves like all others and is counted for nothing.
    SetVote {
        /// Which.
        id: NodeId,
        /// Whether it is to vote.
        votes: bool,
    },
    /// Removes a member and gives its vote to a learner that has caught up, in one step.
    ReplaceNode {
        /// Who goes.
        gone: NodeId,
        /// Who gets the vote.
        new: NodeId,
    },
    /// Raises the feature level of the cluster to what this replica's software knows, if every member is there and
    /// knows it too. From then on none can go back to software of the level before.
    RaiseFeatureLevel,
    /// Hands the leadership over; to the member with the longest log when none is named. Done when another leads.
    TransferLeader {
        /// To whom.
        to: Option<NodeId>,
    },
    /// Writes a checkpoint that holds all that is applied here now; the leader has no part in it.
    Checkpoint,
    /// Waits until every member that the leader hears has applied what is applied here: what an administrator decided
    /// holds at all of them then. One that lags is waited for as long as `EVERYWHERE_WAIT_MS`.
    Everywhere,
    /// Revokes a join token that has not been used. The answer is [`AdminReply::Unchanged`] if the token is unknown,
    /// used or already void. A leader whose software cannot revoke tokens gives the same answer.
    RevokeToken {
        /// SHA-256 of the token.
        digest: [u8; 32],
    },
    /// Registers a single-use token with which a node may join; the token itself stays with the caller.
    CreateToken {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// The token's lifetime in milliseconds, at most [`crate::limits::TOKEN_LIFE_MS_MAX`].
        life_ms: u64,
        /// Whether its bearer stays a learner.
        is_learner: bool,
    },
    /// Uses a token up and makes its bearer a member, as [`AdminCommand::AddNode`] does.
    Join {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// Where peers connect to the new member.
        address: String,
    },
    /// Changes what members know each other by.
    Trust(TrustCommand),
}

/// A change of what members know each other by.
#[derive(Clone)]
pub enum TrustCommand {
    /// Another authority is accepted; the first one issues.
    AddAuthority {
        /// Its number: one more than that of the last.
        number: u32,
        /// Its own certificate, DER.
        certificate: Vec<u8>,
        /// Its private key (PKCS #8); leaves this replica sealed only.
        key: Vec<u8>,
        /// Fresh random octets that seal the key.
        nonce: [u8; 12],
    },
    /// This authority issues certificates from now on: every member has said that it accepts it.
    UseAuthority {
        /// Its number.
        number: u32,
    },
    /// This authority is accepted no more: every member has said that its own certificate is of another.
    RemoveAuthority {
        /// Its number.
        number: u32,
    },
    /// Every member is to get itself a new certificate.
    Renew {
        /// Which order this is: one more than the last.
        number: u32,
    },
    /// All members are to get another data key.
    BeginDataKey {
        /// Its number: one more than that of the last that was begun.
        number: u32,
        /// What it is told by from any other.
        digest: [u8; 32],
    },
    /// Every member has said that it holds it: it seals from now on.
    UseDataKey {
        /// Its number.
        number: u32,
    },
    /// Secrets that an older data key sealed are sealed anew, as many as there are nonces.
    Reseal {
        /// Fresh random octets, for each secret.
        nonces: Vec<[u8; 12]>,
    },
    /// How far the member that was asked is.
    Stand {
        /// What it says.
        standing: Standing,
    },
    /// A member may show this key too.
    AddPin {
        /// The member.
        id: NodeId,
        /// SHA-256 of the key's SubjectPublicKeyInfo.
        pin: [u8; 32],
    },
    /// The member that was asked has applied the pins of all members up to this version.
    SeePins {
        /// The version.
        version: u32,
    },
    /// The member that was asked shows this key from now on, and no other of it is accepted any more.
    UsePin {
        /// SHA-256 of the key's SubjectPublicKeyInfo.
        pin: [u8; 32],
    },
}

impl core::fmt::Debug for TrustCommand {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::AddAuthority { number, .. } => write!(f, "AddAuthority({number})"),
            Self::UseAuthority { number } => write!(f, "UseAuthority({number})"),
            Self::RemoveAuthority { number } => write!(f, "RemoveAuthority({number})"),
            Self::Renew { number } => write!(f, "Renew({number})"),
            Self::BeginDataKey { number, .. } => write!(f, "BeginDataKey({number})"),
            Self::UseDataKey { number } => write!(f, "UseDataKey({number})"),
            Self::Reseal { nonces } => write!(f, "Reseal({})", nonces.len()),
            Self::Stand { standing } => write!(f, "Stand({standing:?})"),
            Self::AddPin { id, .. } => write!(f, "AddPin({id})"),
            Self::SeePins { version } => write!(f, "SeePins({version})"),
            Self::UsePin { .. } => write!(f, "UsePin"),
        }
    }
}

/// How far a member is with what members know each other by, in its own words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// It accepts certificates of all authorities up to this number, after a restart too.
    pub accepts: u32,
    /// Which authority issued the certificate that it shows.
    pub issued_by: u32,
    /// The last order to renew that it has followed.
    pub renewal: u32,
    /// When its certificate ends, in seconds since 1970.
    pub expires_s: u64,
    /// It holds the data keys up to this number, after a restart too.
    pub data_key: u32,
}

/// What an [`AdminCommand`] led to; it is applied here when this comes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminReply {
    /// Done.
    Done,
    /// The state was already what the command asks for.
    Unchanged,
    /// The new member.
    Joined {
        /// Its id.
        id: NodeId,
    },
    /// A checkpoint is on disk.
    Checkpoint {
        /// Its file; it goes once a newer one is there.
        file: String,
        /// Index of the last entry that it contains.
        index: u64,
    },
}
