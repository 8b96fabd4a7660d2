//! Connections to peers begin and end, and their processes die.

use super::Replica;
use crate::context::Context;
use crate::io::NodeId;

impl Replica {
    pub(super) fn handle_connected(&mut self, id: NodeId, boot_id: u64) {
        if self.evidence.connected(id, boot_id) {
            // All that was sent to the old process is lost, and the connection may not have reported its end.
            self.transfers.peer_gone(id);
            self.transfer_ended(id, false);
            self.leader_died(id);
        }
    }

    pub(super) fn handle_gone(&mut self, id: NodeId, refused: bool) {
        self.transfers.peer_gone(id);
        self.transfer_ended(id, false);
        if self.driver.is_leader() {
            self.driver.report_unreachable(id);
        }
        if refused || planted!(CampaignsWithoutEvidence) {
            self.leader_died(id);
        }
    }

    /// The process of `id` died. If it led, another member must take over.
    fn leader_died(&mut self, id: NodeId) {
        if self.driver.leader() != Some(id) || self.driver.is_leader() || planted!(EvidenceIgnored) {
            return;
        }
        self.driver.forget_leader();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        self.evidence.plan_campaign(&context, id);
        self.campaign_when_due();
    }

    /// Campaigns when this member's slot has come and no leader has appeared.
    pub(super) fn campaign_when_due(&mut self) {
        let may_campaign = !self.driver.is_restoring()
            && !self.local.lifecycle.is_fenced()
            && !self.log_loss.is_suspected()
            && !self.full.is_log_full();
        let context = Context::new(&self.local, &self.driver, &self.machine);
        if self.evidence.takes_campaign(&context, may_campaign) {
            self.driver.campaign();
        }
    }
}
