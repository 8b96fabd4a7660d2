//! System calls of a node that std does not offer: a clock that counts sleep, an immediate exit, the limit on open
//! files, thread priority, room on a disk, and the number of datagrams that a socket dropped.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

use crate::limits::BULK_NICE_STEP;
use crate::problem::Exit;
use replica::io::Now;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The group of events that the kernel itself sends. The events of udev are in another group.
const KERNEL_EVENTS: u32 = 1;

/// The current time of both clocks.
pub(crate) fn now() -> Now {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { monotonic_ms: boot_ms(), wall_ms: u64::try_from(wall.as_millis()).unwrap_or(u64::MAX) }
}

/// Milliseconds since boot, including suspend: a lease that ends during suspend has ended.
pub(crate) fn boot_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec; the kernel writes it and keeps nothing.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(done, 0, "CLOCK_BOOTTIME is there since Linux 2.6.39");
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / 1_000_000
}

/// Opens a socket that receives the events that the kernel sends to user space (kobject_uevent), one event per read.
pub(crate) fn uevent_socket() -> io::Result<File> {
    // SAFETY: the call takes numbers and gives a new descriptor, or -1.
    let socket =
        unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, libc::NETLINK_KOBJECT_UEVENT) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is open, and no other code owns it.
    let socket = unsafe { File::from_raw_fd(socket) };
    // SAFETY: all bytes of a sockaddr_nl may be zero.
    let mut address: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    (address.nl_family, address.nl_groups) = (libc::AF_NETLINK as libc::sa_family_t, KERNEL_EVENTS);
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the pointer is to a live address of this length; the kernel reads it and keeps nothing.
    if unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) } == 0 {
        Ok(socket)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The user that the process acts as. The owner of `/proc/self` is root's where core dumps are off.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the call has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Hint for a file that this process has no permission to access.
pub(crate) fn access_hint(verb: &str) -> String {
    let user = effective_user();
    format!("let user {user} {verb} it; see the owners and modes of the file and of the directories above it")
}

/// Exits immediately: no destructor runs, and all threads end.
pub(crate) fn exit_at_once(exit: Exit) -> ! {
    // SAFETY: it takes a number, touches nothing of ours, and does not return.
    unsafe { libc::_exit(i32::from(exit as u8)) }
}

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

/// Lets the kernel drop its cached pages of a file, so that the next read comes from the disk.
pub(crate) fn forget_cached(file: &std::fs::File, offset: u64, len: usize) {
    let (offset, len) = (i64::try_from(offset).unwrap_or(0), i64::try_from(len).unwrap_or(0));
    // SAFETY: the call has no pointers. If it fails, the read comes from memory.
    let _ = unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
}

/// Lowers the priority of the calling thread relative to the process, so that the replica gets CPU time during a flood
/// of queries. This needs no privilege. Threads that it starts inherit the priority.
pub(crate) fn give_way(step: i32) {
    // The main thread is never lowered. 0 is the calling thread: on Linux each has its own nice value.
    let (whole, own) = (nice_of(std::process::id()), nice_of(0));
    let wanted = whole.saturating_add(step);
    // SAFETY: the call has no pointers.
    if wanted > own && unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) } != 0 {
        let error = io::Error::last_os_error();
        tracing::warn!(%error, "cannot lower the priority of a thread; it competes with the replica");
    }
}

/// Gives the calling thread the idle scheduling class: any other thread takes its core at once. A high nice value does
/// not do that, because a running thread may keep its core until the next kernel tick.
pub(crate) fn give_way_to_all() {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is to a live parameter, which the kernel only reads; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) } != 0 {
        let error = io::Error::last_os_error();
        tracing::warn!(%error, "cannot make a thread idle; only its priority is lowered");
        give_way(BULK_NICE_STEP);
    }
}

/// The nice value of a thread; 0 if unknown.
fn nice_of(thread: u32) -> libc::c_int {
    // SAFETY: the call has no pointers. The system call gives 20 less the nice value, which is never negative; the
    // function of libc gives the value itself, and -1 of it may be one or an error.
    let precedence = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, thread) };
    if precedence > 0 { 20 - precedence as libc::c_int } else { 0 }
}

/// Datagrams that the kernel dropped at this socket, for lack of buffer space or because of a wrong checksum. The
/// counter wraps at 32 bits.
///
/// Linux before 4.12 does not support this.
pub(crate) fn dropped_datagrams(socket: BorrowedFd<'_>) -> io::Result<u32> {
    const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;
    let mut info = [0u32; DROPS + 1];
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` is live and as long as `bytes` says; the kernel writes no more than that, and the true length.
    let done = unsafe {
        let to = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MEMINFO, to, &raw mut bytes)
    };
    match done {
        0 if bytes as usize == size_of_val(&info) => Ok(info[DROPS]),
        0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Allocates blocks for a part of a file. The file's size stays the same.
///
/// # Errors
/// [`io::Error`]: the disk is full, or the file system does not support this.
pub(crate) fn allocate(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    loop {
        // SAFETY: the call has no pointers, and the file is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, offset, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Bytes that users other than root may still write to the file system of this directory.
pub(crate) fn free_bytes(dir: &Path) -> io::Result<u64> {
    let path = CString::new(dir.as_os_str().as_bytes())?;
    let mut of = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path ends with a zero byte, and the kernel writes a whole statvfs to the live memory.
    if unsafe { libc::statvfs(path.as_ptr(), of.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded, so all of it is written.
    let of = unsafe { of.assume_init() };
    Ok(of.f_bavail.saturating_mul(of.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn a_socket_without_room_counts_what_it_drops() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket2::SockRef::from(&socket).set_recv_buffer_size(4_096).unwrap();
        assert_eq!(dropped_datagrams(socket.as_fd()).unwrap(), 0);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..1_000 {
            client.send_to(&[0; 512], socket.local_addr().unwrap()).unwrap();
        }
        socket.set_nonblocking(true).unwrap();
        let taken = std::iter::from_fn(|| socket.recv(&mut [0; 512]).ok()).count() as u32;
        assert!(taken < 1_000);
        assert_eq!(dropped_datagrams(socket.as_fd()).unwrap(), 1_000 - taken);
    }

    #[test]
    fn give_way_lowers_the_priority_and_never_raises_it() {
        let before = nice_of(0);
        std::thread::spawn(move || {
            let whole = nice_of(std::process::id());
            for (step, wanted) in [(3, 3), (3, 3), (1, 3), (7, 7)] {
                give_way(step);
                assert_eq!(nice_of(0), (whole + wanted).min(19));
            }
        })
        .join()
        .unwrap();
        assert_eq!(nice_of(0), before, "other threads are unchanged");
    }

    #[test]
    fn give_way_to_all_uses_the_idle_class() {
        std::thread::spawn(|| {
            give_way_to_all();
            // SAFETY: the call has no pointers; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_IDLE);
        })
        .join()
        .unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sched_getscheduler(0) }, libc::SCHED_OTHER, "other threads are unchanged");
    }

    #[test]
    fn the_file_limit_is_known() {
        let first = raise_file_limit();
        assert!(first > 0);
        assert_eq!(raise_file_limit(), first);
    }

    #[test]
    fn time_goes_on() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let after = now();
        assert!((15..5_000).contains(&(after.monotonic_ms - before.monotonic_ms)));
        assert!(after.wall_ms > 1_700_000_000_000);
    }
}
