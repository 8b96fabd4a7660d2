//! An immediate exit.
#![expect(unsafe_code, reason = "a plain system call; the block argues its safety")]

use crate::problem::Exit;

/// Exits immediately: no destructor runs, and all threads end.
pub(crate) fn exit_at_once(exit: Exit) -> ! {
    // SAFETY: the call takes a number, accesses no memory of this process, and does not return.
    unsafe { libc::_exit(i32::from(exit as u8)) }
}
