//! System calls that std does not have.
#![expect(unsafe_code, reason = "system calls; every block argues its safety")]

use crate::limits::TAP_BUFFER_BYTES;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The file of a namespace that has a name (ip-netns(8)).
pub(crate) fn path_of_namespace(name: &str) -> PathBuf {
    Path::new("/var/run/netns").join(name)
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter(name: &str) -> io::Result<()> {
    let path = path_of_namespace(name);
    let file = File::open(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("the namespace {}: {error}", path.display())))?;
    // SAFETY: setns reads two integers; the descriptor is open until the end of this function.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes a program start in a network namespace.
pub(crate) fn enter_before_exec(command: &mut Command, name: &str) {
    let path = CString::new(path_of_namespace(name).into_os_string().into_encoded_bytes()).ok();
    let in_child = move || {
        let Some(path) = &path else { return Err(io::ErrorKind::InvalidInput.into()) };
        // SAFETY: the path is live and ends with a zero byte. The call is safe between fork and exec
        // (signal-safety(7)).
        let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: setns reads two integers, allocates nothing and takes no lock. The descriptor is open until exec.
        let result = unsafe { libc::setns(file, libc::CLONE_NEWNET) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// Opens a TUN interface in the thread's namespace, nonblocking. Closing the file removes the interface. Packets have
/// no extra header and no offloads.
pub(crate) fn open_tun(name: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    // SAFETY: an ifreq is integers and bytes, for which all zero bytes are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_TUN_EXCL) as libc::c_short;
    // SAFETY: the descriptor is open, and this request reads and writes one ifreq, which is live.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(file) }
}

/// Waits until one of the files is readable, for at most `at_most`.
pub(crate) fn wait_readable(files: [RawFd; 3], at_most: Option<Duration>) {
    let mut waited = files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = at_most.map(|at_most| libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), |timeout| &raw const *timeout);
    // SAFETY: the table is live with its true length, the timeout is live or null; no signal mask. The result is not
    // needed, because the files are nonblocking.
    unsafe { libc::ppoll(waited.as_mut_ptr(), waited.len() as libc::nfds_t, timeout, std::ptr::null()) };
}

/// Waits until a file can be read, or for `at_most`.
pub(crate) fn wait_readable_one(file: &File, at_most: Duration) {
    wait_readable([file.as_raw_fd(), -1, -1], Some(at_most));
}

/// Metadata of a captured packet.
pub(crate) struct PacketInfo {
    /// Its length.
    pub(crate) bytes: usize,
    /// IPv4 or IPv6.
    pub(crate) is_ip: bool,
    /// Sent over loopback: the same packet is captured again when it arrives.
    pub(crate) is_captured_twice: bool,
}

/// Opens a nonblocking socket that captures the packets of one interface, or of all (packet(7)).
pub(crate) fn open_tap(interface: Option<&str>) -> io::Result<File> {
    let index = match interface {
        None => 0,
        Some(name) => {
            let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
            // SAFETY: the name is live and ends with a zero byte.
            match unsafe { libc::if_nametoindex(name.as_ptr()) } {
                0 => return Err(io::Error::last_os_error()),
                index => index as libc::c_int,
            }
        }
    };
    let all = (libc::ETH_P_ALL as u16).to_be();
    let flags = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes three integers.
    let fd = unsafe { libc::socket(libc::AF_PACKET, flags, libc::c_int::from(all)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and nothing else owns it.
    let socket = unsafe { File::from_raw_fd(fd) };
    let buffer = TAP_BUFFER_BYTES;
    // SAFETY: it reads one integer, which is live. The system may grant less; lost packets are counted.
    unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const buffer).cast(),
            size_of_val(&buffer) as _,
        )
    };
    if index != 0 {
        // SAFETY: a sockaddr_ll is integers and bytes, for which all zero bytes are a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        (address.sll_family, address.sll_protocol, address.sll_ifindex) = (libc::AF_PACKET as u16, all, index);
        // SAFETY: it reads one sockaddr_ll, which is live.
        let bound = unsafe { libc::bind(fd, (&raw const address).cast(), size_of_val(&address) as libc::socklen_t) };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(socket)
}

/// Reads the next packet, cut to the size of the buffer.
pub(crate) fn read_tap(socket: &File, buffer: &mut [u8]) -> io::Result<PacketInfo> {
    // SAFETY: a sockaddr_ll is integers and bytes, for which all zero bytes are a value.
    let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&from) as libc::socklen_t;
    let (fd, capacity) = (socket.as_raw_fd(), buffer.len());
    // SAFETY: buffer and address are live with their true lengths.
    let read =
        unsafe { libc::recvfrom(fd, buffer.as_mut_ptr().cast(), capacity, 0, (&raw mut from).cast(), &raw mut length) };
    let bytes = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    let protocol = i32::from(u16::from_be(from.sll_protocol));
    Ok(PacketInfo {
        bytes,
        is_ip: protocol == libc::ETH_P_IP || protocol == libc::ETH_P_IPV6,
        is_captured_twice: from.sll_hatype == libc::ARPHRD_LOOPBACK && from.sll_pkttype == libc::PACKET_OUTGOING,
    })
}

/// Packets that the kernel dropped since the last call.
pub(crate) fn lost_of_tap(socket: &File) -> io::Result<u32> {
    // `struct tpacket_stats`: all packets, and dropped ones.
    let mut counts = [0_u32; 2];
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: it writes two integers, which are live, and how many bytes these are.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(counts[1]) }
}

/// Makes the timers of this thread exact and raises its priority if allowed, because a late relay adds delay.
pub(crate) fn make_timers_exact() {
    const NICE: libc::c_int = -15;
    // SAFETY: this operation takes one integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: it takes three integers; zero is the calling thread (setpriority(2), NOTES).
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Makes a program end with the thread that starts it.
pub(crate) fn kill_with_parent_thread(command: &mut Command) {
    let parent = std::process::id();
    let in_child = move || {
        // SAFETY: both take integers and may be called between fork and exec (signal-safety(7)).
        let result = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        // SAFETY: it takes nothing.
        let is_orphan = unsafe { libc::getppid() } as u32 != parent;
        if result < 0 || is_orphan { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe { command.pre_exec(in_child) };
}

/// Sends SIGTERM.
pub(crate) fn terminate(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 1);
    let pid = pid.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no process has this number"))?;
    // SAFETY: kill takes two integers.
    let result = unsafe { libc::kill(pid, libc::SIGTERM) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
