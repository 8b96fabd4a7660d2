//! Datagrams in batches: recvmmsg and sendmmsg over buffers that are allocated once.
//!
//! This is the only file of the server with `unsafe` on the packet path. The tables of `mmsghdr`, `iovec`, addresses
//! and control messages that the kernel wants are full of raw pointers into one another; they are set up afresh before
//! each call from indices into memory that this file owns, so that no pointer outlives a call.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use crate::limits::{DATAGRAM_OCTETS_MAX, UDP_BATCH_COUNT, UDP_RESPONSE_OCTETS_MAX};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Octets from one receive slot to the next: a whole datagram, and three cache lines over, so that the first lines of
/// the slots do not all fall into the same sets of the cache.
const RECEIVE_STRIDE: usize = DATAGRAM_OCTETS_MAX + 1 + 3 * 64;
/// Octets of control messages of one datagram: one `in6_pktinfo` with its head, rounded up.
const CONTROL_OCTETS: usize = 64;

/// Control messages are read and written as `cmsghdr`, which wants the alignment of a long.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_OCTETS]);

/// A datagram that was received: its octets, who sent it, and the address it was sent to when the socket tells.
#[derive(Clone, Copy)]
pub(crate) struct Received<'b> {
    pub(crate) octets: &'b [u8],
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<IpAddr>,
}

/// Buffers for one worker: receive slots, send slots, and the tables for the kernel.
pub(crate) struct Batch {
    received: Vec<u8>,
    sent: Vec<u8>,
    addresses: Vec<libc::sockaddr_storage>,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Of the last receive: how many, and the octets of each.
    lengths: [usize; UDP_BATCH_COUNT],
    locals: [Option<IpAddr>; UDP_BATCH_COUNT],
    count: usize,
    /// To send: (index of the datagram that is answered, octets).
    responses: [(usize, usize); UDP_BATCH_COUNT],
    response_count: usize,
}

/// A socket of a worker.
pub(crate) struct BatchSocket {
    socket: UdpSocket,
    /// Whether datagrams tell the address they were sent to; only sockets on a wildcard address need it.
    tells_local: bool,
}

impl BatchSocket {
    /// Sets the options that batches want.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let tells_local = address.ip().is_unspecified();
        let (level, pmtu, pmtu_omit, info) = if address.is_ipv4() {
            (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT, libc::IP_PKTINFO)
        } else {
            (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT, libc::IPV6_RECVPKTINFO)
        };
        // RFC 9715 3.1 (R2, R3): forged ICMP must not shrink what is sent.
        set_option(&socket, level, pmtu, pmtu_omit)?;
        if tells_local {
            set_option(&socket, level, info, 1)?;
        }
        Ok(Self { socket, tells_local })
    }

    /// Sends one datagram, from `local` where the socket has several addresses. For threads other than the worker.
    pub(crate) fn send_one(&self, octets: &[u8], peer: SocketAddr, local: Option<IpAddr>) -> io::Result<()> {
        let (mut address, address_len) = to_storage(peer);
        let mut control = Control([0; CONTROL_OCTETS]);
        let mut iovec = libc::iovec { iov_base: octets.as_ptr().cast_mut().cast(), iov_len: octets.len() };
        // SAFETY: msghdr is plain integers and pointers, for which all zero octets are a value.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = (&raw mut address).cast();
        header.msg_namelen = address_len;
        header.msg_iov = &raw mut iovec;
        header.msg_iovlen = 1;
        if let Some(local) = local.filter(|_| self.tells_local) {
            let len = write_source(&mut control, local);
            header.msg_control = (&raw mut control).cast();
            header.msg_controllen = len as _;
        }
        // SAFETY: all pointers in `header` are to live locals or to `octets`, with their true lengths; the kernel only
        // reads through them.
        let done = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Batch {
    /// All the memory a worker needs.
    pub(crate) fn new() -> Self {
        // SAFETY: these three are plain integers and pointers, for which all zero octets are a value.
        let (address, iovec, header) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            received: vec![0; RECEIVE_STRIDE * UDP_BATCH_COUNT],
            sent: vec![0; UDP_RESPONSE_OCTETS_MAX * UDP_BATCH_COUNT],
            addresses: vec![address; UDP_BATCH_COUNT],
            control: vec![Control([0; CONTROL_OCTETS]); UDP_BATCH_COUNT],
            iovecs: vec![iovec; UDP_BATCH_COUNT],
            headers: vec![header; UDP_BATCH_COUNT],
            lengths: [0; UDP_BATCH_COUNT],
            locals: [None; UDP_BATCH_COUNT],
            count: 0,
            responses: [(0, 0); UDP_BATCH_COUNT],
            response_count: 0,
        }
    }

    /// Takes what waits, up to a batch, without waiting; zero when nothing does.
    pub(crate) fn receive(&mut self, from: &BatchSocket) -> io::Result<usize> {
        self.count = 0;
        self.response_count = 0;
        for index in 0..UDP_BATCH_COUNT {
            let slot = &mut self.received[index * RECEIVE_STRIDE..][..DATAGRAM_OCTETS_MAX];
            self.iovecs[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        for index in 0..UDP_BATCH_COUNT {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
            if from.tells_local {
                header.msg_control = (&raw mut self.control[index]).cast();
                header.msg_controllen = CONTROL_OCTETS as _;
            } else {
                header.msg_control = std::ptr::null_mut();
                header.msg_controllen = 0;
            }
            header.msg_flags = 0;
        }
        // SAFETY: `headers` has UDP_BATCH_COUNT entries; each points at its own address, control buffer and iovec, and
        // each iovec at its own slot of `received`, all set just above, with their true lengths, all owned by `self`,
        // which is borrowed mutably until the call has returned.
        let count = unsafe {
            libc::recvmmsg(
                from.socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                UDP_BATCH_COUNT as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            return match io::Error::last_os_error() {
                error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
                error => Err(error),
            };
        }
        self.count = count as usize;
        for index in 0..self.count {
            self.lengths[index] = (self.headers[index].msg_len as usize).min(DATAGRAM_OCTETS_MAX);
            let control_len = self.headers[index].msg_hdr.msg_controllen.min(CONTROL_OCTETS);
            self.locals[index] = read_destination(&self.control[index].0[..control_len]);
        }
        Ok(self.count)
    }

    /// A datagram of the last receive, and the slot for its response. `None` when its sender has no address.
    pub(crate) fn exchange(&mut self, index: usize) -> Option<(Received<'_>, &mut [u8])> {
        assert!(index < self.count);
        let peer = from_storage(&self.addresses[index])?;
        let octets = &self.received[index * RECEIVE_STRIDE..][..self.lengths[index]];
        let out = &mut self.sent[index * UDP_RESPONSE_OCTETS_MAX..][..UDP_RESPONSE_OCTETS_MAX];
        Some((Received { octets, peer, local: self.locals[index] }, out))
    }

    /// The datagrams of the last receive.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let datagrams = self.received.chunks(RECEIVE_STRIDE).zip(&self.lengths[..self.count]);
        datagrams.map(|(octets, &len)| &octets[..len])
    }

    /// Says that the slot of datagram `index` holds a response of `len` octets.
    pub(crate) fn respond(&mut self, index: usize, len: usize) {
        assert!(index < self.count && len <= UDP_RESPONSE_OCTETS_MAX && self.response_count < UDP_BATCH_COUNT);
        self.responses[self.response_count] = (index, len);
        self.response_count += 1;
    }

    /// Sends the responses of this batch. Gives how many the kernel did not take.
    pub(crate) fn send(&mut self, to: &BatchSocket) -> usize {
        for order in 0..self.response_count {
            let (index, len) = self.responses[order];
            let slot = &mut self.sent[index * UDP_RESPONSE_OCTETS_MAX..][..len];
            self.iovecs[order] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        for order in 0..self.response_count {
            let (index, _) = self.responses[order];
            let name_len = storage_len(&self.addresses[index]);
            let control_len = match self.locals[index] {
                Some(local) if to.tells_local => write_source(&mut self.control[index], local),
                _ => 0,
            };
            let header = &mut self.headers[order].msg_hdr;
            header.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_namelen = name_len;
            header.msg_iov = &raw mut self.iovecs[order];
            header.msg_iovlen = 1;
            header.msg_control =
                if control_len == 0 { std::ptr::null_mut() } else { (&raw mut self.control[index]).cast() };
            header.msg_controllen = control_len as _;
            header.msg_flags = 0;
        }
        let (mut done, mut refused) = (0, 0);
        while done < self.response_count {
            // SAFETY: entries `done..response_count` of `headers` were set above to point at live memory of `self`
            // with true lengths; the kernel reads through them and writes `msg_len` of the entries only.
            let sent = unsafe {
                libc::sendmmsg(
                    to.socket.as_raw_fd(),
                    self.headers.as_mut_ptr().add(done),
                    (self.response_count - done) as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                // The first of the rest cannot be sent (its address is unreachable, or the buffer is full): the
                // others may be. A client asks again.
                _ => {
                    done += 1;
                    refused += 1;
                }
            }
        }
        self.response_count = 0;
        refused
    }
}

/// Waits until a socket has something, at most `wait_ms`; gives a bit for each socket that has.
pub(crate) fn wait(sockets: &[Arc<BatchSocket>], wait_ms: i32) -> io::Result<u64> {
    let mut polls = [libc::pollfd { fd: -1, events: 0, revents: 0 }; crate::limits::LISTEN_ADDRESSES_MAX];
    let polls = &mut polls[..sockets.len()];
    for (poll, socket) in polls.iter_mut().zip(sockets) {
        *poll = libc::pollfd { fd: socket.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    }
    // SAFETY: `polls` is a live slice and its true length goes with it.
    let count = unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, wait_ms) };
    if count < 0 {
        return match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            error => Err(error),
        };
    }
    Ok(polls.iter().enumerate().fold(0, |ready, (index, poll)| ready | u64::from(poll.revents != 0) << index))
}

/// Sets an integer option of a socket.
fn set_option(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the value is a live int and its true size goes with it.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The address as the kernel has it, and its length.
fn to_storage(address: SocketAddr) -> (libc::sockaddr_storage, libc::socklen_t) {
    let address = socket2::SockAddr::from(address);
    // SAFETY: sockaddr_storage is plain integers, for which all zero octets are a value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    // SAFETY: `address` holds `len()` octets, no more than a sockaddr_storage, and the two do not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(
            address.as_ptr().cast::<u8>(),
            (&raw mut storage).cast::<u8>(),
            (address.len() as usize).min(size_of::<libc::sockaddr_storage>()),
        );
    }
    (storage, address.len())
}

/// Octets of an address that the kernel wrote.
fn storage_len(storage: &libc::sockaddr_storage) -> libc::socklen_t {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => size_of::<libc::sockaddr_in>() as libc::socklen_t,
        _ => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
    }
}

/// The address in a form that Rust knows; `None` when it is of another family.
fn from_storage(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that these octets are a sockaddr_in, which is no larger and no more aligned.
            let address = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that these octets are a sockaddr_in6, which is no larger and no more aligned.
            let address = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id)))
        }
        _ => None,
    }
}

/// Octets of a cmsghdr, and where its data starts (both are multiples of eight on Linux, 64 bit).
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();

/// The address that a datagram was sent to, from its control messages.
fn read_destination(control: &[u8]) -> Option<IpAddr> {
    let word =
        |at: usize| control.get(at..at + 4).map(|octets| i32::from_ne_bytes(octets.try_into().unwrap_or([0; 4])));
    // The kernel writes one message, the one asked for: length (a size_t), level, type, data.
    let (level, kind) = (word(CONTROL_HEAD - 8)?, word(CONTROL_HEAD - 4)?);
    let data = control.get(CONTROL_HEAD..)?;
    if level == libc::IPPROTO_IP && kind == libc::IP_PKTINFO {
        // in_pktinfo: interface, local address, header destination address.
        let octets: [u8; 4] = data.get(4..8)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    } else if level == libc::IPPROTO_IPV6 && kind == libc::IPV6_PKTINFO {
        let octets: [u8; 16] = data.get(..16)?.try_into().ok()?;
        Some(IpAddr::from(octets))
    } else {
        None
    }
}

/// Writes the control message that makes the kernel send from `local`; gives its length.
fn write_source(control: &mut Control, local: IpAddr) -> usize {
    let mut put = |at: usize, octets: &[u8]| control.0[at..at + octets.len()].copy_from_slice(octets);
    let (level, kind, data_len) = match local {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO, size_of::<libc::in_pktinfo>()),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, size_of::<libc::in6_pktinfo>()),
    };
    put(0, &(CONTROL_HEAD + data_len).to_ne_bytes());
    put(CONTROL_HEAD - 8, &level.to_ne_bytes());
    put(CONTROL_HEAD - 4, &kind.to_ne_bytes());
    // Interface 0: the routing table chooses.
    match local {
        IpAddr::V4(ip) => {
            put(CONTROL_HEAD, &[0; 4]);
            put(CONTROL_HEAD + 4, &ip.octets());
            put(CONTROL_HEAD + 8, &[0; 4]);
        }
        IpAddr::V6(ip) => {
            put(CONTROL_HEAD, &ip.octets());
            put(CONTROL_HEAD + 16, &[0; 4]);
        }
    }
    (CONTROL_HEAD + data_len).next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::sockets::{self, Sharing};

    fn socket(address: &str) -> Arc<BatchSocket> {
        Arc::new(BatchSocket::new(sockets::udp(address.parse().unwrap(), Sharing::Alone).unwrap()).unwrap())
    }

    /// Echoes batches until `want` datagrams were seen; gives their lengths.
    fn echo(server: &Arc<BatchSocket>, want: usize) -> Vec<usize> {
        let mut batch = Batch::new();
        let mut seen = Vec::new();
        while seen.len() < want {
            assert_ne!(wait(std::slice::from_ref(server), 2_000).unwrap(), 0, "got {} of {want}", seen.len());
            let count = batch.receive(server).unwrap();
            for index in 0..count {
                let (received, out) = batch.exchange(index).unwrap();
                let len = received.octets.len().min(out.len());
                out[..len].copy_from_slice(&received.octets[..len]);
                seen.push(received.octets.len());
                batch.respond(index, len);
            }
            assert_eq!(batch.send(server), 0);
        }
        seen
    }

    #[test]
    fn batches_are_received_whole_and_answered_each_to_its_sender() {
        let server = socket("127.0.0.1:0");
        let to = server.socket.local_addr().unwrap();
        let clients: Vec<UdpSocket> = (0..100).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        for (index, client) in clients.iter().enumerate() {
            client.send_to(&[index as u8; 30], to).unwrap();
        }
        assert_eq!(echo(&server, 100).len(), 100);
        for (index, client) in clients.iter().enumerate() {
            client.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
            let mut buffer = [0; 100];
            let (len, from) = client.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..len], from), (&[index as u8; 30][..], to));
        }
    }

    #[test]
    fn the_largest_datagram_is_received_whole() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let server = socket(address);
            let client = UdpSocket::bind(address).unwrap();
            // 65,535 less the IPv4 and UDP heads is the most that loopback carries.
            let len = 65_507;
            client.send_to(&vec![7; len], server.socket.local_addr().unwrap()).unwrap();
            assert_eq!(echo(&server, 1), [len]);
        }
    }

    #[test]
    fn a_wildcard_socket_answers_from_the_address_it_was_asked_at() {
        for (listen, ask) in [("0.0.0.0:0", "127.0.0.7"), ("[::]:0", "::1")] {
            let server = socket(listen);
            let port = server.socket.local_addr().unwrap().port();
            let to = SocketAddr::new(ask.parse().unwrap(), port);
            let client = UdpSocket::bind((if to.is_ipv4() { "127.0.0.1" } else { "::1" }, 0)).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
            client.send_to(b"question", to).unwrap();
            assert_eq!(echo(&server, 1), [8]);
            let mut buffer = [0; 100];
            assert_eq!(client.recv_from(&mut buffer).unwrap().1, to);
            server.send_one(b"later", client.local_addr().unwrap(), Some(to.ip())).unwrap();
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (5, to));
        }
    }
}
