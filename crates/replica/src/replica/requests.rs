//! Requests of clients: updates and administrators' commands.

use super::Replica;
use crate::context::Context;
use crate::io::{AdminCommand, AdminError, Serving, UpdateRequest, Verdict};
use crate::limits::ADMIN_WAITING_MAX;
use crate::requests::{Requests, Shared};

impl Replica {
    /// The requests, and what they read and write besides their own state.
    pub(crate) const fn requests(&mut self) -> (&mut Requests, Shared<'_>) {
        let shared = Shared {
            context: Context::new(&self.local, &self.driver, &self.machine),
            outputs: &mut self.outputs,
            head: &mut self.head,
            rotation: &mut self.rotation,
            is_log_full: self.full.is_log_full(),
        };
        (&mut self.requests, shared)
    }

    pub(super) fn handle_update(&mut self, request: UpdateRequest) {
        let (requests, mut shared) = self.requests();
        if let Some(request) = requests.handle_update(&mut shared, request) {
            self.look_before_refusing(request);
        }
    }

    /// By this replica's state the update must be refused, but the state may be old. So the replica asks the leader
    /// for its commit index, and decides once that is applied here. A node that does not serve refuses immediately.
    fn look_before_refusing(&mut self, request: UpdateRequest) {
        if self.local.lifecycle.serving() == Serving::No {
            return self.outputs.verdict(request.request_id, Verdict::Refused);
        }
        if planted!(RefusesByOwnCopy) {
            return self.refuse_or_forward(request, true);
        }
        if self.local.lifecycle.is_stopping() || !self.reads.has_room_for_refusal() {
            return self.outputs.verdict(request.request_id, Verdict::NotProposed);
        }
        self.read_before_refusing(request);
    }

    pub(super) fn refuse_or_forward(&mut self, request: UpdateRequest, is_confirmed: bool) {
        let (requests, mut shared) = self.requests();
        requests.refuse_or_forward(&mut shared, request, is_confirmed);
    }

    pub(super) fn handle_admin(&mut self, request_id: u64, command: AdminCommand) {
        let is_busy = self.requests.admin.len() + self.transfers.waiters() >= ADMIN_WAITING_MAX;
        if is_busy || self.local.lifecycle.is_stopping() {
            return self.outputs.admin_done(request_id, Err(AdminError::Busy));
        }
        if matches!(command, AdminCommand::Checkpoint) {
            let context = Context::new(&self.local, &self.driver, &self.machine);
            return self.transfers.request_checkpoint(&context, request_id, &mut self.outputs);
        }
        let (requests, mut shared) = self.requests();
        requests.handle_admin(&mut shared, request_id, command);
    }
}
