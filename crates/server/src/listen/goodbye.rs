//! The end of a node that is told to stop: each connection of a runtime hears of it, so that it can tell its client.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::{Context, Waker};

/// Of the connections of one desk.
#[derive(Default)]
pub(crate) struct Goodbye {
    is_said: Cell<bool>,
    /// The tasks of connections, by their numbers.
    tasks: RefCell<BTreeMap<u64, Waker>>,
    last: Cell<u64>,
}

/// A connection that hears of it, until this is dropped.
pub(super) struct Hears<'g> {
    goodbye: &'g Goodbye,
    number: u64,
}

impl Goodbye {
    /// Has the task of a connection woken when it is said.
    pub(super) fn enter(&self, context: &Context<'_>) -> Hears<'_> {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.tasks.borrow_mut().insert(number, context.waker().clone());
        Hears { goodbye: self, number }
    }

    /// Says it: connections end as soon as they have nothing more to send.
    pub(crate) fn say(&self) {
        self.is_said.set(true);
        self.tasks.borrow().values().for_each(Waker::wake_by_ref);
    }

    pub(super) const fn is_said(&self) -> bool {
        self.is_said.get()
    }

    /// Whether there is no connection left that would hear of it.
    pub(crate) fn is_done(&self) -> bool {
        self.tasks.borrow().is_empty()
    }
}

impl Drop for Hears<'_> {
    fn drop(&mut self) {
        self.goodbye.tasks.borrow_mut().remove(&self.number);
    }
}
