//! Elects a new leader after the old one's process died. Each follower acts on its own evidence, in the order of
//! ranks.
//!
//! Evidence is a refused reconnection after the heartbeat connection ended, or an answer with another boot id.
//! Without evidence a follower keeps its leader until the election timeout: peers within the leader's lease would
//! reject the pre-vote, and two followers would campaign at once.

use crate::context::Context;
use crate::io::NodeId;
use crate::limits::CAMPAIGN_RANK_MS;
use crate::propose::keeps_vote;
use std::collections::BTreeMap;

/// What this member knows about its peers' processes.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// Boot ids, by peer.
    boots: BTreeMap<NodeId, u64>,
    /// When to campaign if no leader appears before, and the term in which that was decided.
    campaign: Option<(u64, u64)>,
}

impl Evidence {
    /// Notes the process that a peer runs. Returns whether it ran another one before.
    pub(crate) fn connected(&mut self, id: NodeId, boot_id: u64) -> bool {
        self.boots.insert(id, boot_id).is_some_and(|known| known != boot_id)
    }

    /// The process of `id` died, which led. The voter of rank k among the others campaigns after k time slots.
    pub(crate) fn plan_campaign(&mut self, context: &Context<'_>, id: NodeId) {
        let mut rest = context.driver.voters();
        rest.retain(|&voter| voter != id);
        // A member that is being removed comes last, because it would hand over again. It leads only if no other can.
        rest.sort_by_key(|&voter| !keeps_vote(context, voter));
        if let Some(rank) = rest.iter().position(|&voter| voter == context.own()) {
            let at_ms = context.now_ms() + rank as u64 * CAMPAIGN_RANK_MS;
            self.campaign = Some((at_ms, context.driver.term()));
        }
    }

    /// Whether to campaign now: this member may, its slot has come and no leader has appeared.
    pub(crate) fn takes_campaign(&mut self, context: &Context<'_>, may_campaign: bool) -> bool {
        let Some((at_ms, term)) = self.campaign else { return false };
        let is_over = context.driver.leader().is_some() || context.driver.term() != term;
        let is_due = !is_over && may_campaign && context.now_ms() >= at_ms;
        if is_over || is_due {
            self.campaign = None;
        }
        is_due
    }
}
