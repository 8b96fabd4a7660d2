//! A bare loop that sends from as many addresses as a trace has clients, to measure the cost in the kernel alone.
//!
//! It shares no code with the engine, which is compared with it.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use super::sockets::BATCH;
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::AsRawFd;

/// Size of the control message with an address: header and `in_pktinfo`, padded to whole words (ip(7)).
const CONTROL_BYTES: usize = 32;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Sends one query in a loop, from successive addresses of 127.0.0.0/8.
pub(crate) struct PktinfoSocket {
    socket: Socket,
    server: libc::sockaddr_in,
    sources: u32,
    next: u32,
    control: [Control; BATCH],
}

impl PktinfoSocket {
    /// With `identifies`, the kernel numbers datagrams per pair of addresses, which is its default.
    pub(crate) fn open(server: SocketAddrV4, sources: u32, identifies: bool) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
        socket.set_freebind_v4(true).expect("an option");
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into()).expect("a port");
        let manner = if identifies { libc::IP_PMTUDISC_WANT } else { libc::IP_PMTUDISC_PROBE };
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value is a live int and its size is given.
        let done = unsafe {
            let value = (&raw const manner).cast();
            libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, value, size)
        };
        assert_eq!(done, 0, "the option IP_MTU_DISCOVER");
        let mut control = Control([0; CONTROL_BYTES]);
        control.0[..8].copy_from_slice(&28usize.to_ne_bytes());
        control.0[8..12].copy_from_slice(&libc::IPPROTO_IP.to_ne_bytes());
        control.0[12..16].copy_from_slice(&libc::IP_PKTINFO.to_ne_bytes());
        let server = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: server.port().to_be(),
            sin_addr: libc::in_addr { s_addr: u32::from(*server.ip()).to_be() },
            sin_zero: [0; 8],
        };
        Self { socket, server, sources, next: 0, control: [control; BATCH] }
    }

    /// Sends a batch. Returns how many messages the kernel accepted.
    pub(crate) fn send(&mut self, query: &[u8]) -> usize {
        let mut part = libc::iovec { iov_base: query.as_ptr().cast_mut().cast(), iov_len: query.len() };
        // SAFETY: an mmsghdr is integers and pointers, for which all zero bytes are a value.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
        for (header, control) in headers.iter_mut().zip(&mut self.control) {
            let source = u32::from(Ipv4Addr::new(127, 0, 0, 1)) + self.next;
            self.next = (self.next + 1) % self.sources;
            control.0[20..24].copy_from_slice(&source.to_be_bytes());
            let header = &mut header.msg_hdr;
            header.msg_name = (&raw mut self.server).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_iov = &raw mut part;
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut *control).cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: BATCH headers; all point at the one name and the one query, which the kernel only reads, and each at
        // its own control message, with true lengths; all live until the call has returned.
        let sent = unsafe { libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), BATCH as u32, 0) };
        usize::try_from(sent).unwrap_or(0)
    }
}
