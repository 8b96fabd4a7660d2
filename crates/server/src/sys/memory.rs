//! Returns unused memory to the operating system.

// SAFETY: mimalloc, which is this program's allocator (main.rs), has the function; it takes a C `bool`, returns nothing
// and may be called by any thread at any time.
#[expect(unsafe_code, reason = "the allocator's crate has no safe name for it")]
unsafe extern "C" {
    /// Frees unused memory of the calling thread's heap and of ended threads; with `force`, all of it at once.
    safe fn mi_collect(force: bool);
}

/// Returns the memory that a large task freed. On its own the allocator returns pages only while it allocates, and a
/// server that has loaded its zones allocates little.
pub(crate) fn trim() {
    mi_collect(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident_bytes() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn trim_returns_freed_memory() {
        const COUNT: usize = 200_000;
        let buffers: Vec<Box<[u8]>> = (0..COUNT).map(|number| vec![number as u8; 512].into()).collect();
        let before = resident_bytes();
        drop(buffers);
        trim();
        let left = resident_bytes();
        assert!(left + COUNT * 512 / 2 < before, "{before} bytes before, {left} after");
    }
}
