//! Hardening at program start: no core dumps, no debugger of the same user, files readable only by the owner, and no
//! accidental end by signals.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

/// Set to 1 to allow core dumps for debugging. A core dump contains every key.
const ALLOW_CORES: &str = "CATAMARAN_ALLOW_CORE_DUMPS";

/// Files get mode 0600 and directories 0700, with any umask of the caller. Certificates are made readable one by one.
const UMASK: libc::mode_t = 0o077;

/// Sets the umask, and turns off core dumps and debuggers. Children inherit the umask and the limit on core dumps.
pub fn protect() {
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
        tracing::warn!("cannot turn off core dumps of this process; they would contain its keys");
    }
}

/// Ignores SIGUSR1, SIGUSR2 and SIGXFSZ. With `with_hangup` it also ignores SIGHUP, until
/// [`handle`](crate::signals::handle) sets a handler.
pub fn ignore_signals(with_hangup: bool) {
    let hangup = with_hangup.then_some(libc::SIGHUP);
    for number in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGXFSZ].into_iter().chain(hangup) {
        // SAFETY: the call has no pointers, and an ignored signal runs no handler.
        unsafe { libc::signal(number, libc::SIG_IGN) };
    }
}

/// Whether SIGHUP is ignored, as under `nohup`.
pub fn is_hangup_ignored() -> bool {
    // SAFETY: sigaction holds only numbers, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the kernel only writes the old one, to a live variable.
    let done = unsafe { libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut action) };
    done == 0 && action.sa_sigaction == libc::SIG_IGN
}
