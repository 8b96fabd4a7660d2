//! The limit of open files of this process.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

/// Raises the limit of open files to the hard limit, and returns it.
pub(crate) fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live rlimit; the kernel writes it and keeps nothing.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the pointer is to a live rlimit; the kernel only reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } == 0 { limit.rlim_cur } else { before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_limit_is_known() {
        let first = raise_file_limit();
        assert!(first > 0);
        assert_eq!(raise_file_limit(), first);
    }
}
