//! Updates that wait for the replica, and the responses to their outcomes.

use crate::answer::context::Service;
use crate::answer::counters::{Refusal, Refused, UpdateCounters, UpdateEnd};
use crate::answer::response::ResponseHead;
use crate::listen::Reply;
use crate::update_queue::fair_quota::QuotaPermit;
use replica::io::{AuditNames, Verdict};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use tsig::Signer;
use wire::Name;
use wire::compose::ede;
use wire::number::Rcode;
use zone::answer::Bare;

/// The text for an update that would exceed the memory for zones.
const NO_MEMORY: &str = "the memory for zones is used up: delete records, or raise zones.memory_bytes_max";

/// A request whose outcome is not known yet.
pub(super) struct PendingUpdate {
    pub(super) head: ResponseHead,
    pub(super) signer: Signer,
    pub(super) reply: Reply,
    /// The client has proven its address.
    pub(super) is_proven: bool,
    /// The refusal of this node, unless the replica has executed the update before.
    pub(super) local_refusal: Option<Refused>,
    /// Its permit in the quota of its key.
    pub(super) permit: QuotaPermit,
    /// For the audit log, if it is refused.
    pub(super) audit: AuditFields,
}

/// What the audit log needs.
pub(super) struct AuditFields {
    pub(super) key: Name,
    /// Empty if this node saw no reason to refuse it.
    pub(super) names: AuditNames,
}

/// The updates of one thread.
#[derive(Default)]
pub(crate) struct PendingUpdates {
    pending: HashMap<u64, PendingUpdate>,
    /// By age, the oldest first. Finished updates stay in it until they expire.
    ages: VecDeque<(Instant, u64)>,
    next: u64,
}

impl PendingUpdates {
    #[cfg(test)]
    pub(super) fn ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// A new id; it equals `index` modulo `threads`.
    pub(super) fn next_id(&mut self, threads: u64, index: u64) -> u64 {
        self.next += 1;
        self.next * threads + index
    }

    pub(super) fn put(&mut self, id: u64, pending: PendingUpdate, at: Instant) {
        self.pending.insert(id, pending);
        self.ages.push_back((at, id));
    }

    /// The destination of the response to an update, if the update still waits.
    pub(super) fn reply(&self, id: u64) -> Option<Reply> {
        self.pending.get(&id).map(|pending| pending.reply.clone())
    }

    /// An update, if it still waits.
    pub(super) fn pending(&self, id: u64) -> Option<&PendingUpdate> {
        self.pending.get(&id)
    }

    /// The destination of the response, if the client has not proven its address.
    pub(super) fn unproven_reply(&self, id: u64) -> Option<Reply> {
        self.pending.get(&id).filter(|pending| !pending.is_proven).map(|pending| pending.reply.clone())
    }

    /// Makes the response as short as possible.
    pub(super) fn shorten(&mut self, id: u64) {
        if let Some(pending) = self.pending.remove(&id) {
            self.pending.insert(id, PendingUpdate { head: pending.head.without_nsid(), ..pending });
        }
    }

    /// Removes an update without a response.
    pub(super) fn remove(&mut self, id: u64) {
        self.pending.remove(&id);
    }

    /// Sends the outcome of an update to its client.
    pub(super) fn finish(
        &mut self,
        id: u64,
        verdict: Verdict,
        counters: &UpdateCounters,
        service: &Service,
        now_s: u64,
        out: &mut [u8],
    ) {
        // It expired before.
        let Some(PendingUpdate { head, mut signer, reply, local_refusal, permit, .. }) = self.pending.remove(&id)
        else {
            return;
        };
        // The client may send the next update once it has the outcome.
        drop(permit);
        let counters = counters.of(reply.transport());
        let (mut extended, mut text) = (None, "");
        let (rcode, end) = match verdict {
            Verdict::Answer(Rcode::NOERROR) => (Rcode::NOERROR, Some(UpdateEnd::Done)),
            Verdict::Answer(rcode) => {
                // The leader refused it because of a rule or a limit of the key.
                extended = (rcode == Rcode::REFUSED).then_some(ede::PROHIBITED);
                (rcode, Some(UpdateEnd::Failed))
            }
            Verdict::BadTime => {
                signer.set_bad_time();
                (Rcode::NOTAUTH, Some(UpdateEnd::BadTime))
            }
            Verdict::Limited(limit) => {
                (extended, text) = (Some(ede::PROHIBITED), limit.text());
                (Rcode::REFUSED, Some(UpdateEnd::Failed))
            }
            Verdict::NotProposed => (Rcode::SERVFAIL, Some(UpdateEnd::NotProposed)),
            Verdict::NoMemory => {
                (extended, text) = (Some(ede::OTHER), NO_MEMORY);
                (Rcode::SERVFAIL, Some(UpdateEnd::NotProposed))
            }
            Verdict::Refused => {
                let refused = local_refusal.unwrap_or(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted });
                counters.refuse_for(refused.reason);
                extended = refused.reason.extended();
                (refused.rcode, None)
            }
            Verdict::Unknown => {
                counters.update_ended(UpdateEnd::Unknown);
                return reply.give_up();
            }
        };
        if let Some(end) = end {
            counters.update_ended(end);
        }
        counters.response(rcode);
        let bare = Bare { rcode, extended, text, ..Bare::default() };
        match head.compose(bare, service, Some(&signer), now_s, out) {
            Some(len) => reply.send(out[..len].to_vec()),
            None => reply.give_up(),
        }
    }

    /// Removes updates that waited too long. The replica answers sooner, unless it is gone.
    pub(super) fn expire(&mut self, now: Instant, limit: Duration, most: usize) {
        for _ in 0..most {
            let Some((at, id)) = self.ages.front().copied() else { return };
            let is_done = !self.pending.contains_key(&id);
            if !is_done && now.saturating_duration_since(at) < limit {
                break;
            }
            self.ages.pop_front();
            if let Some(pending) = self.pending.remove(&id) {
                pending.reply.give_up();
            }
        }
    }
}
