//! The events of a run.

use crate::disk::Pending;
use crate::network::Delivery;
use crate::swarm::FaultKind;
use replica::io::{Channel, NodeId};
use wire::number::Rcode;

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A tick of a process.
    Tick { id: NodeId, boot: u64 },
    /// A process handles its inputs.
    Wake { id: NodeId, boot: u64 },
    /// A machine is idle.
    Idle { id: NodeId, boot: u64 },
    /// A frame arrives.
    Frame(Delivery<Channel>),
    /// A disk operation ends.
    Disk { id: NodeId, pending: Pending },
    /// A connection ends at its sender, which dials again.
    LinkEnds { from: NodeId, to: NodeId, boot: u64 },
    /// A member dials another.
    Dial { from: NodeId, to: NodeId, boot: u64 },
    /// A client starts an update.
    Client(usize),
    /// A client's message arrives at a member.
    Request(Request),
    /// A client gets a response.
    Response(Response),
    /// A client's wait for a response ends.
    Timeout { client: usize, update: u64, tries: u32 },
    /// The administrator sends a command.
    Administrator,
    /// A reader sends a request.
    Read,
    /// A fault begins.
    Fault,
    /// A fault at a critical moment.
    Strike { kind: FaultKind, id: NodeId },
    /// The attacker sends a frame.
    Attacker,
    /// A fault ends.
    FaultEnds(Fault),
    /// A machine starts its process.
    Restart(NodeId),
    /// The machine of a new member starts.
    Join(NodeId),
}

/// A lasting fault, with the data needed to end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The network is cut.
    Cut,
    /// A process does not run.
    Pause { id: NodeId, boot: u64 },
    /// A wall clock has jumped by this much.
    WallJump { id: NodeId, by_ms: i64 },
    /// The leader will die in the middle of a write.
    Doom { id: NodeId },
}

/// A message on its way to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) update: u64,
    pub(crate) to: NodeId,
    /// The client that waits for a response. `None` for a late repeat.
    pub(crate) client: Option<usize>,
    /// Whether it comes from another address than the first copy of the message.
    pub(crate) is_stranger: bool,
}

/// A response on its way to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) client: usize,
    pub(crate) update: u64,
    pub(crate) response: ObservedResponse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObservedResponse {
    Outcome(Rcode),
    /// SERVFAIL, or the member's clock is wrong: try elsewhere.
    NotDone,
    /// BADTIME because of the table of repeats.
    TooOld,
}
