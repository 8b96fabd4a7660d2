//! Datagrams in batches: recvmmsg and sendmmsg over buffers that are allocated once.
//!
//! This folder is the only place of the server with `unsafe` on the packet path. The kernel's tables (`mmsghdr`,
//! `iovec`, addresses, control messages) point into one another. They are rebuilt before each call from indices into
//! memory that a [`DatagramBatch`] owns, so that no pointer outlives a call.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

// The requests and responses of a batch, for the code that answers them.
mod exchange;
mod index_set;
// Addresses, control messages and options in the kernel's format.
mod kernel;
// Which responses share one message to the kernel.
mod runs;
// A socket, and waiting for several.
mod socket;

pub(crate) use index_set::IndexSet;
pub(crate) use socket::{BatchSocket, wait};

use crate::limits::{DATAGRAM_BYTES_MAX, UDP_BATCH_COUNT};
use config::limits::UDP_RESPONSE_BYTES_MAX;
use kernel::{CONTROL_BYTES, Control, from_storage, read_destination, storage_len, write_segment, write_source};
use runs::{Response, group_by_route, run_len};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// Bytes from one receive slot to the next: a whole datagram, and three cache lines more. So the first lines of the
/// slots do not all share the same cache sets.
const RECEIVE_STRIDE: usize = DATAGRAM_BYTES_MAX + 1 + 3 * 64;
/// Fewest slots offered to the kernel. Otherwise twice as many as arrived last time, so that a quiet worker does not
/// set up a whole batch for one datagram.
const SLOTS_MIN: usize = 4;

/// The sender and the destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Route {
    /// `None` if it is neither IPv4 nor IPv6.
    peer: Option<SocketAddr>,
    local: Option<IpAddr>,
}

/// Buffers for one worker: receive slots, send slots, and the tables for the kernel.
pub(crate) struct DatagramBatch {
    received: Vec<u8>,
    sent: Vec<u8>,
    addresses: Vec<libc::sockaddr_storage>,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Slots that the next receive offers.
    slot_count: usize,
    /// The last receive: the number of datagrams, the length of each, and its route.
    count: usize,
    lengths: [usize; UDP_BATCH_COUNT],
    routes: [Route; UDP_BATCH_COUNT],
    /// The datagrams that may get a response, and the number of datagrams to a multicast group or broadcast address.
    answerable: IndexSet,
    multicast_count: usize,
    /// The outcomes of the datagrams. Deferred ones go to the update threads.
    responses: [Response; UDP_BATCH_COUNT],
    response_count: usize,
    deferred: IndexSet,
    panic_count: usize,
}

impl DatagramBatch {
    /// Allocates all memory that a worker needs.
    pub(crate) fn new() -> Self {
        // SAFETY: these three hold only integers and pointers, for which all zero bytes are valid.
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
            answerable: IndexSet::default(),
            multicast_count: 0,
            responses: [Response::default(); UDP_BATCH_COUNT],
            response_count: 0,
            deferred: IndexSet::default(),
            panic_count: 0,
        }
    }

    /// Receives up to a batch of datagrams without blocking; returns whether there may be more.
    pub(crate) fn receive(&mut self, from: &BatchSocket) -> io::Result<bool> {
        self.reset();
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
                error if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(false),
                error => Err(error),
            };
        }
        self.count = count as usize;
        self.slot_count = (2 * self.count).clamp(SLOTS_MIN, UDP_BATCH_COUNT);
        for index in 0..self.count {
            self.lengths[index] = (self.headers[index].msg_len as usize).min(DATAGRAM_BYTES_MAX);
            let control_len = self.headers[index].msg_hdr.msg_controllen.min(CONTROL_BYTES);
            let to = read_destination(&self.control[index].0[..control_len]);
            let peer = from_storage(&self.addresses[index]);
            self.routes[index] = Route { peer, local: to.map(|to| to.local) };
            if peer.is_some() {
                if to.is_some_and(|to| to.is_multicast) {
                    self.multicast_count += 1;
                } else {
                    self.answerable.insert(index);
                }
            }
        }
        Ok(self.count == offered)
    }

    /// Clears the datagrams of the last receive, and their outcomes.
    fn reset(&mut self) {
        self.count = 0;
        self.answerable = IndexSet::default();
        self.multicast_count = 0;
        self.response_count = 0;
        self.deferred = IndexSet::default();
        self.panic_count = 0;
    }

    /// Sends the responses of this batch; returns how many the kernel rejected.
    pub(crate) fn send(&mut self, to: &BatchSocket) -> usize {
        let routes = &self.routes;
        group_by_route(&mut self.responses[..self.response_count], |one, other| routes[one] == routes[other]);
        let (mut first, mut refused) = (0, 0);
        // The error of a rejected run, and where the run ends. Until there each response is sent alone.
        let mut refused_run: Option<(io::Error, usize)> = None;
        while first < self.response_count {
            if refused_run.as_ref().is_some_and(|&(_, end)| first >= end) {
                refused_run = None;
            }
            let together = refused_run.is_none() && to.segments();
            // The number of responses in each message, and the number of messages.
            let mut runs = [0; UDP_BATCH_COUNT];
            let run_count = self.build_messages(to, first, together, &mut runs);
            let (sent, error) = self.send_messages(to, run_count);
            // A response of the rejected run was accepted alone, so the kernel rejects runs.
            if sent > 0
                && let Some((error, _)) = refused_run.take().filter(|(error, _)| may_reject_runs(error))
            {
                to.disable_segmentation(&error);
            }
            first += runs[..sent].iter().sum::<usize>();
            match error {
                None => {}
                Some(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The rejected message is a run: its responses may still be accepted alone.
                Some(error) if runs[sent] > 1 => refused_run = Some((error, first + runs[sent])),
                // This one cannot be sent: its address is unreachable, or the buffer is full. The client retries.
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

    /// Echoes batches until `want` datagrams have arrived; returns their lengths.
    fn echo(server: &Arc<BatchSocket>, want: usize) -> Vec<usize> {
        let mut batch = DatagramBatch::new();
        let mut seen = Vec::new();
        while seen.len() < want {
            assert_ne!(wait(std::slice::from_ref(server), 2_000).unwrap(), 0, "got {} of {want}", seen.len());
            batch.receive(server).unwrap();
            for index in 0..batch.len() {
                let (datagram, out) = batch.exchange(index).unwrap();
                let len = datagram.bytes.len().min(out.len());
                out[..len].copy_from_slice(&datagram.bytes[..len]);
                seen.push(datagram.bytes.len());
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
            // The most that loopback carries: 65,535 less the IPv4 and UDP headers.
            let len = 65_507;
            client.send_to(&vec![7; len], server.socket.local_addr().unwrap()).unwrap();
            assert_eq!(echo(&server, 1), [len]);
        }
    }

    /// On loopback, IPv6 has only one address. `tests/it/packets.rs` tests two addresses with real processes.
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

    /// Sends datagrams of two lengths from three clients, and checks that each client gets its own responses.
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
        let (mut batch, mut seen) = (DatagramBatch::new(), 0);
        while seen < 16 {
            assert_ne!(wait(std::slice::from_ref(&server), 2_000).unwrap(), 0, "got {seen} of 16");
            batch.receive(&server).unwrap();
            let count = batch.len();
            for index in 0..count {
                // This source address is invalid. The kernel says EINVAL, as for a run that it rejects.
                batch.routes[index].local = Some("ff02::1".parse().unwrap());
                batch.respond(index, 30);
            }
            assert_eq!(batch.send(&server), count);
            seen += count;
        }
        assert!(server.segments(), "the address was wrong, not the run");
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
        let (client, mut batch) = (UdpSocket::from(client), DatagramBatch::new());
        for (to, is_multicast) in [("127.0.0.7", false), ("127.255.255.255", true), ("224.0.0.1", true)] {
            client.send_to(b"question", (to, port)).unwrap();
            assert_ne!(wait(std::slice::from_ref(&server), 2_000).unwrap(), 0, "nothing came to {to}");
            batch.receive(&server).unwrap();
            assert_eq!(batch.len(), 1);
            assert_eq!(
                (batch.multicast_count(), batch.answerable().contains(0)),
                (is_multicast.into(), !is_multicast),
                "{to}"
            );
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
        // Without checksums the kernel rejects runs.
        kernel::set_option(&server.socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, 1).unwrap();
        exchange_many(&server, "127.0.0.1");
        assert!(!server.segments(), "the kernel rejected a run");
        exchange_many(&server, "127.0.0.1");
    }
}
