//! Publication and quiescent-state-based reclamation: decides when the writer may reuse retired blocks.
//!
//! The writer publishes each root under a growing epoch. Each reader has a slot. It contains the epoch that the reader
//! saw when it last held no root, or says that the reader is offline. Blocks retired under epoch `E` may be reused once
//! every slot says `E` or later, or offline.
//!
//! ```text
//!   writer   root = R; epoch = E;              fence;  read the slots; reuse
//!   reader   e = epoch; slot = e; [fence if it was offline]; read the root
//! ```
//!
//! - A slot says `E` or later: its reader read the epoch, which was stored after the root, so its root is `R` or newer.
//!   Its reads of older roots came before it stored the slot, which the writer read (acquire).
//! - A slot says offline, but its reader is coming online: one of the two fences is first. If the reader's is,
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

/// The value of a slot whose reader holds no root.
const OFFLINE: u64 = u64::MAX;

/// The slot of one reader, on its own pair of cache lines.
#[repr(align(128))]
struct Slot {
    epoch: AtomicU64,
}

type Slots = Vec<Arc<Slot>>;

/// The published root, and the slots of its readers.
pub struct Domain {
    root: AtomicU32,
    epoch: AtomicU64,
    /// Locked when a reader is added or removed, and when the writer searches for reusable blocks. Never locked by
    /// reads.
    slots: Mutex<Slots>,
}

/// A reader's place in a [`Domain`].
pub struct RegisteredReader {
    domain: Arc<Domain>,
    slot: Arc<Slot>,
    online: bool,
}

impl Domain {
    /// Root `root`, published under epoch 0.
    pub fn new(root: u32) -> Self {
        Self { root: AtomicU32::new(root), epoch: AtomicU64::new(0), slots: Mutex::new(Vec::new()) }
    }

    /// Publishes `root`. `epoch` must be greater than all before. Only the writer calls this.
    pub fn publish(&self, root: u32, epoch: u64) {
        self.root.store(root, Ordering::Release);
        self.epoch.store(epoch, Ordering::Release);
    }

    /// Blocks retired under this epoch or an earlier one may be reused. Only the writer calls this.
    pub fn safe_epoch(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.slots().iter().map(|slot| slot.epoch.load(Ordering::Acquire)).min().unwrap_or(OFFLINE)
    }

    /// A new reader, offline.
    pub fn register(self: &Arc<Self>) -> RegisteredReader {
        self.register_as(OFFLINE)
    }

    /// A new reader that holds the published root until it is dropped. Nothing may be
    /// published or reused meanwhile, so the slot needs no fence.
    pub fn register_and_pin(self: &Arc<Self>) -> (RegisteredReader, u32) {
        let mut registered = self.register_as(self.epoch.load(Ordering::Relaxed));
        registered.online = true;
        (registered, self.root.load(Ordering::Relaxed))
    }

    /// Number of readers, online or not, including frozen versions.
    pub fn reader_count(&self) -> usize {
        self.slots().len()
    }

    fn register_as(self: &Arc<Self>, epoch: u64) -> RegisteredReader {
        let slot = Arc::new(Slot { epoch: AtomicU64::new(epoch) });
        self.slots().push(Arc::clone(&slot));
        RegisteredReader { domain: Arc::clone(self), slot, online: false }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        // No statement leaves the list inconsistent, so a poisoned lock is harmless.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegisteredReader {
    /// Releases the held root, and takes the newest one.
    #[inline]
    pub fn pin(&mut self) -> u32 {
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        // Release: reads of the previous root happen before the writer reads the slot.
        self.slot.epoch.store(epoch, Ordering::Release);
        if !self.online {
            // Coming online: the store must be seen before the root is read (the module's second argument).
            fence(Ordering::SeqCst);
            self.online = true;
        }
        self.domain.root.load(Ordering::Acquire)
    }

    /// Releases the held root until the next [`RegisteredReader::pin`].
    pub fn offline(&mut self) {
        self.slot.epoch.store(OFFLINE, Ordering::Release);
        self.online = false;
    }
}

impl Drop for RegisteredReader {
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
        let (registered, root) = domain.register_and_pin();
        domain.publish(3, 6);
        assert_eq!((root, quick.pin(), domain.safe_epoch()), (2, 3, 5));
        drop(registered);
        assert_eq!((domain.safe_epoch(), domain.reader_count()), (6, 2));
    }
}
