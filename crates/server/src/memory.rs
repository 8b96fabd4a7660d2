//! Memory that is no longer used, back to the operating system.

// SAFETY: mimalloc, which is this program's allocator (main.rs), has the function; it takes a C `bool`, returns nothing
// and may be called by any thread at any time.
#[expect(unsafe_code, reason = "the allocator's crate has no safe name for it")]
unsafe extern "C" {
    /// Frees what the calling thread's heap and threads that ended hold without need; with `force`, everything, at
    /// once.
    safe fn mi_collect(force: bool);
}

/// Gives back what a large piece of work left behind. The allocator would keep most of it: it returns pages only while
/// it is asked for others, and a server that has loaded its zones asks for few.
pub(crate) fn give_back() {
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
    fn memory_that_was_freed_is_given_back() {
        const PIECES: usize = 200_000;
        let pieces: Vec<Box<[u8]>> = (0..PIECES).map(|number| vec![number as u8; 512].into()).collect();
        let held = resident_bytes();
        drop(pieces);
        give_back();
        let left = resident_bytes();
        assert!(left + PIECES * 512 / 2 < held, "{held} bytes before, {left} after");
    }
}
