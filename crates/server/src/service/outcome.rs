//! Updates that wait for the replica, and what their clients are told.

use super::answer::Service;
use super::counters::{Refusal, UpdateCounters, UpdateEnd};
use super::deferred::Refused;
use super::response::ResponseHead;
use super::shares::Place;
use crate::listen::Reply;
use replica::io::{AuditNames, Verdict};
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};
use tsig::Signer;
use wire::Name;
use wire::compose::ede;
use wire::number::Rcode;
use zone::answer::Bare;

/// What a client hears whose update would make the zones larger than a node has memory for.
const NO_MEMORY: &str = "the memory for zones is used up: delete records, or raise zones.memory_bytes_max";

/// What is kept of a request until its outcome is known.
pub(super) struct Pending {
    pub(super) head: ResponseHead,
    pub(super) signer: Signer,
    pub(super) reply: Reply,
    /// The client has shown that its address is its own.
    pub(super) is_proven: bool,
    /// What this node would have said, had the update not to be known to the replica first.
    pub(super) early: Option<Refused>,
    /// Its place among those of its key.
    pub(super) place: Place,
    /// For the audit log, should it be refused.
    pub(super) tried: Tried,
}

/// Who tried what.
pub(super) struct Tried {
    pub(super) key: Name,
    /// None where this node saw no reason to refuse it.
    pub(super) names: AuditNames,
}

/// The updates of one thread.
#[derive(Default)]
pub(crate) struct Waiting {
    pending: HashMap<u64, Pending>,
    /// By age, the oldest first; those that are done are still in it.
    ages: VecDeque<(Instant, u64)>,
    next: u64,
}

impl Waiting {
    #[cfg(test)]
    pub(super) fn ids(&self) -> Vec<u64> {
        self.pending.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }

    /// A number that tells the thread: `index` modulo `threads`.
    pub(super) fn next_id(&mut self, threads: u64, index: u64) -> u64 {
        self.next += 1;
        self.next * threads + index
    }

    pub(super) fn put(&mut self, id: u64, pending: Pending, at: Instant) {
        self.pending.insert(id, pending);
        self.ages.push_back((at, id));
    }

    /// Where the response to an update goes, if it still waits.
    pub(super) fn reply(&self, id: u64) -> Option<Reply> {
        self.pending.get(&id).map(|pending| pending.reply.clone())
    }

    /// What is known of an update, if it still waits.
    pub(super) fn pending(&self, id: u64) -> Option<&Pending> {
        self.pending.get(&id)
    }

    /// Where the response to an update goes, if its client has not shown that it is there.
    pub(super) fn claimed(&self, id: u64) -> Option<Reply> {
        self.pending.get(&id).filter(|pending| !pending.is_proven).map(|pending| pending.reply.clone())
    }

    /// Has the response to an update be no longer than it must.
    pub(super) fn shorten(&mut self, id: u64) {
        if let Some(pending) = self.pending.remove(&id) {
            self.pending.insert(id, Pending { head: pending.head.without_nsid(), ..pending });
        }
    }

    /// Lets go of an update whose client is told nothing.
    pub(super) fn leave(&mut self, id: u64) {
        self.pending.remove(&id);
    }

    /// Tells a client how its update ended.
    pub(super) fn finish(
        &mut self,
        id: u64,
        verdict: Verdict,
        counters: &UpdateCounters,
        service: &Service,
        now_s: u64,
        out: &mut [u8],
    ) {
        // One that was forgotten: its client has been given up.
        let Some(Pending { head, mut signer, reply, early, place, .. }) = self.pending.remove(&id) else { return };
        // Who hears the outcome may send the next one.
        drop(place);
        let counters = counters.of(reply.transport());
        let (mut extended, mut text) = (None, "");
        let (rcode, end) = match verdict {
            Verdict::Answer(Rcode::NOERROR) => (Rcode::NOERROR, Some(UpdateEnd::Done)),
            Verdict::Answer(rcode) => {
                // What the leader refuses it refuses for what the key may: by a rule, or by a limit.
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
                let refused = early.unwrap_or(Refused { rcode: Rcode::REFUSED, reason: Refusal::NotGranted });
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

    /// Gives up what has waited too long: the replica answers sooner, unless it is gone.
    pub(super) fn forget(&mut self, now: Instant, limit: Duration, most: usize) {
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
