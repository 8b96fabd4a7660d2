//! Publication and quiescent-state-based reclamation: when may the writer reuse what a published version let go?
//!
//! The writer publishes a root under an epoch, which grows. Each reader has a slot. In it stands the epoch that the
//! reader saw when it last had no root in its hands, or that it is offline. What was let go under epoch `E` may be
//! reused once every slot says `E` or later, or offline.
//!
//! ```text
//!   writer   root = R; epoch = E;              fence;  read the slots; reuse
//!   reader   e = epoch; slot = e; [fence if it was offline]; read the root
//! ```
//!
//! - A slot that says `E` or later: its reader read the epoch that was stored after the root, so its root is `R` or
//!   newer, and what it did with older roots came before it stored the slot, which the writer read (acquire).
//! - A slot that says offline though its reader is coming online: of the two fences one is first. If the reader's is,
//!   the writer sees the slot. If the writer's is, the reader sees `R` or newer.
//!
//! `tests/loom.rs` checks this under every interleaving of a small program.

use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
use std::sync::{Mutex, MutexGuard};

use std::sync::PoisonError;

/// What a slot says while its reader holds no root and promises nothing.
const OFFLINE: u64 = u64::MAX;

/// One reader's word to the writer, on a cache line pair of its own.
#[repr(align(128))]
struct Slot {
    seen: AtomicU64,
}

type Slots = Vec<Arc<Slot>>;

/// The published root and who reads it.
pub struct Domain {
    root: AtomicU32,
    epoch: AtomicU64,
    /// Locked when a reader comes or goes and when the writer looks for what it may reuse; never on the way to a root.
    slots: Mutex<Slots>,
}

/// A reader's place in a [`Domain`].
pub struct Registered {
    domain: Arc<Domain>,
    slot: Arc<Slot>,
    online: bool,
}

impl Domain {
    /// Root `root`, published under epoch 0.
    pub fn new(root: u32) -> Self {
        Self { root: AtomicU32::new(root), epoch: AtomicU64::new(0), slots: Mutex::new(Vec::new()) }
    }

    /// Makes `root` the one that readers find. `epoch` is greater than all before. Only the writer calls this.
    pub fn publish(&self, root: u32, epoch: u64) {
        self.root.store(root, Ordering::Release);
        self.epoch.store(epoch, Ordering::Release);
    }

    /// What was let go under this epoch or an earlier one may be reused. Only the writer calls this.
    pub fn safe_epoch(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.slots().iter().map(|slot| slot.seen.load(Ordering::Acquire)).min().unwrap_or(OFFLINE)
    }

    /// A new reader, offline.
    pub fn register(self: &Arc<Self>) -> Registered {
        self.register_as(OFFLINE)
    }

    /// A new reader that holds the published root until it is dropped. Nothing may be
    /// published or reused meanwhile, so the slot needs no fence.
    pub fn hold(self: &Arc<Self>) -> (Registered, u32) {
        let mut registered = self.register_as(self.epoch.load(Ordering::Relaxed));
        registered.online = true;
        (registered, self.root.load(Ordering::Relaxed))
    }

    /// Number of readers, online or not, with those that hold a root for good.
    pub fn reader_count(&self) -> usize {
        self.slots().len()
    }

    fn register_as(self: &Arc<Self>, seen: u64) -> Registered {
        let slot = Arc::new(Slot { seen: AtomicU64::new(seen) });
        self.slots().push(Arc::clone(&slot));
        Registered { domain: Arc::clone(self), slot, online: false }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // The list is whole between any two statements, so a panic elsewhere leaves nothing half-done.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registered {
    /// Says that no root is held any more, and takes the newest one.
    #[inline]
    pub fn pin(&mut self) -> u32 {
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        // Release: what was done with the root before happens before the writer reads the slot.
        self.slot.seen.store(epoch, Ordering::Release);
        if !self.online {
            // Coming online: the store must be seen before the root is read (the module's second argument).
            fence(Ordering::SeqCst);
            self.online = true;
        }
        self.domain.root.load(Ordering::Acquire)
    }

    /// Says that no root is held and none will be before the next [`Registered::pin`].
    pub fn offline(&mut self) {
        self.slot.seen.store(OFFLINE, Ordering::Release);
        self.online = false;
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.offline();
        self.domain.slots().retain(|slot| !Arc::ptr_eq(slot, &self.slot));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slowest_reader_limits_reclaiming() {
        let domain = Arc::new(Domain::new(1));
        assert_eq!(domain.safe_epoch(), OFFLINE);
        let mut quick = domain.register();
        let mut slow = domain.register();
        assert_eq!(domain.safe_epoch(), OFFLINE);
        assert_eq!((quick.pin(), slow.pin()), (1, 1));
        domain.publish(2, 5);
        assert_eq!(domain.safe_epoch(), 0);
        assert_eq!(quick.pin(), 2);
        assert_eq!(domain.safe_epoch(), 0);
        slow.offline();
        assert_eq!(domain.safe_epoch(), 5);
        let (held, root) = domain.hold();
        domain.publish(3, 6);
        assert_eq!((root, quick.pin(), domain.safe_epoch()), (2, 3, 5));
        drop(held);
        assert_eq!((domain.safe_epoch(), domain.reader_count()), (6, 2));
    }
}
