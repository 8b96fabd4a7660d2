//! A new leader after the old one's process died: each follower acts on its own evidence, in the order of ranks.
//!
//! Evidence is that the heartbeat connection ended and connecting again was refused, or that the peer answered
//! with another boot id. Without it a follower holds to its leader until the election time limit: a peer in its
//! lease would drop the pre-vote anyway, and two would campaign at once.

use crate::io::NodeId;
use crate::limits::CAMPAIGN_RANK_MS;
use crate::replica::Replica;
use std::collections::BTreeMap;

/// What is known of peers' processes.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Boot ids, by peer.
    boots: BTreeMap<NodeId, u64>,
    /// When to campaign, if no leader appears before, and the term in which that was decided.
    campaign: Option<(u64, u64)>,
}

impl Replica {
    pub(crate) fn handle_connected(&mut self, id: NodeId, boot_id: u64) {
        let known = self.evidence.boots.insert(id, boot_id);
        if known.is_some_and(|known| known != boot_id) {
            // What was on its way to the old process is gone; nobody may have seen that end.
            self.checkpoint_peer_gone(id);
            self.leader_died(id);
        }
    }

    pub(crate) fn handle_gone(&mut self, id: NodeId, refused: bool) {
        self.checkpoint_peer_gone(id);
        if self.driver.is_leader() {
            self.driver.report_unreachable(id);
        }
        if refused {
            self.leader_died(id);
        }
    }

    /// The process of `id` is gone. If it led, the voter of rank k among the others campaigns after k time slots.
    fn leader_died(&mut self, id: NodeId) {
        if self.driver.leader() != Some(id) || self.driver.is_leader() {
            return;
        }
        self.driver.forget_leader();
        let own = self.driver.id();
        let mut rest = self.driver.voters();
        rest.retain(|&voter| voter != id);
        // Who is to go would hand over again: it comes last, and leads if nobody else can.
        rest.sort_by_key(|&voter| !self.keeps_vote(voter));
        if let Some(rank) = rest.iter().position(|&voter| voter == own) {
            let at_ms = self.now.monotonic_ms + rank as u64 * CAMPAIGN_RANK_MS;
            self.evidence.campaign = Some((at_ms, self.driver.term()));
        }
        self.campaign_when_due();
    }

    /// Campaigns when its slot has come and no leader has appeared.
    pub(crate) fn campaign_when_due(&mut self) {
        let Some((at_ms, term)) = self.evidence.campaign else { return };
        if self.driver.leader().is_some() || self.driver.term() != term {
            self.evidence.campaign = None;
        } else if self.now.monotonic_ms >= at_ms
            && !self.driver.is_restoring()
            && !self.is_fenced()
            && !self.is_doubted()
            && !self.is_log_full()
        {
            self.evidence.campaign = None;
            self.driver.campaign();
        }
    }
}
