//! A socket of a worker, and waiting for several.

use super::kernel::{CONTROL_BYTES, Control, set_option, to_storage, write_source};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A socket of a worker.
pub(crate) struct BatchSocket {
    pub(super) socket: UdpSocket,
    /// Whether datagrams report their destination address; only sockets on a wildcard address need it.
    pub(super) reports_local: bool,
    /// Whether the kernel accepts several datagrams as one message. Cleared once it rejects one.
    segments: AtomicBool,
}

impl BatchSocket {
    /// Sets the options that batches need.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let reports_local = address.ip().is_unspecified();
        let (level, pmtu, pmtu_omit, info) = if address.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT, libc::IP_PKTINFO)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT, libc::IPV6_RECVPKTINFO)
        };
        // RFC 9715 3.1 (R2, R3): forged ICMP must not shrink what is sent.
        set_option(&socket, level, pmtu, pmtu_omit)?;
        if reports_local {
            set_option(&socket, level, info, 1)?;
        }
        Ok(Self { socket, reports_local, segments: AtomicBool::new(true) })
    }

    /// The socket itself.
    pub(crate) const fn udp(&self) -> &UdpSocket {
        &self.socket
    }

    /// Whether the kernel takes several datagrams as one message.
    pub(super) fn segments(&self) -> bool {
        self.segments.load(Ordering::Relaxed)
    }

    /// Sends each response alone from now on, because the kernel rejected a run.
    pub(super) fn disable_segmentation(&self, reason: &io::Error) {
        if self.segments.swap(false, Ordering::Relaxed) {
            let address = self.socket.local_addr().map_or_else(|_| "?".into(), |address| address.to_string());
            tracing::info!(%address, %reason, "the kernel rejects runs of responses here; each is sent alone");
        }
    }

    /// Sends one datagram, from `local` if the socket has several addresses. For threads other than the worker.
    pub(crate) fn send_one(&self, bytes: &[u8], peer: SocketAddr, local: Option<IpAddr>) -> io::Result<()> {
        let (mut address, address_len) = to_storage(peer);
        let mut control = Control([0; CONTROL_BYTES]);
        let mut iovec = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: msghdr holds only integers and pointers, for which all zero bytes are valid.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = (&raw mut address).cast();
        header.msg_namelen = address_len;
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 1;
        if let Some(local) = local.filter(|_| self.reports_local) {
            let len = write_source(&mut control.0, local);
            header.msg_control = (&raw mut control).cast();
            header.msg_controllen = len as _;
        }
        // SAFETY: all pointers in `header` are to live locals or to `bytes`, with their lengths; the kernel only reads
        // through them.
        let done = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Waits at most `wait_ms` until a socket is readable; returns one bit per readable socket.
pub(crate) fn wait(sockets: &[Arc<BatchSocket>], wait_ms: i32) -> io::Result<u64> {
    let mut polls = [libc::pollfd { fd: -1, events: 0, revents: 0 }; config::limits::LISTEN_ADDRESSES_MAX];
    let polls = &mut polls[..sockets.len()];
    for (poll, socket) in polls.iter_mut().zip(sockets) {
        *poll = libc::pollfd { fd: socket.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    }
    // SAFETY: `polls` is a live slice, and its length is passed with it.
    let count = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, wait_ms) };
    if count < 0 {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        };
    }
    Ok(polls.iter().enumerate().fold(0, |ready, (index, poll)| ready | u64::from(poll.revents != 0) << index))
}
