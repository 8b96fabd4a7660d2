//! System calls that neither std nor a library has a safe name for. With `udp/batch`, the only file of the laboratory
//! with `unsafe`.
#![expect(unsafe_code, reason = "system calls; every block argues its safety")]

use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Waits until one of the sockets has something, or for `at_most`.
pub(super) fn wait(sockets: &mut [libc::pollfd], at_most: Duration) {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
    };
    // SAFETY: the table is live with its true length, the timeout is live; no signal mask. What it returns is not
    // needed: sockets are read without waiting afterwards.
    unsafe { libc::ppoll(sockets.as_mut_ptr(), sockets.len() as libc::nfds_t, &raw const timeout, std::ptr::null()) };
}

/// Lets this thread's timers be on time: without it the kernel may add 50 us.
pub(super) fn tighten_timers() {
    // SAFETY: this operation takes one integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Leaves the choice of a local port to connect(2), which only needs one that is free towards that server.
pub(super) fn leave_port_to_connect(socket: &Socket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets this process open as many files as the system allows it at all; gives how many.
#[must_use]
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live; the kernel fills it.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } < 0 {
        return 0;
    }
    if limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        // SAFETY: the structure is live and only read.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            return raised.rlim_cur;
        }
    }
    limit.rlim_cur
}
