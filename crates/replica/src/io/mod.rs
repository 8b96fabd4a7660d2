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
//! - Frames of one peer and one channel arrive in order or not at all; a connection that ends loses what it held. That
//!   is for speed: frames that overtake each other or come again, within the life of both processes, break no promise.

mod admin;
mod audit;
mod error;
mod keys;
mod zone_options;

pub use crate::admin::{BrokenLimit, Contents, Replacement, broken_limit};
pub use crate::apply::AuditNames;
use crate::disk::{DiskJob, DiskQueue, ReadFile};
pub use crate::replica::{ContradictedLog, Doubt, MemberState, Membership};
use crate::secrets::DataKey;
use crate::update::LimitReached;
pub use admin::{AdminCommand, AdminReply, Standing, TrustCommand};
pub use audit::{ActionRecord, AuditRecord, UpdateRecord};
use core::net::SocketAddr;
pub use error::{AdminError, ReadIndexError};
pub use keys::Right;
use policy::External;
pub use policy::ZoneLimits;
use tsig::Verified;
use wire::name::Name;
use wire::number::Rcode;
use zone::ZoneId;
pub use zone_options::{AckOption, LimitsChange, OptionsChange, SerialPolicyOption, StaleOption, ZoneOptions};

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

/// An event from the shell.
#[derive(Debug)]
pub enum Input {
    /// [`TICK_MS`] have passed.
    Tick,
    /// Bytes from a peer whose certificate says that it is `from`.
    Peer {
        /// Who sent it.
        from: NodeId,
        /// One whole frame, without its length prefix.
        frame: Vec<u8>,
    },
    /// A member that this replica knows says that this id, of which nothing is known here, is a member: the shell asked
    /// it. A replica that knows nobody yet takes the word of the node that it joined through.
    PeerConfirmed {
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
    ReportedRemoved {
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
    /// The disk has no room for the current job of this queue. The shell keeps the job and tries again until there is
    /// room. [`Input::DiskRoom`] reports the end of the wait.
    DiskFull {
        /// The queue of the waiting job.
        queue: DiskQueue,
    },
    /// There is room again, and the waiting job continues.
    DiskRoom {
        /// The queue of the job that continues.
        queue: DiskQueue,
    },
    /// What [`Output::ReadFile`] asked for.
    FileRead {
        /// The ticket of the read.
        ticket: u64,
        /// The bytes; fewer than asked for only where the file ends.
        bytes: Vec<u8>,
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
    /// A client wants a linearizable read on this replica.
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
    /// The machine was idle after [`Output::AwaitIdle`].
    Idle,
    /// While the process ran, the machine was copied or reset to a snapshot. Its clocks do not include the time in
    /// between.
    MachineRestored,
    /// The process is about to stop: a leader hands over first. [`Output::Stopped`] answers.
    Stop,
}

/// How a message came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram: silence makes the client repeat its bytes.
    Udp,
    /// A stream: silence is a closed connection.
    Tcp,
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

/// The response to the client of an UPDATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The update has this outcome, durable at a majority and visible here.
    Answer(Rcode),
    /// NOTAUTH with TSIG error BADTIME, signed: a repeat from another address, or one signed at or before the
    /// floor of its key. Nothing was executed.
    BadTime,
    /// SERVFAIL: this copy was certainly not proposed and never will be (RFC 2136 3.4.2).
    NotProposed,
    /// The same, because a member has no memory for larger zones. It may succeed later.
    NoMemory,
    /// REFUSED, durable like every outcome, because of this limit.
    Limited(LimitReached),
    /// What the shell would have refused it with: this copy was not proposed, and no other was before.
    Refused,
    /// The outcome is unknown: no response over UDP, a closed connection over TCP.
    Unknown,
}

impl Verdict {
    /// The verdict without its explanation.
    #[must_use]
    pub const fn plain(self) -> Self {
        match self {
            Self::Limited(_) => Self::Answer(Rcode::REFUSED),
            Self::NoMemory => Self::NotProposed,
            verdict => verdict,
        }
    }
}

/// Which connection a frame goes out on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
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

/// An action for the shell.
#[derive(Debug)]
pub enum Output {
    /// Send a frame. It may be dropped when the channel is full or down.
    Send {
        /// To whom.
        to: NodeId,
        /// On which connection.
        channel: Channel,
        /// The frame, without length prefix.
        frame: Vec<u8>,
    },
    /// Write to disk.
    Disk(DiskJob),
    /// Read from disk.
    ReadFile(ReadFile),
    /// Send [`Input::Idle`] once, as soon as the machine is idle. A background step waits for it, but not forever, so
    /// the shell need not answer.
    AwaitIdle,
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
    /// All counted members show everything up to this index.
    AllLiveIndex {
        /// The index.
        index: u64,
        /// Whether the members of the rotation are counted, which answer for zones of [`AckOption::AllLive`]. Otherwise
        /// all live members are counted.
        of_rotation: bool,
    },
    /// This member was removed from the cluster: it never answers again.
    Removed {
        /// Whether raft has ceased to count it; until then the others may need its acknowledgements.
        is_out: bool,
    },
    /// The answer to [`Input::Stop`]: the process may exit.
    Stopped,
    /// The doubt of [`Replica::doubt`](crate::Replica::doubt) is settled: the log holds the entries, or they were never
    /// acknowledged. The shell deletes the stored doubt.
    DoubtCleared,
    /// This member knows no leader. It may not help to elect a leader without the entries of its torn last record.
    DoubtWaits {
        /// Voters that have not yet shown that they lack these entries. Each of them can end the wait.
        waits_for: Vec<NodeId>,
    },
    /// This replica must stop.
    Fatal {
        /// Why.
        reason: FatalReason,
    },
}
