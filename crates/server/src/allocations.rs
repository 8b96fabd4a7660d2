//! Counts the allocations of a thread, for tests.
#![expect(unsafe_code, reason = "an allocator is unsafe by its interface; this one only counts and passes on")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Allocations and reallocations of this thread so far.
pub(crate) fn count() -> u64 {
    COUNT.with(Cell::get)
}

/// Counts the allocations of another allocator.
pub(crate) struct Counting<A>(pub(crate) A);

impl<A> Counting<A> {
    fn one() {
        // While a thread ends, its counter no longer exists.
        let _counted = COUNT.try_with(|count| count.set(count.get() + 1));
    }
}

// SAFETY: every call goes to the inner allocator with the same arguments. Counting allocates nothing.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::one();
        // SAFETY: as the caller promised.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised; `ptr` came from the inner allocator.
        unsafe { self.0.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        Self::one();
        // SAFETY: as the caller promised; `ptr` came from the inner allocator.
        unsafe { self.0.realloc(ptr, layout, new_size) }
    }
}
