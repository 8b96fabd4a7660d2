//! The allowed system calls: those that the daemon uses in the integration tests (`strace -f -c`), and those that its
//! libraries use in rarer cases. None creates processes, namespaces, mounts, keys or kernel code.

use std::ops::RangeInclusive;

/// Calls that are allowed without conditions.
#[rustfmt::skip]
pub(super) const ALLOWED: &[i64] = &[
    // Messages of clients and peers.
    libc::SYS_recvmmsg, libc::SYS_sendmmsg, libc::SYS_recvmsg, libc::SYS_sendmsg, libc::SYS_recvfrom, libc::SYS_sendto,
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_connect, libc::SYS_listen, libc::SYS_shutdown,
    libc::SYS_getsockname, libc::SYS_getpeername, libc::SYS_getsockopt, libc::SYS_setsockopt,
    // Waiting.
    libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_ppoll,
    libc::SYS_pselect6, libc::SYS_eventfd2, libc::SYS_pipe2, libc::SYS_timerfd_create, libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime, libc::SYS_futex, libc::SYS_nanosleep, libc::SYS_clock_nanosleep,
    libc::SYS_restart_syscall,
    // Files.
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64,
    libc::SYS_preadv, libc::SYS_pwritev, libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_openat, libc::SYS_close,
    libc::SYS_close_range, libc::SYS_dup, libc::SYS_dup3, libc::SYS_fcntl, libc::SYS_flock, libc::SYS_fsync,
    libc::SYS_fdatasync, libc::SYS_sync_file_range, libc::SYS_fallocate, libc::SYS_ftruncate, libc::SYS_fadvise64,
    libc::SYS_lseek, libc::SYS_newfstatat, libc::SYS_fstat, libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs,
    libc::SYS_getdents64, libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_mkdirat,
    libc::SYS_unlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_linkat, libc::SYS_fchmod,
    libc::SYS_fchmodat, FCHMODAT2, libc::SYS_umask, libc::SYS_getcwd, libc::SYS_utimensat,
    libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice,
    // Memory.
    libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect, libc::SYS_madvise, libc::SYS_mincore,
    libc::SYS_msync, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_munlock, libc::SYS_brk, libc::SYS_membarrier,
    libc::SYS_mseal, libc::SYS_get_mempolicy,
    // Threads, scheduling, and the process itself.
    libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_set_tid_address, libc::SYS_rseq, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_gettid, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getuid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getegid, libc::SYS_getgroups, libc::SYS_capget, libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity, libc::SYS_sched_setaffinity, libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler, libc::SYS_sched_getparam, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_getpriority, libc::SYS_setpriority, libc::SYS_getcpu,
    libc::SYS_getrlimit, libc::SYS_setrlimit, libc::SYS_getrusage, libc::SYS_times, libc::SYS_sysinfo,
    libc::SYS_uname, libc::SYS_getrandom,
    // Signals to itself.
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending,
    libc::SYS_rt_sigtimedwait, libc::SYS_rt_sigsuspend, libc::SYS_sigaltstack,
    // Clocks.
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_gettimeofday,
];

/// Older calls with the same effects. Newer architectures do not have them.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
pub(super) const ALLOWED_LEGACY: &[i64] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink, libc::SYS_mkdir,
    libc::SYS_rmdir, libc::SYS_unlink, libc::SYS_rename, libc::SYS_link, libc::SYS_chmod, libc::SYS_poll,
    libc::SYS_select, libc::SYS_epoll_wait, libc::SYS_epoll_create, libc::SYS_eventfd, libc::SYS_pipe, libc::SYS_dup2,
    libc::SYS_getdents, libc::SYS_time, libc::SYS_arch_prctl,
];
/// Older calls with the same effects. Newer architectures do not have them.
#[cfg(not(target_arch = "x86_64"))]
pub(super) const ALLOWED_LEGACY: &[i64] = &[];

/// Calls that fail with ENOSYS. A filter cannot check the arguments of `clone3`, so threads are created with `clone`.
/// The others are the futexes of Linux 6.7, and all calls newer than Linux 6.10.
pub(super) const TRIED: [RangeInclusive<i64>; 3] =
    [libc::SYS_clone3..=libc::SYS_clone3, FUTEX_WAKE..=FUTEX_WAKE + 2, NEWER..=NEWER + 48];

/// `fchmodat2`, which the C library tries before `fchmodat`. The number is the same on all machines.
const FCHMODAT2: i64 = 452;

/// `futex_wake`, and after it `futex_wait` and `futex_requeue`: new calls have the same number on all machines.
const FUTEX_WAKE: i64 = 454;
/// The first number that Linux 6.10 does not have.
const NEWER: i64 = 463;
