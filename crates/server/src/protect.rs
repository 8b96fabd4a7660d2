//! What the program does before anything else: its memory goes into no core dump and to no debugger of the same user,
//! and its files are for their owner only.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

/// Set to 1 where a core dump is wanted, to find a bug: it holds every key.
const ALLOW_CORES: &str = "CATAMARAN_ALLOW_CORE_DUMPS";

/// Files get mode 0600 and directories 0700, whatever the caller's umask; certificates are opened to all one by one.
const UMASK: libc::mode_t = 0o077;

/// Does both. Threads and children inherit the latter.
pub(crate) fn protect() {
    // SAFETY: the call has no pointers, and never fails.
    unsafe { libc::umask(UMASK) };
    if std::env::var_os(ALLOW_CORES).is_some_and(|value| value == "1") {
        return;
    }
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call has no pointers. It fails for no value that is 0 or 1 (prctl(2)).
    let is_hidden = unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } == 0;
    // SAFETY: the pointer is to a live rlimit, which the kernel only reads.
    let is_limited = unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) } == 0;
    if !(is_hidden && is_limited) {
        tracing::warn!("core dumps of this process cannot be turned off; they would hold its keys");
    }
}
