//! A server of another program, or a primary and its secondaries.

use std::collections::VecDeque;
use testbed::{Kind, Peer, PeerError, Setup};

/// The nodes of a server. Node 1 is the primary.
pub(super) struct Peers {
    kind: Kind,
    pub(super) running: Vec<Peer>,
    /// The settings of secondaries that start later.
    pub(super) joining: VecDeque<Setup>,
}

impl Peers {
    /// No node yet.
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, running: Vec::new(), joining: VecDeque::new() }
    }

    /// Starts the next node, and waits until it answers for all zones.
    pub(super) fn join(&mut self) -> Result<(), PeerError> {
        let setup = self.joining.pop_front().ok_or(PeerError::NoneLeft(self.kind))?;
        self.running.push(testbed::start(self.kind, &setup)?.wait_for_zones(&setup)?);
        Ok(())
    }
}
