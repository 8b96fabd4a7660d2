//! All inputs and outputs of a [`Replica`](crate).
//!
//! The shell (daemon or simulator) calls `handle(input, now)` for each event and then `poll()` until it returns
//! `None`. Several inputs may be handled before one round of polling; their proposals then share one batch. The shell
//! executes outputs in order.
//!
//! **Contract of the shell.**
//! - One [`Input::Tick`] per [`TICK_MS`] of monotonic time. After a pause of the process, waiting frames are handled
//!   first, then at most one tick; missed ticks are not repeated.
//! - Disk jobs follow the contract of [`crate::disk`].
//! - Frames of one peer and one channel arrive in order or not at all. A connection that ends loses the frames in it.
//!   Order is only for speed: frames that are reordered or repeated within the life of both processes are safe.

mod admin;
mod audit;
mod contents;
mod difference;
mod error;
mod keys;
mod log_loss;
mod membership;
mod memory;
mod zone_options;

use crate::disk::{DiskJob, DiskQueue, ReadFile};
use crate::secrets::DataKey;
use crate::update::LimitReached;
pub use admin::{AdminCommand, AdminReply, CredentialProgress, TrustCommand};
pub use audit::{ActionRecord, AuditNames, AuditRecord, UpdateRecord};
pub(crate) use contents::ReplacementKind;
pub use contents::{BrokenLimit, Contents, Replacement, broken_limit};
use core::net::SocketAddr;
pub use error::{AdminError, ReadIndexError};
pub use keys::Right;
pub use log_loss::{ContradictedLog, SuspectedLoss};
pub(crate) use membership::was_given;
pub use membership::{MemberState, Membership, NodeId};
pub use memory::MemoryFigures;
use policy::DaemonAnswers;
pub use policy::ZoneLimits;
use tsig::Verified;
use wire::name::Name;
use wire::number::Rcode;
use zone::ZoneId;
pub use zone_options::{AckOption, LimitsChange, OptionsChange, SerialPolicyOption, StaleOption, ZoneOptions};

/// Milliseconds of monotonic time between two [`Input::Tick`].
pub const TICK_MS: u64 = 10;

/// The shell's clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never goes back (`CLOCK_BOOTTIME`), from an arbitrary start.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970 in UTC. Used for signatures, for ages and for display; no safety property depends on
    /// it.
    pub wall_ms: u64,
}

/// An event from the shell.
#[derive(Debug)]
pub enum Input {
    /// [`TICK_MS`] have passed.
    Tick,
    /// Bytes from the peer that proved by its certificate that it is `from`.
    Peer {
        /// The sender.
        from: NodeId,
        /// One whole frame, without its length prefix.
        frame: Vec<u8>,
    },
    /// A known member confirmed that an id unknown to this replica is a member, because the shell asked it. A replica
    /// that knows no member yet trusts the node through which it joined.
    PeerConfirmed {
        /// The confirmed member.
        id: NodeId,
    },
    /// The heartbeat connection to a peer is established, and the peer sent its boot id.
    PeerConnected {
        /// The peer.
        id: NodeId,
        /// Drawn at random when the peer's process started. Another value means that the old process is gone.
        boot_id: u64,
    },
    /// The heartbeat connection to a peer ended. Ends of bulk connections are not reported.
    PeerGone {
        /// The peer.
        id: NodeId,
        /// Whether connecting again was refused: nothing listens there, so the process is gone.
        refused: bool,
    },
    /// A peer says that this member was removed and is out of Raft's configuration. A member that was away during its
    /// removal learns of it only in this way, because Raft sends it nothing any more.
    ReportedRemoved {
        /// The peer.
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
    /// The result of an [`Output::ReadFile`].
    FileRead {
        /// The ticket of the read.
        ticket: u64,
        /// The bytes; fewer than requested only at the end of the file.
        bytes: Vec<u8>,
    },
    /// A client's UPDATE, authenticated.
    Update(UpdateRequest),
    /// An administrator's command.
    Admin {
        /// Comes back in [`Output::AdminDone`].
        request_id: u64,
        /// The command.
        command: AdminCommand,
    },
    /// A client wants a linearizable read on this replica.
    ReadIndex {
        /// Comes back in [`Output::ReadIndexDone`].
        request_id: u64,
    },
    /// The data keys that this member holds.
    DataKeys {
        /// All of its keys.
        keys: DataKey,
    },
    /// The memory limit for the zones of this member, in bytes. Zero means no limit, as before the first such input.
    /// Members report their limits to the leader, which refuses growth before the smallest is reached.
    Memory {
        /// The limit.
        limit_bytes: u64,
    },
    /// The machine was idle after [`Output::AwaitIdle`].
    Idle,
    /// While the process ran, the machine was copied or reset to a snapshot. Its clocks do not include the time in
    /// between.
    MachineRestored,
    /// The process is about to stop. A leader hands over first. The answer is [`Output::Stopped`].
    Stop,
}

/// The transport of a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A datagram: without an answer the client repeats its message.
    Udp,
    /// A stream: no answer means that the connection is closed.
    Tcp,
}

/// An UPDATE whose signature and form were checked by the node that received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateRequest {
    /// Comes back in [`Output::UpdateDone`]; chosen by the shell.
    pub request_id: u64,
    /// Address of the client.
    pub source: SocketAddr,
    /// The transport.
    pub transport: Transport,
    /// The whole message as received.
    pub message: Vec<u8>,
    /// The key and the secret of its signature.
    pub verified: Verified,
    /// The update's zone, if by this node's state the update must be refused (unknown zone, no grant, not serving). A
    /// repeat still gets the outcome of the first copy, and a node that may be behind catches up first.
    pub refused_for: Option<ZoneId>,
    /// The answers of the daemons of `external` rules to this node, if there are any.
    pub external: DaemonAnswers,
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
    /// Refused by the shell's check. This copy was not proposed, and no earlier one was.
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

/// The connection that carries a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Channel {
    /// Heartbeats and votes: small, and never queued behind large frames.
    Heartbeat,
    /// Entries, forwarded updates.
    Normal,
    /// Checkpoints.
    Bulk,
}

/// A member's present role in Raft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Follower or learner.
    Follower,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
}

/// Whether a replica may answer queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serving {
    /// Not yet, or never again; clients get SERVFAIL.
    No,
    /// Yes, but this replica has heard no leader since it started.
    Stale,
    /// Yes.
    Yes,
}

/// A member of the cluster, from the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its raft id.
    pub id: NodeId,
    /// The address for its peers.
    pub address: String,
}

/// Why a replica cannot continue. The shell ends the process without a further step, and decides whether to start it
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FatalReason {
    /// A write of the log hung for longer than `DISK_HUNG_ABORT_MS`.
    DiskHung,
    /// A leader repeatedly reported that this member acknowledged entries that it does not have: the disk lost them,
    /// or the leader is wrong. The process should restart with the loss in
    /// [`ReplicaConfig::suspected_loss`](crate::ReplicaConfig::suspected_loss).
    LogLost(ContradictedLog),
    /// A leader repeatedly sent another entry than the one committed here. The process should restart too.
    LogDiverged(ContradictedLog),
    /// An entry of a version that this software does not know was committed.
    EntryUnknown,
    /// The arena of the zones is full at a committed entry. The disk has recorded the commit, so the next start
    /// reaches the same entry. It may have room for it, because it holds no former versions.
    MemoryFull,
    /// This replica read damaged data from its own files.
    Damaged,
    /// This software panicked on a committed entry. If it continued, its state would differ from the others'. The
    /// disk has recorded the commit, so the next start reaches the same entry.
    ApplyPanicked {
        /// Index of the entry.
        index: u64,
    },
    /// This software panicked on a change before this leader proposed it, so the memory of its zones cannot be
    /// trusted. The change is in no log. If there is another voter, it leads by now.
    CarryOutPanicked,
}

/// An action for the shell.
#[derive(Debug)]
pub enum Output {
    /// Send a frame. It may be dropped when the channel is full or down.
    Send {
        /// The receiver.
        to: NodeId,
        /// The connection.
        channel: Channel,
        /// The frame, without length prefix.
        frame: Vec<u8>,
    },
    /// Execute this disk job.
    Disk(DiskJob),
    /// Execute this read.
    ReadFile(ReadFile),
    /// Send [`Input::Idle`] once, as soon as the machine is idle. A background step waits for it, but not forever, so
    /// the shell need not answer.
    AwaitIdle,
    /// Answer the client of an UPDATE.
    UpdateDone {
        /// From [`UpdateRequest::request_id`].
        request_id: u64,
        /// The answer.
        verdict: Verdict,
    },
    /// Answer an administrator.
    AdminDone {
        /// From [`Input::Admin`].
        request_id: u64,
        /// The answer.
        result: Result<AdminReply, AdminError>,
    },
    /// Answer a reader.
    ReadIndexDone {
        /// From [`Input::ReadIndex`].
        request_id: u64,
        /// The applied index that includes everything acknowledged before the request.
        result: Result<u64, ReadIndexError>,
    },
    /// Updates that changed zones were applied. Each is reported once per process, in order. Updates from before the
    /// start that are not in a checkpoint yet are reported again; see
    /// [`ReplicaConfig::audit_after`](crate::ReplicaConfig::audit_after).
    Audited {
        /// Their audit records.
        records: Vec<AuditRecord>,
    },
    /// The changes between two indexes arrived in a checkpoint, so they have no audit records.
    AuditGap {
        /// The last audited index before the gap.
        after: u64,
        /// The last index of the gap.
        to: u64,
    },
    /// Queries now see everything up to this index.
    Published {
        /// The index.
        index: u64,
    },
    /// A checkpoint replaced the zones. Earlier readers see the old ones; get new readers from
    /// [`Replica`](crate::Replica).
    ZonesReplaced,
    /// Role, term or leader changed.
    RoleChanged {
        /// This member's role.
        role: Role,
        /// The term.
        term: u64,
        /// The leader, if known.
        leader: Option<NodeId>,
    },
    /// The members or their addresses changed or became known, or a removed member left Raft's configuration; see
    /// [`Membership`].
    PeersChanged {
        /// All members, this one included, by id.
        members: Vec<Member>,
    },
    /// Keys or grants changed: read them from [`Replica`](crate::Replica) again.
    KeysChanged {
        /// The keys, sorted; `None` means possibly all.
        keys: Option<Vec<Name>>,
    },
    /// Update policies changed: read them from [`Replica`](crate) again.
    PoliciesChanged,
    /// The trust between members, their list or the feature level changed: read them from [`Replica`](crate) again.
    TrustChanged,
    /// Options of zones changed, or zones were added, removed or replaced.
    ZonesChanged {
        /// The zones; `None` means possibly all.
        zones: Option<Vec<ZoneId>>,
    },
    /// Whether this replica may answer queries has changed.
    ServingChanged {
        /// The new state.
        serving: Serving,
    },
    /// Zones of [`AckOption::AllLive`] may be answered until [`Now::monotonic_ms`] reaches this time; zero means not
    /// at all. The shell checks the clock after it received a query.
    LeaseChanged {
        /// The end of the lease.
        until_ms: u64,
    },
    /// All counted members show everything up to this index.
    AllLiveIndex {
        /// The index.
        index: u64,
        /// Whether only the members of the rotation are counted, which answer for zones of [`AckOption::AllLive`].
        /// Otherwise all live members are counted.
        /// all live members are counted.
        of_rotation: bool,
    },
    /// This member was removed from the cluster and never answers again.
    Removed {
        /// Whether it has left Raft's configuration. Until then the others may need its acknowledgements.
        is_out: bool,
    },
    /// The answer to [`Input::Stop`]: the process may exit.
    Stopped,
    /// [`Replica::suspected_loss`](crate::Replica::suspected_loss) is resolved: the log holds the entries, or they were
    /// never acknowledged. The shell deletes what it stored.
    LossResolved,
    /// This member knows no leader. It may not help to elect a leader without the entries of its torn last record.
    LossUnresolved {
        /// Voters that have not yet shown that they lack these entries. Each of them can end the wait.
        unreported_voters: Vec<NodeId>,
    },
    /// This replica must stop.
    Fatal {
        /// The reason.
        reason: FatalReason,
    },
}
