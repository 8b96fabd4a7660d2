//! Requests that this node refused. The rate of these lines is limited, so that clients cannot fill the audit log.
//! Clients without a valid key have their own limit.

use super::counters::AuditCounters;
use super::work::{Attempt, AuditWork};
use crate::limits::{
    AUDIT_UNVERIFIED_BURST, AUDIT_UNVERIFIED_PER_SECOND, AUDIT_VERIFIED_BURST, AUDIT_VERIFIED_PER_SECOND,
    AUDIT_WAITING_MAX,
};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The kind of client that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClientKind {
    /// A client without a valid signature.
    Unverified,
    /// A client with a valid key.
    Verified,
}

/// The queue for the lines.
#[derive(Debug)]
pub(crate) struct RefusedQueue {
    pub(super) work: Sender<AuditWork>,
    pub(super) counters: Arc<AuditCounters>,
}

/// Collects refused requests from all threads.
#[derive(Default, Debug)]
pub(crate) struct RefusedLog {
    queue: Mutex<Option<RefusedQueue>>,
    unverified: Mutex<Rate>,
    verified: Mutex<Rate>,
}

impl RefusedLog {
    /// Sets the queue.
    pub(crate) fn connect(&self, queue: RefusedQueue) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue);
    }

    /// Drops the queue, so that the writing thread can end.
    pub(crate) fn disconnect(&self) {
        *self.queue.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Queues a refused request if the rate allows a line. Calls `attempt` only then.
    pub(crate) fn note(&self, kind: ClientKind, attempt: impl FnOnce() -> Attempt) {
        let (rate, per_second, burst) = match kind {
            ClientKind::Unverified => (&self.unverified, AUDIT_UNVERIFIED_PER_SECOND, AUDIT_UNVERIFIED_BURST),
            ClientKind::Verified => (&self.verified, AUDIT_VERIFIED_PER_SECOND, AUDIT_VERIFIED_BURST),
        };
        let taken = rate.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now(), per_second, burst);
        let Some(unsaid) = taken else { return };
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(queue) = queue.as_ref() else { return };
        if queue.counters.waiting.enter(AUDIT_WAITING_MAX) {
            // The thread at the other end lives as long as the node.
            let _ = queue.work.send(AuditWork::Refused(Box::new(attempt()), unsaid));
        }
    }
}

/// A token bucket, and the number of refusals without a line since the last one.
#[derive(Default, Debug)]
struct Rate {
    /// When a token was last taken, and the tokens left then, in thousandths.
    seen: Option<(Instant, u64)>,
    unsaid: u64,
}

impl Rate {
    /// Takes a token. Returns the number of refusals without a line before this one.
    fn take(&mut self, now: Instant, per_second: u32, burst: u32) -> Option<u64> {
        let full = u64::from(burst) * 1_000;
        let left = self.seen.map_or(full, |(at, left)| {
            let millis = u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX);
            millis.saturating_mul(per_second.into()).saturating_add(left).min(full)
        });
        let is_left = left >= 1_000;
        if is_left {
            self.seen = Some((now, left - 1_000));
            return Some(std::mem::take(&mut self.unsaid));
        }
        // Keep the time, so that fractions of a token add up during a flood.
        self.unsaid += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_flood_gets_few_lines_and_the_next_one_counts_the_others() {
        let (mut rate, start) = (Rate::default(), Instant::now());
        let at = |millis| start + Duration::from_millis(millis);
        let burst = (0..1_000).filter(|_| rate.take(at(0), 1, 20).is_some()).count();
        assert_eq!(burst, 20);
        let minute = (0..60_000).filter(|millis| rate.take(at(*millis), 1, 20).is_some()).count();
        assert_eq!(minute, 59);
        assert!(rate.take(at(60_000), 1, 20).is_some_and(|unsaid| unsaid == 999));
        let after_silence = (0..100).filter(|_| rate.take(at(200_000), 1, 20).is_some()).count();
        assert_eq!(after_silence, 20);
    }
}
