//! Commands of administrators, and the replies.

use super::{Contents, NodeId, OptionsChange, Replacement, Right, ZoneOptions};
use policy::{Policy, Revision};
use std::sync::Arc;
use tsig::KeyAlgorithm;
use wire::name::Name;
use zone::ZoneId;

/// A change of replicated state that an administrator requests. Any replica accepts it.
#[derive(Clone, Debug)]
pub enum AdminCommand {
    /// Creates a zone with these records, including an SOA at the apex.
    AddZone {
        /// The zone.
        zone: ZoneId,
        /// Its options.
        options: ZoneOptions,
        /// All of its records.
        contents: Contents,
    },
    /// Replaces all contents of a zone at once.
    ReplaceZone {
        /// The zone.
        zone: ZoneId,
        /// The new contents, computed from the zone's current contents. If the zone has changed by then, the command is
        /// refused.
        replacement: Replacement,
    },
    /// Changes options of a zone.
    SetZoneOptions {
        /// The zone.
        zone: ZoneId,
        /// The options to change.
        change: OptionsChange,
    },
    /// Removes a zone with its options and grants.
    RemoveZone {
        /// The zone.
        zone: ZoneId,
    },
    /// Creates a TSIG key.
    AddKey {
        /// Its name.
        name: Name,
        /// Its algorithm.
        algorithm: KeyAlgorithm,
        /// The shared secret. Only its sealed form leaves this replica.
        secret: Vec<u8>,
        /// Fresh random bytes to seal the secret.
        nonce: [u8; 12],
    },
    /// Gives a TSIG key a second secret. Requests signed with either secret are accepted.
    RollKey {
        /// Its name.
        name: Name,
        /// The algorithm of the secret. It must be the key's algorithm.
        algorithm: KeyAlgorithm,
        /// The new secret. Only its sealed form leaves this replica.
        secret: Vec<u8>,
        /// Fresh random bytes to seal the secret.
        nonce: [u8; 12],
    },
    /// Invalidates the older secret of a TSIG key.
    RetireKey {
        /// Its name.
        name: Name,
    },
    /// Sets which keys and addresses may write which records.
    SetPolicy {
        /// The zone whose policy this is. `None` means the policy for all zones, which applies after the zone's own
        /// policy.
        zone: Option<ZoneId>,
        /// The rules. An empty policy removes all rules.
        policy: Arc<Policy>,
        /// The revision that these rules were made from. If the current rules are another revision, they stay, unless
        /// they are the same as the new rules.
        expected: Option<Revision>,
    },
    /// Removes a TSIG key with its grants.
    RemoveKey {
        /// Its name.
        name: Name,
    },
    /// Grants a key a right in one zone, or in all zones.
    Grant {
        /// The key.
        key: Name,
        /// The zone; `None` means all zones, including later ones.
        zone: Option<ZoneId>,
        /// The right.
        right: Right,
    },
    /// Revokes a grant.
    Revoke {
        /// The key.
        key: Name,
        /// The zone; `None` revokes the grant for all zones.
        zone: Option<ZoneId>,
        /// The right.
        right: Right,
    },
    /// Adds a member. It is a learner first, and becomes a voter once it has caught up.
    AddNode {
        /// Its node number. A number that was in use before gets its next incarnation.
        node: u32,
        /// The address at which its peers connect to it.
        address: String,
    },
    /// Removes a member. A leader first hands over the leadership. Until then it refuses to remove itself.
    RemoveNode {
        /// The member.
        id: NodeId,
    },
    /// Makes peers connect to a member at another address. Needs feature level 4.
    MoveNode {
        /// The member's id.
        id: NodeId,
        /// The address at which its peers connect to it.
        address: String,
    },
    /// Gives a member a vote or takes its vote away. A learner serves queries like all other members, but does not
    /// count for majorities.
    SetVote {
        /// The member.
        id: NodeId,
        /// Whether the member votes.
        votes: bool,
    },
    /// Removes a member and gives its vote to a caught-up learner, in one step.
    ReplaceNode {
        /// The member to remove.
        gone: NodeId,
        /// The learner that gets the vote.
        new: NodeId,
    },
    /// Raises the feature level of the cluster to the level of this replica's software. Every member must be reachable
    /// and support that level. Afterwards, no member can go back to software of the level before.
    RaiseFeatureLevel,
    /// Hands over the leadership, by default to the member with the longest log. Completes when another member leads.
    TransferLeader {
        /// The new leader.
        to: Option<NodeId>,
    },
    /// Writes a checkpoint of everything that this replica has applied so far. The leader is not involved.
    Checkpoint,
    /// Waits until every member that the leader can reach has applied what this replica has applied. Then an
    /// administrator's change is in effect on all of them. The wait for a lagging member ends after
    /// `ALL_LIVE_WAIT_MS`.
    WaitAllLive,
    /// Revokes a join token that has not been used. The answer is [`AdminReply::Unchanged`] if the token is unknown,
    /// used or already void. A leader whose software cannot revoke tokens gives the same answer.
    RevokeToken {
        /// SHA-256 of the token.
        digest: [u8; 32],
    },
    /// Registers a single-use token with which a node may join. Only the caller knows the token itself.
    CreateToken {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// The token's lifetime in milliseconds, at most [`crate::limits::TOKEN_LIFE_MS_MAX`].
        life_ms: u64,
        /// Whether the node that uses the token stays a learner.
        is_learner: bool,
    },
    /// Uses up a token and adds the node that presented it, as [`AdminCommand::AddNode`] does.
    Join {
        /// SHA-256 of the token.
        digest: [u8; 32],
        /// The address at which peers connect to the new member.
        address: String,
    },
    /// Changes the credentials of the members.
    Trust(TrustCommand),
}

/// A change of the credentials with which members recognize each other.
#[derive(Clone)]
pub enum TrustCommand {
    /// Members accept another CA. The first one still issues certificates.
    AddCa {
        /// Its number: one more than the number of the last CA.
        number: u32,
        /// Its own certificate, DER.
        certificate: Vec<u8>,
        /// Its private key (PKCS #8). Only its sealed form leaves this replica.
        key: Vec<u8>,
        /// Fresh random bytes to seal the key.
        nonce: [u8; 12],
    },
    /// This CA issues certificates from now on. Every member has reported that it accepts the CA.
    UseCa {
        /// Its number.
        number: u32,
    },
    /// Members accept this CA no longer. Every member has reported that its own certificate is from another CA.
    RemoveCa {
        /// Its number.
        number: u32,
    },
    /// Orders every member to get itself a new certificate.
    Renew {
        /// The number of this order: one more than the last.
        number: u32,
    },
    /// Orders all members to get another data key.
    BeginDataKey {
        /// Its number: one more than the number of the last data key that was begun.
        number: u32,
        /// The digest that identifies this data key.
        digest: [u8; 32],
    },
    /// New secrets are sealed with this data key from now on. Every member has reported that it holds the key.
    UseDataKey {
        /// Its number.
        number: u32,
    },
    /// Seals secrets with the current data key that an older one sealed, at most one for each nonce.
    Reseal {
        /// Fresh random bytes, one nonce for each secret.
        nonces: Vec<[u8; 12]>,
    },
    /// Reports the progress of the member that was asked.
    ReportCredentials {
        /// The reported progress.
        progress: CredentialProgress,
    },
    /// Accepts one more key of a member.
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
    /// The member that was asked uses this key from now on. Its other keys are accepted no longer.
    UsePin {
        /// SHA-256 of the key's SubjectPublicKeyInfo.
        pin: [u8; 32],
    },
}

impl core::fmt::Debug for TrustCommand {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::AddCa { number, .. } => write!(f, "AddCa({number})"),
            Self::UseCa { number } => write!(f, "UseCa({number})"),
            Self::RemoveCa { number } => write!(f, "RemoveCa({number})"),
            Self::Renew { number } => write!(f, "Renew({number})"),
            Self::BeginDataKey { number, .. } => write!(f, "BeginDataKey({number})"),
            Self::UseDataKey { number } => write!(f, "UseDataKey({number})"),
            Self::Reseal { nonces } => write!(f, "Reseal({})", nonces.len()),
            Self::ReportCredentials { progress } => write!(f, "ReportCredentials({progress:?})"),
            Self::AddPin { id, .. } => write!(f, "AddPin({id})"),
            Self::SeePins { version } => write!(f, "SeePins({version})"),
            Self::UsePin { .. } => write!(f, "UsePin"),
        }
    }
}

/// A member's own report of its progress with the credentials of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialProgress {
    /// The member accepts certificates of all CAs up to this number, also after a restart.
    pub accepts: u32,
    /// The number of the CA that issued the certificate in use.
    pub issued_by: u32,
    /// The last order to renew that it has followed.
    pub renewal: u32,
    /// When its certificate expires, in seconds since 1970.
    pub expires_s: u64,
    /// The member holds the data keys up to this number, also after a restart.
    pub data_key: u32,
}

/// The outcome of an [`AdminCommand`]. This replica has applied the command by then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminReply {
    /// Done.
    Done,
    /// The state was already as requested.
    Unchanged,
    /// The new member.
    Joined {
        /// Its id.
        id: NodeId,
    },
    /// The checkpoint is on disk.
    Checkpoint {
        /// Its file. The replica deletes it once there is a newer checkpoint.
        file: String,
        /// Index of the last entry that it contains.
        index: u64,
    },
}
