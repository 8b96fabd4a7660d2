//! The user of this process.
#![expect(unsafe_code, reason = "a plain system call; the block argues its safety")]

/// The effective user. The owner of `/proc/self` is no substitute: it is root if core dumps are disabled.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Hint for a file that this process has no permission to access.
#[must_use]
pub fn access_hint(verb: &str) -> String {
    let user = effective_user();
    format!("let user {user} {verb} it; see the owners and modes of the file and of the directories above it")
}
