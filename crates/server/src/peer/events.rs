//! The events of the connections, sent to the replica thread.

use super::PeerEvents;
use crate::limits::FRAME_AT_ONCE_MAX;
use crate::replica_host::event::Event;
use crate::replica_host::handle::ReplicaHandle;
use replica::Trust;
use replica::io::{Input, Member, Membership, NodeId};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, watch};

impl PeerEvents for ReplicaHandle {
    fn frame(&self, from: NodeId, frame: Vec<u8>, permit: OwnedSemaphorePermit) {
        let is_small = frame.len() <= FRAME_AT_ONCE_MAX;
        let event = Event::Frame(from, frame, permit);
        if is_small {
            self.run_inline(event)
        } else {
            self.send(event)
        };
    }

    fn connected(&self, id: NodeId, boot_id: u64) {
        self.send(Event::Input(Input::PeerConnected { id, boot_id }));
    }

    fn gone(&self, id: NodeId, refused: bool) {
        self.send(Event::Input(Input::PeerGone { id, refused }));
    }

    fn reported_removed(&self, by: NodeId) {
        self.send(Event::Input(Input::ReportedRemoved { by }));
    }

    fn confirmed(&self, member: Member) {
        self.send(Event::Confirmed(member));
    }

    fn membership(&self) -> watch::Receiver<Arc<Membership>> {
        self.shared().membership.subscribe()
    }

    fn trust(&self) -> watch::Receiver<Arc<Trust>> {
        self.shared().trust.subscribe()
    }
}
