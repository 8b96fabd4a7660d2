//! Everything that goes into a [`Replica`](crate) and everything that comes out of it.
//!
//! The shell (daemon or simulator) calls `handle(input, now)` for what has happened and then `poll()` until it
//! gives `None`; several inputs may be handled before one round of polling, and what they propose then shares
//! one batch. Outputs are carried out in their order.
//!
//! **Contract of the shell.**
//! - One [`Input::Tick`] each [`TICK_MS`] of monotonic time; after a pause of the process, frames that wait
//!   are handled before at most one tick, lost ticks are not made up for.
//! - Disk jobs follow the contract of [`crate::disk`].
//! - Frames of one peer and one lane arrive in order or not at all; a connection that ends loses what it held. That is
//!   for speed: frames that overtake each other or come again, within the life of both processes, break no promise.

mod audit;
mod error;
mod zone_options;

pub use crate::admin::{BrokenLimit, Contents, Replacement, broken_limit};
pub use crate::apply::AuditNames;
use crate::disk::{DiskJob, DiskQueue, ReadFile};
use crate::policy::{External, Policy, Revision};
pub use crate::replica::{ContradictedLog, Doubt, MemberState, Membership};
use crate::secrets::DataKey;
use crate::update::{LimitReached, SecretId};
pub use audit::{ActionRecord, AuditRecord, UpdateRecord};
use core::net::SocketAddr;
pub use error::{AdminError, ReadIndexError};
use std::sync::Arc;
use wire::name::Name;
use wire::number::Rcode;
use zone::ZoneId;
pub use zone_options::{
    AckOption, LimitsChange, OptionsChange, SerialPolicyOption, StaleOption, ZoneLimits, ZoneOptions,
};

/// Milliseconds of monotonic time between two [`Input::Tick`].
pub const TICK_MS: u64 = 10;

/// A member of the cluster as raft knows it: node number in the low 32 bits, incarnation in the high 32. A node
/// that lost its disk comes back under the next incarnation, so an id is never used twice. Never zero.
pub type NodeId = u64;

/// What the clocks of the shell say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never goes back (`CLOCK_BOOTTIME`), from an arbitrary start.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970 in UTC. No safety stands on it: it signs, ages and is shown.
    pub wall_ms: u64,
}

/// Something that happened.
#[derive(Debug)]
pub enum Input {
    /// [`TICK_MS`] have passed.
    Tick,
    /// Octets from a peer whose certificate says that it is `from`.
    Peer {
        /// Who sent it.
        from: NodeId,
        /// One whole frame, without its length prefix.
        frame: Vec<u8>,
    },
    /// A member that this replica knows says that this id, of which nothing is known here, is a member: the shell asked
    /// it. A replica that knows nobody yet takes the word of the node that it joined through.
    PeerVouched {
        /// Who is a member.
        id: NodeId,
    },
    /// The heartbeat connection to a peer stands, and the peer named its boot.
    PeerConnected {
        /// The peer.
        id: NodeId,
        /// Drawn at random when the peer's process started; another one means that the old process is gone.
        boot_id: u64,
    },
    /// The heartbeat connection to a peer ended. Ends of bulk connections are not reported.
    PeerGone {
        /// The peer.
        id: NodeId,
        /// Whether connecting again was refused: nobody listens there, the process is gone.
        refused: bool,
    },
    /// A peer says that this member was removed, and that raft counts it no more. Who was away while it happened hears
    /// of it only so: it is sent nothing any more.
    ToldRemoved {
        /// Who says so.
        by: NodeId,
    },
    /// All operations of a disk job are done.
    Persisted {
        /// The queue of the job.
        queue: DiskQueue,
        /// The ticket of the job.
        ticket: u64,
    },
    /// What [`Output::ReadFile`] asked for.
    FileRead {
        /// The ticket of the read.
        ticket: u64,
        /// The octets; fewer than asked for only where the file ends.
        octets: Vec<u8>,
    },
    /// A client's UPDATE, authenticated.
    Update(UpdateRequest),
    /// An administrator's command.
    Admin {
        /// Comes back in [`Output::AdminDone`].
        request_id: u64,
        /// What to do.
        command: AdminCommand,
    },
    /// Somebody wants to read what was acknowledged before now, on this replica.
    ReadIndex {
        /// Comes back in [`Output::ReadIndexDone`].
        request_id: u64,
    },
    /// The data keys that this member holds from now on.
    DataKeys {
        /// All of them.
        keys: DataKey,
    },
    /// What the zones of this member may take in memory, in bytes; zero, and before this is said: no limit. The members
    /// tell the leader, and it refuses growth before the smallest of them is full.
    Memory {
        /// How much.
        limit_bytes: u64,
    },
    /// The machine had nothing else to do after [`Output::AwaitLeisure`].
    Leisure,
    /// The process is about to stop: a leader hands over first. [`Output::Stopped`] answers.
    Stop,
}

/// How a message came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram: silence makes the client repeat its octets.
    Udp,
    /// A stream: silence is a closed connection.
    Tcp,
}

/// What a verified TSIG says about a request (RFC 8945 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Name of the key, canonical.
    pub key_name: Name,
    /// Which of its secrets made the signature.
    pub secret: SecretId,
    /// Digest of key, signed time, whole MAC and message: the identity of the request.
    pub identity: [u8; 16],
    /// Time Signed, in seconds since 1970.
    pub time_signed: u64,
    /// The client's fudge in seconds, at most 300.
    pub fudge: u16,
}

/// An UPDATE whose signature and form were checked by the node that received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRequest {
    /// Comes back in [`Output::UpdateDone`]; the shell's own number.
    pub request_id: u64,
    /// Where it came from.
    pub source: SocketAddr,
    /// How it came.
    pub transport: Transport,
    /// The whole message as received.
    pub message: Vec<u8>,
    /// What its signature says.
    pub verified: Verified,
    /// The zone that it is for, when by what this node shows (no such zone, no grant, not serving) it is to be
    /// refused. A repeat is told what the first one was all the same, and a node that may be behind finds out first.
    pub refused_for: Option<ZoneId>,
    /// What the daemons of `external` rules said to this node, where there are any.
    pub external: External,
}

/// What the client of an UPDATE is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The update has this outcome, durable at a majority and visible here.
    Answer(Rcode),
    /// NOTAUTH with TSIG error BADTIME, signed: a repeat from another address, or one signed at or before the
    /// floor of its key. Nothing was executed.
    BadTime,
    /// SERVFAIL: this copy was certainly not proposed and never will be (RFC 2136 3.4.2).
    NotProposed,
    /// The same, since the zones would grow and some member has no memory for that: it may be carried out later.
    NoMemory,
    /// REFUSED, durable as every outcome, since this limit would have been broken.
    Limited(LimitReached),
    /// What the shell would have refused it with: this copy was not proposed, and no other was before.
    Refused,
    /// Nobody knows: silence over UDP, a closed connection over TCP.
    Unknown,
}

impl Verdict {
    /// The verdict without what is only said to explain it.
    #[must_use]
    pub const fn plain(self) -> Self {
        match self {
            Self::Limited(_) => Self::Answer(Rcode::REFUSED),
            Self::NoMemory => Self::NotProposed,
            verdict => verdict,
        }
    }
}

/// Algorithm of a TSIG key (RFC 8945 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyAlgorithm {
    /// `hmac-sha256`
    HmacSha256,
    /// `hmac-sha384`
    HmacSha384,
    /// `hmac-sha512`
    HmacSha512,
    /// `hmac-sha1`, for keys shared with other servers.
    HmacSha1,
    /// `hmac-sha224`, for keys shared with other servers.
    HmacSha224,
    /// `hmac-md5`, for keys shared with other servers.
    HmacMd5,
}

/// What a grant is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// UPDATE (RFC 2136).
    Update,
    /// AXFR and IXFR.
    Transfer,
    /// UPDATE, of the SOA and the NS of the apex too.
    UpdateApex,
}

impl Right {
    /// What the API, the command line and the audit log call it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Update => "update",
            Self::Transfer => "transfer",
            Self::UpdateApex => "update-apex",
        }
    }
}
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

/// Which connection a frame goes out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats and votes: small, never behind anything large.
    Heartbeat,
    /// Entries, forwarded updates.
    Normal,
    /// Checkpoints.
    Bulk,
}

/// What a member is in raft just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Follows, or learns.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
}

/// Whether a replica may answer queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// Not yet, or never again: SERVFAIL.
    No,
    /// Yes, but no leader was heard since the start.
    Stale,
    /// Yes.
    Yes,
}

/// A member of the cluster, as its settings have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its raft id.
    pub id: NodeId,
    /// Where its peers connect to it.
    pub address: String,
}

/// Why a replica cannot go on; the shell ends the process without a further step. Whether another start can help is the
/// shell's to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatalReason {
    /// A write of the log hung for longer than `DISK_HUNG_ABORT_MS`.
    DiskHung,
    /// A leader said again and again that this member acknowledged entries which it does not have: its disk lost them,
    /// or the leader lies. Another start is right: see [`ReplicaConfig::doubt`](crate::ReplicaConfig::doubt).
    LogLost(ContradictedLog),
    /// A leader sent again and again another entry than the one that is committed here; the same.
    LogDiverged(ContradictedLog),
    /// An entry of a version that this software does not know was committed.
    EntryUnknown,
    /// The arena of the zones is full at a committed entry. What was committed is known on disk by now, so a start
    /// comes to the same entry; it has no former versions, and may have room for it.
    MemoryFull,
    /// What was read back from this replica's own files is damaged.
    Damaged,
    /// Our own code panicked at a committed entry. Whoever went on without it would hold another state than the others.
    /// What was committed is known on disk by now, so a start comes to the same entry.
    ApplyPanicked {
        /// Of the entry.
        index: u64,
    },
    /// Our own code panicked at a change that this leader carried out before it proposed it: the memory of its zones is
    /// not to be trusted. The change is in no log, and another leads by now, if there is another.
    CarryOutPanicked,
}

/// Something to do.
#[derive(Debug)]
pub enum Output {
    /// Send a frame. It may be dropped when the lane is full or down.
    Send {
        /// To whom.
        to: NodeId,
        /// On which connection.
        lane: Lane,
        /// The frame, without length prefix.
        frame: Vec<u8>,
    },
    /// Write to disk.
    Disk(DiskJob),
    /// Read from disk.
    ReadFile(ReadFile),
    /// Say [`Input::Leisure`] once, as soon as no thread of the machine wants to run but those that give way to all. A
    /// piece of long work waits for it, for a while; it need not be answered.
    AwaitLeisure,
    /// Answer the client of an UPDATE.
    UpdateDone {
        /// From [`UpdateRequest::request_id`].
        request_id: u64,
        /// What to say.
        verdict: Verdict,
    },
    /// Answer an administrator.
    AdminDone {
        /// From [`Input::Admin`].
        request_id: u64,
        /// What to say.
        result: Result<AdminReply, AdminError>,
    },
    /// Answer a reader.
    ReadIndexDone {
        /// From [`Input::ReadIndex`].
        request_id: u64,
        /// The applied index that holds all that was acknowledged before the request.
        result: Result<u64, ReadIndexError>,
    },
    /// Updates that changed zones were applied, each once in the life of a process and in their order. What was applied
    /// before the start and is not in a checkpoint yet comes again; see
    /// [`ReplicaConfig::audit_after`](crate::ReplicaConfig::audit_after).
    Audited {
        /// What they were.
        records: Vec<AuditRecord>,
    },
    /// What happened after one index, up to another, was not applied one by one: it came in a checkpoint.
    AuditGap {
        /// Nothing is known behind this index,
        after: u64,
        /// up to this one.
        to: u64,
    },
    /// Queries now see everything up to this index.
    Published {
        /// The index.
        index: u64,
    },
    /// A checkpoint took the place of the zones: readers made before see the old ones. Get new ones from
    /// [`Replica`](crate::Replica).
    ZonesReplaced,
    /// Role, term or leader changed.
    RoleChanged {
        /// What this member is.
        role: Role,
        /// The term.
        term: u64,
        /// The leader, as far as it is known.
        leader: Option<NodeId>,
    },
    /// The members or their addresses changed, or are known for the first time; or one that was removed is counted no
    /// more, see [`Membership`].
    PeersChanged {
        /// All members, this one included, by id.
        members: Vec<Member>,
    },
    /// Keys or grants changed: ask [`Replica`](crate::Replica) for them again.
    KeysChanged {
        /// Whose, sorted; `None`: perhaps all of them.
        keys: Option<Vec<Name>>,
    },
    /// Update policies changed: ask [`Replica`](crate) for them again.
    PoliciesChanged,
    /// What members know each other by changed, or who they are, or the feature level: ask [`Replica`](crate) for it
    /// again.
    TrustChanged,
    /// Options of zones changed, or zones came, went or were replaced whole.
    ZonesChanged {
        /// Which; `None`: perhaps all of them.
        zones: Option<Vec<ZoneId>>,
    },
    /// Whether this replica may answer queries changed.
    ServingChanged {
        /// The new state.
        serving: Serving,
    },
    /// Zones of [`AckOption::AllLive`] may be answered from until the clock of [`Now::monotonic_ms`] shows this, which
    /// is to be looked at after a query came in; zero: not at all.
    LeaseChanged {
        /// Until when.
        until_ms: u64,
    },
    /// Everything up to this index is shown by all members that count.
    Everywhere {
        /// The index.
        index: u64,
        /// Whether those are all members that may answer for a zone of [`AckOption::AllLive`]; else all that the leader
        /// heard of late, which may answer for any other.
        of_rotation: bool,
    },
    /// This member was removed from the cluster: it never answers again.
    Removed {
        /// Whether raft has ceased to count it; until then the others may need its acknowledgements.
        is_out: bool,
    },
    /// What [`Input::Stop`] asked for is done: nothing more is waited for.
    Stopped,
    /// The doubt of [`Replica::doubt`](crate::Replica::doubt) is settled: the log holds the entries, or they were never
    /// acknowledged. The shell deletes the stored doubt.
    DoubtCleared,
    /// This member hears no leader. It may not help to elect a leader without the entries of its torn last record.
    DoubtWaits {
        /// Voters that have not yet shown that they lack these entries. Each of them can end the wait.
        waits_for: Vec<NodeId>,
    },
    /// This replica cannot go on.
    Fatal {
        /// Why.
        reason: FatalReason,
    },
}
