//! The work of the thread of the audit log.

use replica::io::{AuditNames, AuditRecord};
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use tokio::sync::oneshot;
use wire::Name;

/// Work for the audit log thread.
#[derive(Debug)]
pub(crate) enum AuditWork {
    /// Updates, in order.
    Records(Vec<AuditRecord>),
    /// An action on this node only. The sender learns whether it was written.
    Local { time_ms: u64, action: &'static str, subject: String, written: oneshot::Sender<bool> },
    /// A refused request, and the number of earlier ones without a line.
    Refused(Box<Attempt>, u64),
    /// No lines are available after index `after`, up to and including `to`.
    Gap { after: u64, to: u64 },
    /// Request to sync; the sender is dropped once all earlier work is on disk.
    Sync(Sender<()>),
}

/// A refused request.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) time_ms: u64,
    /// The reason, as a stable identifier.
    pub(crate) reason: &'static str,
    /// `update` or `transfer`.
    pub(crate) what: &'static str,
    /// The key that the client named; it may be false.
    pub(crate) key: Option<Name>,
    pub(crate) source: IpAddr,
    pub(crate) zone: Option<Name>,
    pub(crate) names: AuditNames,
}
