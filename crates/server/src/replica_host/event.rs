//! The events that other threads send to the replica thread.

use replica::Status;
use replica::io::{AdminCommand, AdminError, AdminReply, Input, Member, NodeId, ReadIndexError, ZoneOptions};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use wire::Name;
use zeroize::Zeroizing;
use zone::record::ZoneId;
use zone::set::Frozen;

/// An event for the replica thread.
pub(crate) enum Event {
    /// An input of the replica.
    Input(Input),
    /// A member that this node does not know; a known member confirmed it.
    Confirmed(Member),
    /// A frame of a peer, with its share of the inbound budget.
    Frame(NodeId, Vec<u8>, OwnedSemaphorePermit),
    /// A command of an administrator.
    Admin(AdminCommand, oneshot::Sender<Result<AdminReply, AdminError>>),
    /// Request for the index of all updates acknowledged so far. The answer is sent once this node has applied it.
    ReadIndex(oneshot::Sender<Result<u64, ReadIndexError>>),
    /// Request for the status. With zones, it walks over all of them.
    Status(WithZones, oneshot::Sender<Status>),
    /// Request for the secrets of a key. They are shown once the audit log has a record of the request.
    Secrets(Name, oneshot::Sender<Option<Secrets>>),
    /// Request for the options of a zone.
    ZoneOptions(ZoneId, oneshot::Sender<Option<ZoneOptions>>),
    /// Request for a frozen version of the served zones.
    Freeze(oneshot::Sender<Frozen>),
    /// Another thread ran an event inline, and the replica has more work.
    Continue,
}

/// The secrets of a key, the newest first, and the receiver of the audit result.
pub(crate) struct Secrets {
    pub(crate) secrets: Vec<Zeroizing<Vec<u8>>>,
    pub(crate) written: oneshot::Receiver<bool>,
}

/// Whether a status lists zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WithZones {
    Yes,
    No,
}
