//! System calls that std has no name for.
#![expect(unsafe_code, reason = "system calls; every block argues its safety")]

use crate::limits::TAP_BUFFER_BYTES;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Puts the calling thread into a network namespace.
pub(crate) fn enter(name: &str) -> io::Result<()> {
    let path = Path::new("/var/run/netns").join(name);
    let file = File::open(&path)
        .map_err(|error| io::Error::new(error.kind(), format!("the namespace {}: {error}", path.display())))?;
    // SAFETY: setns reads two integers; the descriptor is open until the end of this function.
    let result = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Opens an interface of the calling thread's namespace whose packets this process reads and writes, without waiting;
/// it goes with the file. Packets come as they are: no head before them, no work left to hardware.
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

/// Waits until one of the files can be read, or for `at_most`; without it, for as long as it takes.
pub(crate) fn wait_readable(files: [RawFd; 3], at_most: Option<Duration>) {
    let mut waited = files.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let timeout = at_most.map(|at_most| libc::timespec {
        tv_sec: at_most.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(at_most.subsec_nanos() as i32),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), |timeout| &raw const *timeout);
    // SAFETY: the table is live with its true length, the timeout is live or null; no signal mask. What it returns is
    // not needed: files are read without waiting afterwards.
    unsafe { libc::ppoll(waited.as_mut_ptr(), waited.len() as libc::nfds_t, timeout, std::ptr::null()) };
}

/// Waits until a file can be read, or for `at_most`.
pub(crate) fn wait_readable_one(file: &File, at_most: Duration) {
    wait_readable([file.as_raw_fd(), -1, -1], Some(at_most));
}

/// What a socket for packets told of one.
pub(crate) struct Passed {
    /// How long it is.
    pub(crate) bytes: usize,
    /// IPv4 or IPv6.
    pub(crate) is_ip: bool,
    /// It leaves over loopback, so it will be told again when it arrives.
    pub(crate) is_twice: bool,
}

/// Opens a socket that is told of every packet of an interface, or of all, without waiting (packet(7)).
pub(crate) fn open_tap(interface: Option<&str>) -> io::Result<File> {
    let index = match interface {
        None => 0,
        Some(name) => {
            let name = std::ffi::CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
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
    // SAFETY: the descriptor was just opened, and nobody else has it.
    let socket = unsafe { File::from_raw_fd(fd) };
    let buffer = TAP_BUFFER_BYTES;
    // SAFETY: it reads one integer, which is live. As much as the system grants: what is lost is counted.
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

/// Reads the next packet, as far as there is room.
pub(crate) fn read_tap(socket: &File, buffer: &mut [u8]) -> io::Result<Passed> {
    // SAFETY: a sockaddr_ll is integers and bytes, for which all zero bytes are a value.
    let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&from) as libc::socklen_t;
    let (fd, room) = (socket.as_raw_fd(), buffer.len());
    // SAFETY: buffer and address are live with their true lengths.
    let read =
        unsafe { libc::recvfrom(fd, buffer.as_mut_ptr().cast(), room, 0, (&raw mut from).cast(), &raw mut length) };
    let bytes = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    let protocol = i32::from(u16::from_be(from.sll_protocol));
    Ok(Passed {
        bytes,
        is_ip: protocol == libc::ETH_P_IP || protocol == libc::ETH_P_IPV6,
        is_twice: from.sll_hatype == libc::ARPHRD_LOOPBACK && from.sll_pkttype == libc::PACKET_OUTGOING,
    })
}

/// Packets that the kernel had no room for, since this was asked last.
pub(crate) fn lost_of_tap(socket: &File) -> io::Result<u32> {
    // Of `struct tpacket_stats`: all packets, and those that were dropped.
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

/// Lets this thread's timers be on time, and the thread go before others where it may: a link that is late is a longer
/// one.
pub(crate) fn be_on_time() {
    const NICE: libc::c_int = -15;
    // SAFETY: this operation takes one integer and no pointer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    // SAFETY: it takes three integers; zero is the calling thread (setpriority(2), NOTES).
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

/// Lets a program end with the thread that starts it, however that ends.
pub(crate) fn ends_with_this_thread(command: &mut Command) {
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

/// Asks a process to end.
pub(crate) fn terminate(pid: u32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).ok().filter(|pid| *pid > 1);
    let pid = pid.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no process has this number"))?;
    // SAFETY: kill takes two integers.
    let result = unsafe { libc::kill(pid, libc::SIGTERM) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
