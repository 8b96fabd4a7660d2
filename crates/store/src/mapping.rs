//! Address space from the operating system: reserved at once, committed in steps.

use std::ptr::NonNull;

/// The operating system did not give the address space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReserveError {
    /// The requested size.
    pub bytes: usize,
    /// The operating system's error number.
    pub os_error: i32,
}

impl std::fmt::Display for ReserveError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot reserve {} bytes of address space (error {})", self.bytes, self.os_error)
    }
}

impl std::error::Error for ReserveError {}

/// The size of a huge page. The arena starts at a multiple of it.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A range of addresses. Nothing in it may be touched before [`Mapping::commit`] has covered it.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    #[cfg(not(miri))]
    reserved: (NonNull<u8>, usize),
}

// SAFETY: a mapping is a range of addresses that belongs to nobody else and stays where it is until it is dropped; its
// methods only change how the kernel backs it. Who may read or write which bytes is decided in `arena.rs`.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method changes the fields after construction.
unsafe impl Sync for Mapping {}

#[cfg(not(miri))]
impl Mapping {
    /// Reserves `bytes` bytes.
    pub(crate) fn reserve(bytes: usize, huge_pages: bool) -> Result<Self, ReserveError> {
        let whole_bytes = bytes + HUGE_PAGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches no memory that exists.
        let reserved = unsafe { libc::mmap(std::ptr::null_mut(), whole_bytes, libc::PROT_NONE, flags, -1, 0) };
        let Some(reserved) = NonNull::new(reserved.cast::<u8>()).filter(|_| reserved != libc::MAP_FAILED) else {
            return Err(ReserveError { bytes, os_error: std::io::Error::last_os_error().raw_os_error().unwrap_or(0) });
        };
        let skip = reserved.align_offset(HUGE_PAGE_BYTES);
        debug_assert!(skip < HUGE_PAGE_BYTES);
        // SAFETY: `skip` is less than the bytes that were asked for on top, so the sum stays in the mapping.
        let base = unsafe { reserved.add(skip) };
        if huge_pages {
            // SAFETY: the range lies in the mapping just made. The advice may fail without harm: pages stay small.
            unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(Self { base, bytes, reserved: (reserved, whole_bytes) })
    }

    /// Makes the bytes `from..to` (multiples of the page size) readable and writable; they are zero. False when the
    /// operating system refuses the memory.
    pub(crate) fn commit(&self, from: usize, to: usize) -> bool {
        assert!(from <= to && to <= self.bytes);
        // SAFETY: the range lies in the mapping, and nothing in it has been handed out yet.
        unsafe {
            libc::mprotect(self.base.as_ptr().add(from).cast(), to - from, libc::PROT_READ | libc::PROT_WRITE) == 0
        }
    }

    /// Returns the memory of `from..to` to the operating system. The bytes are zero at their next use. Rounds inward to
    /// multiples of `page_bytes`, so nothing outside the range changes.
    ///
    /// # Safety
    /// Nothing reads the range meanwhile, and its contents are not needed any more.
    pub(crate) unsafe fn release(&self, from: usize, to: usize, page_bytes: usize) {
        let (from, to) = (from.next_multiple_of(page_bytes), to / page_bytes * page_bytes);
        if from < to {
            assert!(to <= self.bytes);
            // SAFETY: the range lies in the mapping; the caller vouches that its contents are of no use to anyone.
            unsafe { libc::madvise(self.base.as_ptr().add(from).cast(), to - from, libc::MADV_DONTNEED) };
        }
    }
}

#[cfg(not(miri))]
impl Drop for Mapping {
    fn drop(&mut self) {
        #[cfg(asan)]
        asan::unpoison(self.base.as_ptr(), self.bytes);
        // SAFETY: the range is the one that `reserve` mapped. Every view, reader and frozen version holds the mapping
        // by reference or reference count, so none is left.
        unsafe { libc::munmap(self.reserved.0.as_ptr().cast(), self.reserved.1) };
    }
}

/// Miri does not support mmap. There the arena is an ordinary allocation of at most 32 MiB.
#[cfg(miri)]
impl Mapping {
    fn layout(bytes: usize) -> std::alloc::Layout {
        std::alloc::Layout::from_size_align(bytes, 4096).expect("the size is bounded by RESERVE_BYTES_MAX")
    }

    pub(crate) fn reserve(bytes: usize, _huge_pages: bool) -> Result<Self, ReserveError> {
        let bytes = bytes.min(32 << 20);
        // SAFETY: the size is not zero.
        let base = unsafe { std::alloc::alloc_zeroed(Self::layout(bytes)) };
        let base = NonNull::new(base).ok_or(ReserveError { bytes, os_error: 0 })?;
        Ok(Self { base, bytes })
    }

    pub(crate) fn commit(&self, from: usize, to: usize) -> bool {
        assert!(from <= to && to <= self.bytes);
        true
    }

    /// # Safety
    /// No requirements here; the signature is that of the real one.
    pub(crate) unsafe fn release(&self, _from: usize, _to: usize, _page_bytes: usize) {}
}

#[cfg(miri)]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: allocated in `reserve` with the same layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), Self::layout(self.bytes)) };
    }
}

impl Mapping {
    /// The start of the range.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length of the range in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Marks free blocks, except their first word, as out of bounds for AddressSanitizer.
#[cfg(asan)]
pub(crate) mod asan {
    unsafe extern "C" {
        fn __asan_poison_memory_region(address: *const u8, bytes: usize);
        fn __asan_unpoison_memory_region(address: *const u8, bytes: usize);
    }

    pub(crate) fn poison(address: *const u8, bytes: usize) {
        // SAFETY: changes only the sanitizer's own notes about addresses in the arena.
        unsafe { __asan_poison_memory_region(address, bytes) };
    }

    pub(crate) fn unpoison(address: *const u8, bytes: usize) {
        // SAFETY: as above.
        unsafe { __asan_unpoison_memory_region(address, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process whose pages are small resets its connections late when it is killed.
    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn zone_memory_asks_for_huge_pages_by_default() {
        assert!(crate::StoreConfig::default().huge_pages);
        // `hg` among the flags of a mapping: it was advised (Documentation/filesystems/proc.rst).
        let is_advised = |mapping: &Mapping| {
            let maps = std::fs::read_to_string("/proc/self/smaps").expect("a process may read about itself");
            let start = format!("{:x}-", mapping.base().addr());
            let flags = maps.lines().skip_while(|line| !line.starts_with(&start)).find(|line| line.contains("VmFlags"));
            flags.expect("the mapping is listed").split_whitespace().any(|flag| flag == "hg")
        };
        if std::fs::metadata("/sys/kernel/mm/transparent_hugepage").is_err() {
            skip::platform("transparent huge pages");
            return;
        }
        for is_wanted in [true, false] {
            let mapping = Mapping::reserve(8 << 20, is_wanted).expect("some megabytes are to be had");
            assert!(mapping.commit(0, 8 << 20));
            assert_eq!(is_advised(&mapping), is_wanted);
        }
    }

    #[test]
    fn committed_memory_is_zero_and_writable() {
        let mapping = Mapping::reserve(1 << 20, true).expect("a megabyte is to be had");
        assert!(mapping.commit(0, 1 << 16));
        // SAFETY: the bytes were committed, and the mapping is this test's own.
        unsafe {
            let last = mapping.base().add((1 << 16) - 1);
            assert_eq!(last.read(), 0);
            last.write(7);
            assert_eq!(last.read(), 7);
        }
        assert_eq!(mapping.bytes(), 1 << 20);
    }

    #[test]
    #[cfg(not(miri))]
    fn rejection_repeats_the_question() {
        let error = Mapping::reserve(1 << 60, false).err().expect("nobody has so much");
        assert_eq!((error.bytes, error.os_error), (1 << 60, libc::ENOMEM));
    }
}
