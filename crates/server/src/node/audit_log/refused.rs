//! Attempts that this node refused: who tried what. Their lines are few a second, so that nobody fills the audit log
//! with them, and those of clients without a right key take nothing from the others.

use super::{AuditCounters, AuditWork};
use crate::limits::{
    AUDIT_KEYS_BURST, AUDIT_KEYS_PER_SECOND, AUDIT_STRANGERS_BURST, AUDIT_STRANGERS_PER_SECOND, AUDIT_WAITING_MAX,
};
use replica::io::AuditNames;
use std::net::IpAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use wire::Name;

/// What was refused.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) time_ms: u64,
    /// Why, in a word that does not change.
    pub(crate) reason: &'static str,
    /// `update` or `transfer`.
    pub(crate) what: &'static str,
    /// The key that was named; a stranger may name any.
    pub(crate) key: Option<Name>,
    pub(crate) source: IpAddr,
    pub(crate) zone: Option<Name>,
    pub(crate) names: AuditNames,
}

/// Who is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// A client without a signature that is right.
    Stranger,
    /// One that has a key.
    Key,
}

/// Where lines go.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(super) work: Sender<AuditWork>,
    pub(super) counters: Arc<AuditCounters>,
}

/// Takes attempts from all threads that refuse.
#[derive(Default, Debug)]
pub(crate) struct RefusedLog {
    sink: Mutex<Option<Sink>>,
    strangers: Mutex<Rate>,
    keys: Mutex<Rate>,
}

impl RefusedLog {
    /// From now on lines go there.
    pub(crate) fn connect(&self, sink: Sink) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }

    /// Lines are written no more: the thread that writes them may end.
    pub(crate) fn disconnect(&self) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Writes an attempt down, if it is time for another line; `attempt` is asked only then.
    pub(crate) fn note(&self, who: Who, attempt: impl FnOnce() -> Attempt) {
        let (rate, per_second, burst) = match who {
            Who::Stranger => (&self.strangers, AUDIT_STRANGERS_PER_SECOND, AUDIT_STRANGERS_BURST),
            Who::Key => (&self.keys, AUDIT_KEYS_PER_SECOND, AUDIT_KEYS_BURST),
        };
        let taken = rate.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now(), per_second, burst);
        let Some(unsaid) = taken else { return };
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sink) = sink.as_ref() else { return };
        if sink.counters.waiting.enter(AUDIT_WAITING_MAX) {
            // The thread at the other end lives as long as the node.
            let _ = sink.work.send(AuditWork::Refused(Box::new(attempt()), unsaid));
        }
    }
}

/// A token bucket, and how many found it empty since a token was taken.
#[derive(Default, Debug)]
struct Rate {
    /// When the bucket was last looked at, and the lines that were left then, in thousandths.
    seen: Option<(Instant, u64)>,
    unsaid: u64,
}

impl Rate {
    /// How many went without a line before this one, which gets one.
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
        // The time of the last look stays: a flood must not keep parts of a token from coming together.
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
