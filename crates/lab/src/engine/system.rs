//! System calls that neither std nor a library has a safe name for. With `udp/batch`, the only file of the laboratory
//! with `unsafe`.
#![expect(unsafe_code, reason = "system calls; every block argues its safety")]

use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Places in the kernel's table of files that are made ahead: half a megabyte.
const FILES_ROOM_MAX: u64 = 1 << 16;

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

/// Memory that is in place. Zeroes that were asked for come a page at a time, when they are first touched.
pub(super) fn memory(bytes: usize) -> Vec<u8> {
    vec![0xFF; bytes]
}

/// Lets this thread's timers be on time: without it the kernel may add 50 us.
pub(super) fn tighten_timers() {
    // SAFETY: this operation takes one integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Lets other threads go before this one where there is not time for all: work that is ahead of its time.
pub(crate) fn lower_this_thread() {
    const NICE: libc::c_int = 10;
    // SAFETY: it takes three integers; zero is the calling thread (setpriority(2), NOTES). One that may not be lowered
    // goes on as it is.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
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

/// Asks the kernel to stamp what it receives (`SO_TIMESTAMPNS`), on any socket.
pub(super) fn enable_stamps(socket: &impl AsRawFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Asks the kernel to tell the address that each datagram was sent to, on a socket that is bound to none.
pub(crate) fn tell_destinations(socket: &impl AsRawFd, is_ipv6: bool) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (level, name) =
        if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Says whether what is sent over IPv4 may be fragmented (ip(7), IP_MTU_DISCOVER). What may not needs no
/// identification (RFC 6864 4.1), which on a socket that is not connected the kernel otherwise draws for each datagram
/// from a table that all processes share: a quarter of what sending one costs. What ICMP says of a path is not heeded:
/// only what does not fit the first link is refused.
pub(crate) fn let_fragment(socket: &impl AsRawFd, may_fragment: bool) -> io::Result<()> {
    let value = if may_fragment { libc::IP_PMTUDISC_WANT } else { libc::IP_PMTUDISC_PROBE };
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let (socket, level, name) = (socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe { libc::setsockopt(socket, level, name, (&raw const value).cast(), size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Room for one time stamp with its head.
const CONTROL_BYTES: usize = 64;

/// Reads from a stream like read(2); with it comes when the last segment of what was read arrived, on the wall clock,
/// where the kernel stamps them.
pub(super) fn read_stamped(socket: &impl AsRawFd, into: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    #[repr(C, align(8))]
    struct Control([u8; CONTROL_BYTES]);
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr is integers and pointers, for which all zero bytes are a value.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header points at one buffer and one control buffer, both live, borrowed mutably and of the lengths
    // that are given; no name.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let length = header.msg_controllen.min(CONTROL_BYTES);
    Ok((count as usize, stamp_of(&control.0[..length])))
}

/// The time stamp in control data: length of all (a word), level, type, seconds, nanoseconds.
pub(super) fn stamp_of(control: &[u8]) -> Option<Duration> {
    let word = |at: usize| Some(i64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
    if (half(8)?, half(12)?) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    Some(Duration::new(u64::try_from(word(16)?).ok()?, u32::try_from(word(24)?).ok()?))
}

/// Has connect(2) choose a port from the first to the last of these (`IP_LOCAL_PORT_RANGE` of ip(7), Linux 6.3).
pub(super) fn choose_ports(socket: &Socket, (first, last): (u16, u16)) -> io::Result<()> {
    /// Not in libc's list.
    const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
    let range = u32::from(last) << 16 | u32::from(first);
    // SAFETY: the value is a live integer of 32 bits and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            IP_LOCAL_PORT_RANGE,
            (&raw const range).cast(),
            size_of::<u32>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the kernel make room for so many open files at once. Each time that its table grows while other threads run,
/// the one that opened a file stands still for up to thirty milliseconds.
fn make_room_for_files(count: u64) {
    let highest = count.min(FILES_ROOM_MAX).saturating_sub(1) as libc::c_int;
    // SAFETY: it takes integers; the descriptor that it gives belongs to nobody else and is closed at once.
    unsafe {
        let descriptor = libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, highest);
        if descriptor >= 0 {
            libc::close(descriptor);
        }
    }
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
            limit = raised;
        }
    }
    make_room_for_files(limit.rlim_cur);
    limit.rlim_cur
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::{SystemTime, UNIX_EPOCH};

    fn wall() -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
    }

    #[test]
    fn kernel_timestamps_are_arrival_times() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        enable_stamps(&near).unwrap();
        let mut bytes = [0; 16];
        // The kernel begins to stamp a little after it was asked to.
        let found = (0..50).find_map(|_| {
            let before = wall();
            far.write_all(b"answer").unwrap();
            let written = wall();
            std::thread::sleep(Duration::from_millis(30));
            let (count, came) = read_stamped(&near, &mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"answer");
            came.map(|came| (before, came, written))
        });
        let (before, came, written) = found.expect("a stamp");
        assert!((before..written + Duration::from_millis(15)).contains(&came), "{before:?} {came:?} {written:?}");
        assert_eq!(read_stamped(&near, &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(far);
        assert_eq!(read_stamped(&near, &mut bytes).unwrap(), (0, None));
    }
}
