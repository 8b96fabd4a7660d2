//! Datagrams that a socket dropped, and the events of the kernel.
#![expect(unsafe_code, reason = "plain system calls; each block argues its safety")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

/// The group of events that the kernel itself sends. The events of udev are in another group.
const KERNEL_EVENTS: u32 = 1;

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

/// Datagrams that the kernel dropped at this socket, for lack of buffer space or because of a wrong checksum. The
/// counter wraps at 32 bits.
///
/// Linux before 4.12 does not support this.
pub(crate) fn dropped_datagrams(socket: BorrowedFd<'_>) -> io::Result<u32> {
    const DROPS: usize = libc::SK_MEMINFO_DROPS as usize;
    let mut info = [0u32; DROPS + 1];
    let mut bytes = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` is live and has the length in `bytes`. The kernel writes at most that, and sets the true length.
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
}
