//! System calls without a safe wrapper in std or another crate. Only this file and `batch` of this crate have
//! `unsafe` code.
#![expect(unsafe_code, reason = "system calls; every block argues its safety")]

use socket2::Socket;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Maximum number of open files for which the kernel's table is allocated in advance: 0.5 MB.
const FILES_ROOM_MAX: u64 = 1 << 16;

/// Waits until a socket is ready, for at most `at_most`.
pub fn wait(sockets: &mut [libc::pollfd], at_most: Duration) {
    let timeout = libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
    };
    // SAFETY: the table is live and its length is correct, the timeout is live, and there is no signal mask. The result
    // is not needed, because sockets are read afterwards without blocking.
    unsafe { libc::ppoll(sockets.as_mut_ptr(), sockets.len() as libc::nfds_t, &raw const timeout, std::ptr::null()) };
}

/// Allocates memory and touches it. Zeroed memory would be mapped page by page on first access.
#[must_use]
pub fn memory(bytes: usize) -> Vec<u8> {
    vec![0xFF; bytes]
}

/// Size of a page of memory.
#[must_use]
pub fn page_bytes() -> u64 {
    /// That of nearly all machines, if the kernel does not say.
    const USUAL: u64 = 4_096;
    // SAFETY: the call takes one integer and no pointer.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(USUAL)
}

/// Makes this thread's timers precise. By default the kernel may add 50 us.
pub fn tighten_timers() {
    // SAFETY: this operation takes one integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Lowers the priority of this thread, for work ahead of time.
pub fn lower_this_thread() {
    const NICE: libc::c_int = 10;
    // SAFETY: the call takes three integers. Zero is the calling thread (setpriority(2), NOTES). If it fails, the
    // thread keeps its priority.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Lets connect(2) choose the local port, which then only has to be unique for that server.
pub fn leave_port_to_connect(socket: &Socket) -> io::Result<()> {
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

/// Enables kernel timestamps for received data (`SO_TIMESTAMPNS`).
pub fn enable_stamps(socket: &impl AsRawFd) -> io::Result<()> {
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

/// Makes the kernel report the destination address of each datagram, on an unconnected socket.
pub fn enable_destinations(socket: &impl AsRawFd, is_ipv6: bool) -> io::Result<()> {
    let on: libc::c_int = 1;
    let (level, name) =
        if is_ipv6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sets whether IPv4 datagrams may be fragmented (IP_MTU_DISCOVER of ip(7)). Unfragmentable ones need no identification
/// (RFC 6864 4.1). On an unconnected socket, the kernel draws identifications from a shared table, at a quarter of the
/// cost of sending. Path MTU messages are ignored: only datagrams too large for the first link are refused.
pub fn set_fragmentation(socket: &impl AsRawFd, may_fragment: bool) -> io::Result<()> {
    let value = if may_fragment { libc::IP_PMTUDISC_WANT } else { libc::IP_PMTUDISC_PROBE };
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let (socket, level, name) = (socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe { libc::setsockopt(socket, level, name, (&raw const value).cast(), size) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Room for a timestamp with its header.
const CONTROL_BYTES: usize = 64;

/// Reads from a stream like read(2). Also returns when the last segment arrived, on the wall clock, if the kernel
/// timestamps it.
pub fn read_stamped(socket: &impl AsRawFd, into: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    #[repr(C, align(8))]
    struct Control([u8; CONTROL_BYTES]);
    let mut control = Control([0; CONTROL_BYTES]);
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr has only integers and pointers, for which all zero bytes are valid.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = CONTROL_BYTES as _;
    // SAFETY: the header points to one buffer and one control buffer. Both are live, mutably borrowed, and have the
    // given lengths. There is no name.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) };
    if count < 0 {
        return Err(io::Error::last_os_error());
    }
    let length = header.msg_controllen.min(CONTROL_BYTES);
    Ok((count as usize, stamp_of(&control.0[..length])))
}

/// The timestamp in control data: length of all (a word), level, type, seconds, nanoseconds.
#[must_use]
pub fn stamp_of(control: &[u8]) -> Option<Duration> {
    let word = |at: usize| Some(i64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
    let half = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
    if (half(8)?, half(12)?) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    Some(Duration::new(u64::try_from(word(16)?).ok()?, u32::try_from(word(24)?).ok()?))
}

/// Makes connect(2) choose a port in this range (`IP_LOCAL_PORT_RANGE` of ip(7), Linux 6.3).
pub fn choose_ports(socket: &Socket, (first, last): (u16, u16)) -> io::Result<()> {
    /// libc does not define it.
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

/// Makes the kernel allocate room for this many open files. Otherwise its table grows during the run, which stalls a
/// thread for up to 30 ms.
fn reserve_file_table(count: u64) {
    let highest = count.min(FILES_ROOM_MAX).saturating_sub(1) as libc::c_int;
    // SAFETY: the calls take integers. The new descriptor has no other owner and is closed at once.
    unsafe {
        let descriptor = libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, highest);
        if descriptor >= 0 {
            libc::close(descriptor);
        }
    }
}

/// Raises the limit of open files to the hard limit, and returns it.
#[must_use]
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is live, and the kernel fills it.
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
    reserve_file_table(limit.rlim_cur);
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
        // The kernel starts timestamping a little later.
        let found = (0..50).find_map(|_| {
            let before = wall();
            far.write_all(b"answer").unwrap();
            let written = wall();
            std::thread::sleep(Duration::from_millis(30));
            let (count, arrival_stamp) = read_stamped(&near, &mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"answer");
            arrival_stamp.map(|arrival_stamp| (before, arrival_stamp, written))
        });
        let (before, arrival_stamp, written) = found.expect("a stamp");
        assert!(
            (before..written + Duration::from_millis(15)).contains(&arrival_stamp),
            "{before:?} {arrival_stamp:?} {written:?}"
        );
        assert_eq!(read_stamped(&near, &mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(far);
        assert_eq!(read_stamped(&near, &mut bytes).unwrap(), (0, None));
    }
}
