//! Datagrams in batches: sendmmsg and recvmmsg over memory that is allocated once. On a connected socket, or on one
//! that is not, with a source address for each message.
//!
//! With `system`, the only file of the laboratory with `unsafe`. The kernel wants tables of pointers into one
//! another; they are set up afresh before each call from indices into memory that this file owns.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use crate::engine::system::{memory, stamp_of};
use crate::limits::{BATCH_COUNT, QUERY_BYTES_MAX, RESPONSE_BYTES_KEPT, UNFRAGMENTED_BYTES_MAX};
use socket2::SockAddr;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Between two slots: three cache lines, so that first lines of slots do not share a set of the cache.
const SLOT_BYTES_APART: usize = 3 * 64;
/// A time stamp and the address that a datagram was sent to, each with its head.
const CONTROL_BYTES: usize = 96;
/// Bytes of an address of either family with its port.
const NAME_BYTES: usize = size_of::<libc::sockaddr_in6>();

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Name([u8; NAME_BYTES]);

/// Bytes of queries that go together; the kernel takes no more than an IP packet holds.
const RUN_BYTES_MAX: usize = 61_440;

/// Queries that go out together.
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: [usize; BATCH_COUNT],
    count: usize,
    /// To whom; on a connected socket nobody is named.
    destination: Option<SockAddr>,
    /// To whom each message goes, where each has its own recipient; empty otherwise.
    recipients: Vec<Option<SockAddr>>,
    /// From which address each message goes, where somebody is named.
    sources: [Option<IpAddr>; BATCH_COUNT],
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Outgoing {
    /// For a socket that is not connected.
    pub(in crate::engine) fn to(destination: SocketAddr) -> Self {
        Self { destination: Some(destination.into()), ..Self::new() }
    }

    /// The same, with a recipient for each message.
    pub(crate) fn to_each() -> Self {
        Self { recipients: vec![None; BATCH_COUNT], ..Self::new() }
    }

    pub(in crate::engine) fn new() -> Self {
        Self {
            destination: None,
            recipients: Vec::new(),
            sources: [None; BATCH_COUNT],
            bytes: memory(BATCH_COUNT * QUERY_BYTES_MAX),
            ends: [0; BATCH_COUNT],
            count: 0,
            control: vec![Control([0; CONTROL_BYTES]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr is integers and pointers, for which all zero bytes are a value.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(in crate::engine) fn bytes_of(&self, index: usize) -> usize {
        self.ends[index] - self.start(index)
    }

    pub(in crate::engine) fn message(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index]]
    }

    /// Has the newest message go from an address; the kernel chooses one where none is said.
    pub(crate) fn go_from(&mut self, source: Option<IpAddr>) {
        self.sources[self.count - 1] = source;
    }

    /// From which address message `index` goes, where one is said.
    pub(in crate::engine) fn source(&self, index: usize) -> Option<IpAddr> {
        self.sources[index]
    }

    /// Has the newest message go to somebody, where each has its own recipient.
    pub(crate) fn go_to(&mut self, recipient: SocketAddr) {
        self.recipients[self.count - 1] = Some(recipient.into());
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |previous| self.ends[previous])
    }

    /// Adds a message: `fill` writes it and gives its length.
    ///
    /// # Panics
    /// When the batch is full.
    pub(crate) fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> &mut [u8] {
        assert!(self.count < BATCH_COUNT);
        let start = self.start(self.count);
        let slot = &mut self.bytes[start..start + QUERY_BYTES_MAX];
        let length = fill(slot);
        self.ends[self.count] = start + length;
        self.count += 1;
        &mut self.bytes[start..start + length]
    }

    /// Sends from message `from` on; gives how many the kernel took. With `together` those of one length and one source
    /// beside one another are given to it as one that it takes apart, where all have one recipient.
    pub(crate) fn send(&mut self, socket: &impl AsRawFd, from: usize, together: bool) -> io::Result<usize> {
        let mut runs = [0; BATCH_COUNT];
        let run_count = self.lay_out(from, together, &mut runs);
        let headers = &mut self.headers[..run_count];
        // SAFETY: each header points at its own iovec and control message, and the iovec at messages in a row, set by
        // `lay_out` just above with true lengths, all in memory of `self`, which is borrowed mutably until the call has
        // returned; so are the names that there may be, which the kernel only reads.
        let count = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(runs[..count as usize].iter().sum()) }
    }

    /// Makes runs of the messages from `from` on; notes how many messages each holds, and gives how many runs there
    /// are.
    fn lay_out(&mut self, from: usize, together: bool, runs: &mut [usize; BATCH_COUNT]) -> usize {
        let (mut at, mut run_count) = (from, 0);
        while at < self.count {
            let length = self.bytes_of(at);
            let run = if together && self.recipients.is_empty() { self.run_len(at, length) } else { 1 };
            let start = self.start(at);
            let messages = &mut self.bytes[start..self.ends[at + run - 1]];
            self.iovecs[run_count] = libc::iovec { iov_base: messages.as_mut_ptr().cast(), iov_len: messages.len() };
            let header = &mut self.headers[run_count].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[run_count];
            header.msg_iovlen = 1;
            let (control, mut bytes) = (&mut self.control[run_count], 0);
            let recipient = self.recipients.get(at).and_then(Option::as_ref);
            if let Some(destination) = recipient.or(self.destination.as_ref()) {
                header.msg_name = destination.as_ptr().cast_mut().cast();
                header.msg_namelen = destination.len();
                if let Some(source) = self.sources[at] {
                    bytes += put_source(&mut control.0, source);
                }
            }
            if run > 1 {
                bytes += put_segment(&mut control.0[bytes..], length);
            }
            header.msg_control = if bytes > 0 { (&raw mut *control).cast() } else { std::ptr::null_mut() };
            header.msg_controllen = bytes as _;
            runs[run_count] = run;
            run_count += 1;
            at += run;
        }
        run_count
    }

    /// How many messages of this length and from the source of the first stand in a row.
    fn run_len(&self, at: usize, length: usize) -> usize {
        if length == 0 || length > UNFRAGMENTED_BYTES_MAX {
            return 1;
        }
        let most = (RUN_BYTES_MAX / length).min(self.count - at);
        let source = self.sources[at];
        (at..at + most).take_while(|&index| self.bytes_of(index) == length && self.sources[index] == source).count()
    }
}

/// The control message that says how long each datagram of a large one is (UDP_SEGMENT of udp(7)); its bytes.
fn put_segment(control: &mut [u8], length: usize) -> usize {
    put_control(control, libc::SOL_UDP, libc::UDP_SEGMENT, &(length as u16).to_ne_bytes())
}

/// The control message that says from which address a datagram goes (IP_PKTINFO of ip(7), RFC 3542 6.1): interface,
/// source and nothing, or source and interface; its bytes.
fn put_source(control: &mut [u8], source: IpAddr) -> usize {
    match source {
        IpAddr::V4(source) => {
            let mut info = [0; 12];
            info[4..8].copy_from_slice(&source.octets());
            put_control(control, libc::IPPROTO_IP, libc::IP_PKTINFO, &info)
        }
        IpAddr::V6(source) => {
            let mut info = [0; 20];
            info[..16].copy_from_slice(&source.octets());
            put_control(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info)
        }
    }
}

/// Length of all (a word), level, type, and what it says (cmsg(3)); gives the bytes of it, filled up to whole words.
fn put_control(control: &mut [u8], level: libc::c_int, kind: libc::c_int, said: &[u8]) -> usize {
    let length = HEAD_BYTES + said.len();
    control[..8].copy_from_slice(&length.to_ne_bytes());
    control[8..12].copy_from_slice(&level.to_ne_bytes());
    control[12..16].copy_from_slice(&kind.to_ne_bytes());
    control[HEAD_BYTES..length].copy_from_slice(said);
    length.next_multiple_of(8)
}

/// Bytes of the head of a control message.
const HEAD_BYTES: usize = 16;

/// The address that a datagram was sent to, in its control data.
fn destination_of(mut control: &[u8]) -> Option<IpAddr> {
    loop {
        let length = usize::from_ne_bytes(control.get(..8)?.try_into().ok()?);
        let half = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
        let data = control.get(HEAD_BYTES..length)?;
        match (half(8)?, half(12)?) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                return Some(<[u8; 4]>::try_from(data.get(8..12)?).ok()?.into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                return Some(<[u8; 16]>::try_from(data.get(..16)?).ok()?.into());
            }
            _ => control = control.get(length.next_multiple_of(8)..)?,
        }
    }
}

/// The address and port in a name that the kernel wrote: family, port, and of IPv6 a word between.
fn address_of(name: &Name) -> Option<SocketAddr> {
    let [family @ .., high, low] = *name.0.first_chunk::<4>()?;
    let port = u16::from_be_bytes([high, low]);
    match libc::c_int::from(u16::from_ne_bytes(family)) {
        libc::AF_INET => Some((<[u8; 4]>::try_from(&name.0[4..8]).ok()?, port).into()),
        libc::AF_INET6 => Some((<[u8; 16]>::try_from(&name.0[8..24]).ok()?, port).into()),
        _ => None,
    }
}

/// Datagrams that came in together.
pub(crate) struct Incoming {
    bytes: Vec<u8>,
    /// Bytes of each datagram that are kept.
    bytes_kept: usize,
    /// Who sent each; empty where nobody asks.
    names: Vec<Name>,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Incoming {
    pub(in crate::engine) fn new() -> Self {
        Self::keeping(RESPONSE_BYTES_KEPT)
    }

    /// With room for so many bytes of each datagram.
    pub(crate) fn keeping(bytes_kept: usize) -> Self {
        Self {
            bytes: memory(BATCH_COUNT * (bytes_kept + SLOT_BYTES_APART)),
            bytes_kept,
            names: Vec::new(),
            control: vec![Control([0; CONTROL_BYTES]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr is integers and pointers, for which all zero bytes are a value.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    /// With the sender of each datagram.
    pub(crate) fn with_senders(self) -> Self {
        Self { names: vec![Name([0; NAME_BYTES]); BATCH_COUNT], ..self }
    }

    /// Takes what waits, without waiting; gives how many.
    pub(crate) fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
        for index in 0..BATCH_COUNT {
            let slot = &mut self.bytes[index * (self.bytes_kept + SLOT_BYTES_APART)..][..self.bytes_kept];
            self.iovecs[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        for index in 0..BATCH_COUNT {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.control[index]).cast();
            header.msg_controllen = CONTROL_BYTES as _;
            header.msg_flags = 0;
        }
        for (header, name) in self.headers.iter_mut().zip(&mut self.names) {
            header.msg_hdr.msg_name = (&raw mut *name).cast();
            header.msg_hdr.msg_namelen = NAME_BYTES as libc::socklen_t;
        }
        // SAFETY: `headers` has BATCH_COUNT entries; each points at its own control buffer and iovec, and each iovec at
        // its own slot, set just above with true lengths, all in memory of `self`, which is borrowed mutably until the
        // call has returned; so are names, or they are null.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH_COUNT as libc::c_uint,
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
        Ok(count as usize)
    }

    /// Datagram `index` of the last [`Incoming::receive`], as far as it is kept.
    pub(crate) fn message(&self, index: usize) -> &[u8] {
        let length = (self.headers[index].msg_len as usize).min(self.bytes_kept);
        &self.bytes[index * (self.bytes_kept + SLOT_BYTES_APART)..][..length]
    }

    /// Who sent it, where that is asked for.
    pub(crate) fn sender(&self, index: usize) -> Option<SocketAddr> {
        address_of(self.names.get(index)?)
    }

    /// The address that it was sent to, where the socket is to tell that.
    pub(crate) fn destination(&self, index: usize) -> Option<IpAddr> {
        let length = self.headers[index].msg_hdr.msg_controllen;
        destination_of(self.control[index].0.get(..length.min(CONTROL_BYTES))?)
    }

    /// When the kernel received it, on the wall clock; `None` when it does not say.
    pub(in crate::engine) fn stamp(&self, index: usize) -> Option<Duration> {
        let length = self.headers[index].msg_hdr.msg_controllen;
        stamp_of(self.control[index].0.get(..length.min(CONTROL_BYTES))?)
    }
}

// SAFETY: the pointers in the tables are set before each call and read by nobody between calls; what they point at is
// owned by the same value and moves with it.
unsafe impl Send for Outgoing {}
// SAFETY: as for `Outgoing`; what reads a datagram reads indices and lengths, not pointers.
unsafe impl Send for Incoming {}

/// Datagrams that the kernel threw away because nobody read the socket in time (SK_MEMINFO_DROPS).
pub(in crate::engine) fn dropped(socket: &impl AsRawFd) -> u32 {
    /// Index of the counter, and how many values the kernel gives.
    const DROPS: usize = 8;
    const COUNT: usize = 9;
    let mut values = [0u32; COUNT];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the buffer is live and its size is given; the kernel writes no more than that.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if done < 0 { 0 } else { values[DROPS] }
}

/// What [`wait`](crate::engine::system::wait) watches.
pub(in crate::engine) fn watch(socket: &UdpSocket) -> libc::pollfd {
    libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::system::{enable_stamps, tell_destinations};
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::time::Instant;

    /// What has come to a socket, within a patience: bytes, sender, destination.
    fn take(socket: &UdpSocket, count: usize) -> Vec<(Vec<u8>, Option<SocketAddr>, Option<IpAddr>)> {
        let (mut incoming, mut taken) = (Incoming::new().with_senders(), Vec::new());
        let start = Instant::now();
        while taken.len() < count && start.elapsed() < Duration::from_secs(10) {
            for index in 0..incoming.receive(socket).unwrap() {
                let message = incoming.message(index).to_vec();
                taken.push((message, incoming.sender(index), incoming.destination(index)));
            }
        }
        taken
    }

    fn socket(address: IpAddr) -> UdpSocket {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        tell_destinations(&socket, address.is_ipv6()).unwrap();
        // The stamp stands before the address.
        enable_stamps(&socket).unwrap();
        socket
    }

    #[test]
    fn each_message_has_its_own_source_and_answers_find_it() {
        let (near, far) = (socket(Ipv4Addr::UNSPECIFIED.into()), socket(Ipv4Addr::UNSPECIFIED.into()));
        let (port, far_port) = (near.local_addr().unwrap().port(), far.local_addr().unwrap().port());
        let server = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 53), far_port));
        let sources: Vec<IpAddr> = (1..=5).map(|last| Ipv4Addr::new(127, 9, 8, last).into()).collect();
        let mut outgoing = Outgoing::to(server);
        for (index, source) in sources.iter().enumerate() {
            outgoing.push(|slot| {
                slot[..3].fill(index as u8);
                3
            });
            outgoing.go_from(Some(*source));
        }
        assert_eq!(outgoing.send(&near, 0, true).unwrap(), 5);
        let came = take(&far, 5);
        let senders: Vec<_> = came.iter().map(|(bytes, sender, _)| (bytes[0], *sender)).collect();
        let expected: Vec<_> =
            (0..).zip(&sources).map(|(index, &source)| (index, Some(SocketAddr::new(source, port)))).collect();
        assert_eq!(senders, expected);
        assert!(came.iter().all(|(bytes, _, to)| bytes.len() == 3 && *to == Some(server.ip())), "{came:?}");
        let mut answers = Outgoing::to(SocketAddr::new(sources[3], port));
        answers.push(|slot| {
            slot[0] = 9;
            1
        });
        answers.go_from(Some(server.ip()));
        assert_eq!(answers.send(&far, 0, false).unwrap(), 1);
        let [(bytes, sender, to)] = &take(&near, 1)[..] else { panic!("no answer") };
        assert_eq!((&bytes[..], *sender, *to), (&[9][..], Some(server), Some(sources[3])));
    }

    #[test]
    fn segmented_sends_arrive_as_separate_datagrams() {
        let mut families: Vec<(IpAddr, [IpAddr; 2])> =
            vec![(Ipv4Addr::LOCALHOST.into(), [[127, 9, 8, 1].into(), [127, 9, 8, 2].into()])];
        if UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
            families.push((Ipv6Addr::LOCALHOST.into(), [Ipv6Addr::LOCALHOST.into(); 2]));
        } else {
            println!("skipped: no IPv6 here");
        }
        for (address, [one, other]) in families {
            let any: IpAddr = if address.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
            let (near, far) = (socket(any), socket(address));
            let mut outgoing = Outgoing::to(far.local_addr().unwrap());
            // Runs end with a source, with a length, and with the batch.
            let all: Vec<(usize, IpAddr)> =
                [(40, one), (40, one), (40, other), (40, other), (40, other), (41, other), (40, other), (40, one)]
                    .into();
            for (index, &(length, source)) in all.iter().enumerate() {
                outgoing.push(|slot| {
                    slot[..length].fill(index as u8);
                    length
                });
                outgoing.go_from(Some(source));
            }
            let mut runs = [0; BATCH_COUNT];
            let count = outgoing.lay_out(0, true, &mut runs);
            let expected: &[usize] = if one == other { &[5, 1, 2] } else { &[2, 3, 1, 1, 1] };
            assert_eq!(&runs[..count], expected);
            assert_eq!(outgoing.send(&near, 0, true).unwrap(), all.len());
            let came: Vec<_> = take(&far, all.len()).into_iter().map(|(bytes, from, _)| (bytes, from)).collect();
            let port = near.local_addr().unwrap().port();
            let sent = (0..).zip(&all).map(|(index, &(length, from))| (vec![index; length], Some((from, port).into())));
            assert_eq!(came, sent.collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_message_can_have_its_own_destination() {
        let far: Vec<_> = (0..2).map(|_| socket(Ipv4Addr::LOCALHOST.into())).collect();
        let near = socket(Ipv4Addr::UNSPECIFIED.into());
        let mut outgoing = Outgoing::to_each();
        for round in 0..2 {
            for (index, far) in far.iter().enumerate() {
                outgoing.push(|slot| {
                    slot[..2].copy_from_slice(&[round, index as u8]);
                    2
                });
                outgoing.go_from(Some(Ipv4Addr::new(127, 0, 0, 9).into()));
                outgoing.go_to(far.local_addr().unwrap());
            }
        }
        assert_eq!(outgoing.send(&near, 0, true).unwrap(), 4);
        for (index, far) in far.iter().enumerate() {
            let came = take(far, 2);
            let bytes: Vec<_> = came.iter().map(|(bytes, ..)| bytes.clone()).collect();
            assert_eq!(bytes, [[0, index as u8], [1, index as u8]]);
            assert!(came.iter().all(|(_, sender, _)| sender.unwrap().ip() == Ipv4Addr::new(127, 0, 0, 9)));
        }
    }

    #[test]
    fn ipv6_is_told_too() {
        let Ok(probe) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
            println!("skipped: no IPv6 here");
            return;
        };
        drop(probe);
        let (near, far) = (socket(Ipv6Addr::UNSPECIFIED.into()), socket(Ipv6Addr::UNSPECIFIED.into()));
        let server = SocketAddr::from((Ipv6Addr::LOCALHOST, far.local_addr().unwrap().port()));
        let mut outgoing = Outgoing::to(server);
        outgoing.push(|slot| {
            slot[0] = 7;
            1
        });
        outgoing.go_from(Some(Ipv6Addr::LOCALHOST.into()));
        assert_eq!(outgoing.send(&near, 0, false).unwrap(), 1);
        let [(bytes, sender, to)] = &take(&far, 1)[..] else { panic!("no query") };
        let expected = SocketAddr::from((Ipv6Addr::LOCALHOST, near.local_addr().unwrap().port()));
        assert_eq!((&bytes[..], *sender, *to), (&[7][..], Some(expected), Some(server.ip())));
    }

    #[test]
    fn truncated_control_data_is_ignored() {
        let mut control = [0; CONTROL_BYTES];
        assert_eq!(put_source(&mut control, Ipv4Addr::new(127, 0, 0, 9).into()), 32);
        for end in 0..28 {
            assert_eq!(destination_of(&control[..end]), None, "{end}");
        }
        assert_eq!(destination_of(&[0; CONTROL_BYTES]), None);
    }
}
