//! The bare loop once more, on one socket that is not connected: each message goes from an address of its own, as the
//! queries of a trace do. What it takes longer than a connected socket is the kernel's: it looks for the way of each.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use super::sockets::BATCH;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// Octets of a control message with an address: its head, an interface, the source, and nothing.
const CONTROL_OCTETS: usize = 32;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_OCTETS]);

/// Sends one message over and over, from one source after the other.
pub(crate) struct Sender {
    socket: UdpSocket,
    sources: Vec<Control>,
    next: usize,
    name: Box<libc::sockaddr_in>,
    iovec: Box<libc::iovec>,
    _message: Vec<u8>,
    headers: Vec<libc::mmsghdr>,
}

impl Sender {
    /// The socket is one that may be sent from any address of the machine.
    pub(crate) fn new(
        socket: UdpSocket,
        message: Vec<u8>,
        server: SocketAddrV4,
        sources: impl Iterator<Item = Ipv4Addr>,
    ) -> Self {
        // What may not be fragmented needs no identification, which costs more than all else here.
        let value = libc::IP_PMTUDISC_PROBE;
        let (file, level, name) = (socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER);
        // SAFETY: the value is a live int and its size is given.
        let done = unsafe { libc::setsockopt(file, level, name, (&raw const value).cast(), 4) };
        assert_eq!(done, 0, "IP_MTU_DISCOVER");
        let name = Box::new(libc::sockaddr_in {
            sin_family: libc::AF_INET as _,
            sin_port: server.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(*server.ip()).to_be() },
            sin_zero: [0; 8],
        });
        let iovec = Box::new(libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() });
        // SAFETY: an mmsghdr is integers and pointers, for which all zero octets are a value.
        let headers = vec![unsafe { std::mem::zeroed() }; BATCH];
        Self { socket, sources: sources.map(control).collect(), next: 0, name, iovec, _message: message, headers }
    }

    /// Sends a batch; gives how many the kernel took.
    pub(crate) fn send(&mut self) -> usize {
        for header in &mut self.headers {
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut *self.name).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_iov = &raw mut *self.iovec;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.sources[self.next]).cast();
            header.msg_controllen = CONTROL_OCTETS as _;
            self.next = (self.next + 1) % self.sources.len();
        }
        // SAFETY: all headers point at the one name and the one iovec, whose message is kept unchanged, and at control
        // messages, with true lengths; all are owned by `self`, borrowed until the call has returned, and the kernel
        // only reads them.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), self.headers.as_mut_ptr(), BATCH as u32, 0) };
        usize::try_from(sent).unwrap_or(0)
    }
}

/// From which address a datagram goes (IP_PKTINFO of ip(7)): length of all (a word), level, type, interface, source.
fn control(source: Ipv4Addr) -> Control {
    let mut control = Control([0; CONTROL_OCTETS]);
    control.0[..8].copy_from_slice(&28usize.to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::IPPROTO_IP.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::IP_PKTINFO.to_ne_bytes());
    control.0[20..24].copy_from_slice(&source.octets());
    control
}
