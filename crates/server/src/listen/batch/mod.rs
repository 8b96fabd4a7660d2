//! Datagrams in batches: recvmmsg and sendmmsg over buffers that are allocated once.
//!
//! This folder is the only place of the server with `unsafe` on the packet path. The tables of `mmsghdr`, `iovec`,
//! addresses and control messages that the kernel wants are full of raw pointers into one another; they are set up
//! afresh before each call from indices into memory that a [`Batch`] owns, so that no pointer outlives a call.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

// Addresses, control messages and options, as the kernel has them.
mod kernel;
// Which responses go together.
mod runs;
// A socket, and the wait for several.
mod socket;

pub(crate) use socket::{BatchSocket, wait};

use crate::limits::{DATAGRAM_BYTES_MAX, UDP_BATCH_COUNT, UDP_RESPONSE_BYTES_MAX};
use kernel::{CONTROL_BYTES, Control, from_storage, read_destination, storage_len, write_segment, write_source};
use runs::{Response, group_by_route, run_len};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Bytes from one receive slot to the next: a whole datagram, and three cache lines over, so that the first lines of
/// the slots do not all fall into the same sets of the cache.
const RECEIVE_STRIDE: usize = DATAGRAM_BYTES_MAX + 1 + 3 * 64;
/// Slots that are offered to the kernel when nothing is known of the traffic; twice as many as came last time
/// otherwise, so that a quiet worker does not set up a whole batch for one datagram.
const SLOTS_MIN: usize = 4;

/// A datagram that was received: its bytes, who sent it, and the address it was sent to when the socket tells.
#[derive(Clone, Copy)]
pub(crate) struct Received<'b> {
    pub(crate) bytes: &'b [u8],
    pub(crate) peer: SocketAddr,
    pub(crate) local: Option<IpAddr>,
    /// It was sent to a group, or to all on a link; known where `local` is.
    pub(crate) is_multicast: bool,
}

/// Datagrams of the last receive, and whether there may be more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReceiveResult {
    pub(crate) count: usize,
    pub(crate) may_have_more: bool,
}

/// The addresses of a datagram: who sent it, and where to.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Route {
    /// `None`: of a family that this server does not speak.
    peer: Option<SocketAddr>,
    local: Option<IpAddr>,
    is_multicast: bool,
}

/// Buffers for one worker: receive slots, send slots, and the tables for the kernel.
pub(crate) struct Batch {
    received: Vec<u8>,
    sent: Vec<u8>,
    addresses: Vec<libc::sockaddr_storage>,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Slots that the next receive offers.
    slot_count: usize,
    /// Of the last receive: how many, the bytes of each, and its way.
    count: usize,
    lengths: [usize; UDP_BATCH_COUNT],
    routes: [Route; UDP_BATCH_COUNT],
    responses: [Response; UDP_BATCH_COUNT],
    response_count: usize,
}

impl Batch {
    /// All the memory a worker needs.
    pub(crate) fn new() -> Self {
        // SAFETY: these three are plain integers and pointers, for which all zero bytes are a value.
        let (address, iovec, header) = unsafe { (std::mem::zeroed(), std::mem::zeroed(), std::mem::zeroed()) };
        Self {
            received: vec![0; RECEIVE_STRIDE * UDP_BATCH_COUNT],
            sent: vec![0; UDP_RESPONSE_BYTES_MAX * UDP_BATCH_COUNT],
            addresses: vec![address; UDP_BATCH_COUNT],
            control: vec![Control([0; CONTROL_BYTES]); UDP_BATCH_COUNT],
            iovecs: vec![iovec; UDP_BATCH_COUNT],
            headers: vec![header; UDP_BATCH_COUNT],
            slot_count: SLOTS_MIN,
            count: 0,
            lengths: [0; UDP_BATCH_COUNT],
            routes: [Route::default(); UDP_BATCH_COUNT],
            responses: [Response::default(); UDP_BATCH_COUNT],
            response_count: 0,
        }
    }

    /// Receives up to a batch of datagrams without blocking.
    pub(crate) fn receive(&mut self, from: &BatchSocket) -> io::Result<ReceiveResult> {
        self.count = 0;
        self.response_count = 0;
        let offered = self.slot_count;
        for index in 0..offered {
            let slot = &mut self.received[index * RECEIVE_STRIDE..][..DATAGRAM_BYTES_MAX];
            self.iovecs[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        for index in 0..offered {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
            if from.reports_local {
                header.msg_control = (&raw mut self.control[index]).cast();
                header.msg_controllen = CONTROL_BYTES as _;
            } else {
                header.msg_control = std::ptr::null_mut();
                header.msg_controllen = 0;
            }
            header.msg_flags = 0;
        }
        // SAFETY: the first `offered` entries of `headers` were set just above; each points at its own address, control
        // buffer and iovec, and each iovec at its own slot of `received`, with their true lengths, all owned by `self`,
        // which is borrowed mutably until the call has returned.
        let count = unsafe {
            libc::recvmmsg(
                from.socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                offered as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            return match io::Error::last_os_error() {
                error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                    Ok(ReceiveResult { count: 0, may_have_more: false })
                }
                error => Err(error),
            };
        }
        self.count = count as usize;
        self.slot_count = (2 * self.count).clamp(SLOTS_MIN, UDP_BATCH_COUNT);
        for index in 0..self.count {
            self.lengths[index] = (self.headers[index].msg_len as usize).min(DATAGRAM_BYTES_MAX);
            let control_len = self.headers[index].msg_hdr.msg_controllen.min(CONTROL_BYTES);
            let to = read_destination(&self.control[index].0[..control_len]);
            self.routes[index] = Route {
                peer: from_storage(&self.addresses[index]),
                local: to.map(|to| to.local),
                is_multicast: to.is_some_and(|to| to.is_multicast),
            };
        }
        Ok(ReceiveResult { count: self.count, may_have_more: self.count == offered })
    }

    /// A datagram of the last receive, and the slot for its response. `None` when its sender has no address.
    pub(crate) fn exchange(&mut self, index: usize) -> Option<(Received<'_>, &mut [u8])> {
        assert!(index < self.count);
        let Route { peer, local, is_multicast } = self.routes[index];
        let bytes = &self.received[index * RECEIVE_STRIDE..][..self.lengths[index]];
        let out = &mut self.sent[index * UDP_RESPONSE_BYTES_MAX..][..UDP_RESPONSE_BYTES_MAX];
        Some((Received { bytes, peer: peer?, local, is_multicast }, out))
    }

    /// The datagrams of the last receive.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        let datagrams = self.received.chunks(RECEIVE_STRIDE).zip(&self.lengths[..self.count]);
        datagrams.map(|(bytes, &len)| &bytes[..len])
    }

    /// Records that the slot of datagram `index` holds a response of `len` bytes.
    pub(crate) fn respond(&mut self, index: usize, len: usize) {
        assert!(index < self.count && len <= UDP_RESPONSE_BYTES_MAX && self.response_count < UDP_BATCH_COUNT);
        self.responses[self.response_count] = Response { index, bytes: len };
        self.response_count += 1;
    }

    /// Sends the responses of this batch; returns how many the kernel rejected.
    pub(crate) fn send(&mut self, to: &BatchSocket) -> usize {
        let routes = &self.routes;
        group_by_route(&mut self.responses[..self.response_count], |one, other| routes[one] == routes[other]);
        let (mut first, mut refused) = (0, 0);
        // Why a run was refused, and where it ends: until then each response goes alone.
        let mut refused_run: Option<(io::Error, usize)> = None;
        while first < self.response_count {
            if refused_run.as_ref().is_some_and(|&(_, end)| first >= end) {
                refused_run = None;
            }
            let together = refused_run.is_none() && to.segments();
            // How many responses each message holds, and how many messages there are.
            let mut runs = [0; UDP_BATCH_COUNT];
            let run_count = self.build_messages(to, first, together, &mut runs);
            let (sent, error) = self.send_messages(to, run_count);
            // A part of what was refused together goes alone: so its being together was what was wrong with it.
            if sent > 0
                && let Some((error, _)) = refused_run.take().filter(|(error, _)| may_reject_runs(error))
            {
                to.disable_segmentation(&error);
            }
            first += runs[..sent].iter().sum::<usize>();
            match error {
                None => {}
                Some(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The first of the rest is a run: whatever is wrong with it, its parts may go alone.
                Some(error) if runs[sent] > 1 => refused_run = Some((error, first + runs[sent])),
                // It cannot be sent (its address is unreachable, or the buffer is full): the others may be. A client
                // asks again.
                Some(_) => {
                    first += 1;
                    refused += 1;
                }
            }
        }
        self.response_count = 0;
        refused
    }

    /// Builds messages from the responses starting at `first`; returns their number.
    fn build_messages(
        &mut self,
        to: &BatchSocket,
        first: usize,
        together: bool,
        runs: &mut [usize; UDP_BATCH_COUNT],
    ) -> usize {
        for at in first..self.response_count {
            let Response { index, bytes } = self.responses[at];
            let slot = &mut self.sent[index * UDP_RESPONSE_BYTES_MAX..][..bytes];
            self.iovecs[at] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        let routes = &self.routes;
        let (mut at, mut run_count) = (first, 0);
        while at < self.response_count {
            let waiting = &self.responses[at..self.response_count];
            let run = if together { run_len(waiting, |one, other| routes[one] == routes[other]) } else { 1 };
            let Response { index, bytes } = waiting[0];
            let control = &mut self.control[index].0;
            let mut control_len = match routes[index].local {
                Some(local) if to.reports_local => write_source(control, local),
                _ => 0,
            };
            if run > 1 {
                control_len += write_segment(&mut control[control_len..], bytes);
            }
            let header = &mut self.headers[run_count].msg_hdr;
            header.msg_name = (&raw mut self.addresses[index]).cast();
            header.msg_namelen = storage_len(&self.addresses[index]);
            header.msg_iov = &raw mut self.iovecs[at];
            header.msg_iovlen = run as _;
            header.msg_control =
                if control_len == 0 { std::ptr::null_mut() } else { (&raw mut self.control[index]).cast() };
            header.msg_controllen = control_len as _;
            header.msg_flags = 0;
            runs[run_count] = run;
            run_count += 1;
            at += run;
        }
        run_count
    }

    /// Sends the first messages; returns how many the kernel accepted, and the error of the next one.
    fn send_messages(&mut self, to: &BatchSocket, run_count: usize) -> (usize, Option<io::Error>) {
        let mut done = 0;
        while done < run_count {
            // SAFETY: entries up to `run_count` of `headers` were set by `build_messages` to point at live memory of
            // `self` with true lengths; the kernel reads through them and writes `msg_len` of the entries only.
            let sent = unsafe {
                libc::sendmmsg(
                    to.socket.as_raw_fd(),
                    self.headers.as_mut_ptr().add(done),
                    (run_count - done) as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                )
            };
            match usize::try_from(sent) {
                Ok(sent) if sent > 0 => done += sent,
                _ => return (done, Some(io::Error::last_os_error())),
            }
        }
        (done, None)
    }
}

/// Whether this error may mean that the kernel or the device supports no runs. It may also concern the destination.
fn may_reject_runs(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::ENOPROTOOPT | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen::sockets::{self, Sharing};
    use std::net::UdpSocket;
    use std::sync::Arc;

    fn socket(address: &str) -> Arc<BatchSocket> {
        Arc::new(BatchSocket::new(sockets::udp(address.parse().unwrap(), Sharing::Alone).unwrap()).unwrap())
    }

    /// Echoes batches until `want` datagrams were seen; gives their lengths.
    fn echo(server: &Arc<BatchSocket>, want: usize) -> Vec<usize> {
        let mut batch = Batch::new();
        let mut seen = Vec::new();
        while seen.len() < want {
            assert_ne!(wait(std::slice::from_ref(server), 2_000).unwrap(), 0, "got {} of {want}", seen.len());
            let count = batch.receive(server).unwrap().count;
            for index in 0..count {
                let (received, out) = batch.exchange(index).unwrap();
                let len = received.bytes.len().min(out.len());
                out[..len].copy_from_slice(&received.bytes[..len]);
                seen.push(received.bytes.len());
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

    /// That of IPv6 would answer from there anyway, on loopback; with two addresses it is a test of real processes
    /// (`tests/it/packets.rs`).
    #[test]
    fn a_wildcard_socket_answers_from_the_queried_address() {
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

    /// Many datagrams of two lengths from few clients, each answered to its own.
    fn exchange_many(server: &Arc<BatchSocket>, ask: &str) {
        let to = SocketAddr::new(ask.parse().unwrap(), server.socket.local_addr().unwrap().port());
        let clients: Vec<UdpSocket> = (0..3).map(|_| UdpSocket::bind((to.ip(), 0)).unwrap()).collect();
        for number in 0..60u8 {
            let bytes = vec![number; if number % 4 == 0 { 30 } else { 40 }];
            clients[usize::from(number) / 8 % 3].send_to(&bytes, to).unwrap();
        }
        assert_eq!(echo(server, 60).len(), 60);
        for (which, client) in clients.iter().enumerate() {
            client.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
            let mut seen: Vec<u8> = (0..60).filter(|number| number / 8 % 3 == which as u8).collect();
            while !seen.is_empty() {
                let mut buffer = [0; 100];
                let (len, from) = client.recv_from(&mut buffer).unwrap();
                let at = seen.iter().position(|&number| number == buffer[0]).unwrap();
                assert!(from == to && len == if buffer[0] % 4 == 0 { 30 } else { 40 });
                assert!(buffer[..len].iter().all(|&byte| byte == buffer[0]));
                seen.swap_remove(at);
            }
        }
    }

    #[test]
    fn responses_that_go_together_arrive_apart() {
        for (listen, ask) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.1"), ("[::]:0", "::1")] {
            let server = socket(listen);
            exchange_many(&server, ask);
            assert!(server.segments(), "the kernel takes runs on loopback");
        }
    }

    #[test]
    fn an_unsendable_response_does_not_disable_runs() {
        let server = socket("[::]:0");
        let to = SocketAddr::new("::1".parse().unwrap(), server.socket.local_addr().unwrap().port());
        let client = UdpSocket::bind("[::1]:0").unwrap();
        (0..16).for_each(|_| assert_eq!(client.send_to(&[7; 30], to).unwrap(), 30));
        let (mut batch, mut seen) = (Batch::new(), 0);
        while seen < 16 {
            assert_ne!(wait(std::slice::from_ref(&server), 2_000).unwrap(), 0, "got {seen} of 16");
            let count = batch.receive(&server).unwrap().count;
            for index in 0..count {
                // Nothing is sent from there: EINVAL, as for a run that the kernel does not take.
                batch.routes[index].local = Some("ff02::1".parse().unwrap());
                batch.respond(index, 30);
            }
            assert_eq!(batch.send(&server), count);
            seen += count;
        }
        assert!(server.segments(), "it was about the address");
        exchange_many(&server, "::1");
        assert!(server.segments());
    }

    #[test]
    fn multicast_datagrams_are_recognized() {
        let server = socket("0.0.0.0:0");
        let port = server.socket.local_addr().unwrap().port();
        let client = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        client.set_multicast_if_v4(&std::net::Ipv4Addr::LOCALHOST).unwrap();
        client.set_broadcast(true).unwrap();
        let (client, mut batch) = (UdpSocket::from(client), Batch::new());
        for (to, is_multicast) in [("127.0.0.7", false), ("127.255.255.255", true), ("224.0.0.1", true)] {
            client.send_to(b"question", (to, port)).unwrap();
            assert_ne!(wait(std::slice::from_ref(&server), 2_000).unwrap(), 0, "nothing came to {to}");
            assert_eq!(batch.receive(&server).unwrap().count, 1);
            let (received, _) = batch.exchange(0).unwrap();
            assert_eq!(received.is_multicast, is_multicast, "{to}");
        }
        for (to, is_multicast) in [("ff02::1", true), ("2001:db8::1", false)] {
            let (local, mut control) = (to.parse().unwrap(), Control([0; CONTROL_BYTES]));
            let len = write_source(&mut control.0, local);
            let to = read_destination(&control.0[..len]).unwrap();
            assert_eq!((to.local, to.is_multicast), (local, is_multicast));
        }
    }

    #[test]
    fn without_kernel_support_each_response_is_sent_alone() {
        let server = socket("127.0.0.1:0");
        // Without checksums there is nobody to make those of the parts.
        kernel::set_option(&server.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        exchange_many(&server, "127.0.0.1");
        assert!(!server.segments(), "it said so once");
        exchange_many(&server, "127.0.0.1");
    }
}
