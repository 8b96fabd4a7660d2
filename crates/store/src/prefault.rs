//! Touches memory before its first use.

use std::ptr::NonNull;
use std::sync::Weak;
use std::sync::atomic::Ordering;

use crate::mapping::HUGE_PAGE_BYTES;
use crate::reader::Shared;
use crate::vertex::GRANULE_BYTES;

/// Makes the kernel provide the store's memory shortly before its first use, on another thread than the writer's.
///
/// The first access to a huge page waits until the kernel has zeroed all of it: 0.2 ms, or 6 ms on a virtual machine
/// whose hypervisor must find that memory first.
pub struct Prefaulter {
    // Weak, so that it does not keep the memory of a dropped store.
    shared: Weak<Shared>,
    /// The end of the pages touched so far.
    touched: usize,
}

impl Prefaulter {
    pub(crate) fn new(shared: Weak<Shared>) -> Self {
        Self { shared, touched: 0 }
    }

    /// Whether there is a page for [`Self::touch`].
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| self.next(&shared).is_some())
    }

    /// Touches the huge page after the one that was in use at the last publication, unless that was done before.
    /// Returns whether it touched a page.
    ///
    /// The kernel holds a lock meanwhile, so a writer that makes more memory usable must wait. Do not call this on a
    /// thread of idle priority: if it is preempted meanwhile, the writer waits as long as the cores are busy.
    pub fn touch(&mut self) -> bool {
        let Some(shared) = self.shared.upgrade() else { return false };
        let Some(page) = self.next(&shared) else { return false };
        // SAFETY: the page was committed before that was said, and stays so as long as the mapping does.
        unsafe { touch(shared.mapping.base().add(page)) };
        self.touched = page + HUGE_PAGE_BYTES;
        true
    }

    /// The start of the next page to touch.
    fn next(&self, shared: &Shared) -> Option<usize> {
        let filled = shared.tail.load(Ordering::Acquire) * GRANULE_BYTES / HUGE_PAGE_BYTES;
        let page = (filled + 1) * HUGE_PAGE_BYTES;
        let committed = shared.committed.load(Ordering::Relaxed) * GRANULE_BYTES;
        // A store that has not filled one page may never need another.
        let is_due = filled > 0 && page >= self.touched && page + HUGE_PAGE_BYTES <= committed;
        is_due.then_some(page)
    }
}

/// Writes a byte without changing it. The kernel provides the page; a concurrent write is not lost.
///
/// # Safety
/// The address may be written to.
unsafe fn touch(at: NonNull<u8>) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the processor reads and writes the byte in one step, so no concurrent write to it is lost. Rust's atomics
    // cannot do this: they must not be mixed with the writer's plain writes.
    unsafe {
        std::arch::asm!("lock or byte ptr [{at}], 0", at = in(reg) at.as_ptr(), options(nostack));
    }
    // Elsewhere the writer itself touches the page first.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Mapping;
    use crate::qsbr::Domain;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn next_page_is_touched_once() {
        const PAGE: usize = HUGE_PAGE_BYTES / GRANULE_BYTES;
        let mapping = Arc::new(Mapping::reserve(8 * HUGE_PAGE_BYTES, true).expect("some megabytes are to be had"));
        assert!(mapping.commit(0, 4 * HUGE_PAGE_BYTES));
        let (domain, [committed, tail]) = (Arc::new(Domain::new(0)), [0, 0].map(AtomicUsize::new));
        let shared = Arc::new(Shared { mapping, domain, committed, tail });
        let mut prefaulter = Prefaulter::new(Arc::downgrade(&shared));
        shared.tail.store(PAGE, Ordering::Relaxed);
        assert!(!prefaulter.touch(), "nothing is usable");
        shared.committed.store(4 * PAGE, Ordering::Relaxed);
        let steps = [(PAGE - 1, false, 0), (PAGE, true, 3), (2 * PAGE - 1, false, 3), (2 * PAGE + 1, true, 4)];
        for (tail, is_touched, through) in steps {
            shared.tail.store(tail, Ordering::Relaxed);
            assert_eq!(prefaulter.is_due(), is_touched, "with {tail} in use");
            assert_eq!(prefaulter.touch(), is_touched, "with {tail} in use");
            assert_eq!(prefaulter.touched, through * HUGE_PAGE_BYTES, "with {tail} in use");
        }
        shared.tail.store(3 * PAGE, Ordering::Relaxed);
        assert!(!prefaulter.touch(), "what comes next is not usable");
        // SAFETY: the bytes were committed, and the mapping is this test's own.
        assert_eq!(unsafe { shared.mapping.base().add(2 * HUGE_PAGE_BYTES).read() }, 0);
        drop(shared);
        assert!(!prefaulter.touch(), "it keeps nothing");
    }
}
