//! Draining: when the node stops, each connection of a runtime is woken, so that it can close in order.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::{Context, Waker};

/// The drain of all connections of one handler.
#[derive(Default)]
pub(crate) struct Drain {
    is_started: Cell<bool>,
    /// The tasks of open connections, by number.
    tasks: RefCell<BTreeMap<u64, Waker>>,
    last: Cell<u64>,
}

/// Registers a connection until it is dropped.
pub(super) struct DrainGuard<'d> {
    drain: &'d Drain,
    number: u64,
}

impl Drain {
    /// Registers the task of a connection, which is woken when the drain starts.
    pub(super) fn register(&self, context: &Context<'_>) -> DrainGuard<'_> {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.tasks.borrow_mut().insert(number, context.waker().clone());
        DrainGuard { drain: self, number }
    }

    /// Starts the drain: connections end as soon as they have nothing more to send.
    pub(crate) fn start(&self) {
        self.is_started.set(true);
        self.tasks.borrow().values().for_each(Waker::wake_by_ref);
    }

    pub(super) const fn is_started(&self) -> bool {
        self.is_started.get()
    }

    /// Whether all connections have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.tasks.borrow().is_empty()
    }
}

impl Drop for DrainGuard<'_> {
    fn drop(&mut self) {
        self.drain.tasks.borrow_mut().remove(&self.number);
    }
}
