//! Batched datagrams with only the system calls that a load generator needs.
//!
//! It shares no code with the engine, which is compared with it.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Messages per system call.
pub(crate) const BATCH: usize = 64;
/// Bytes kept of each datagram.
const SLOT_BYTES: usize = 512;
/// Size of a timestamp or segment length with its header.
const CONTROL_BYTES: usize = 64;
/// The control message with the segment length of a large datagram (linux/udp.h).
const UDP_SEGMENT: libc::c_int = 103;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Source and length of a datagram. Datagrams with equal source and length can be returned as one.
type Kin = (u32, u16, usize);

/// Sends on a connected socket.
pub(crate) struct Sender {
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self { iovecs: iovecs(), headers: headers() }
    }

    /// Sends up to a batch of the list, cyclically from `next` on. Returns how many messages the kernel accepted.
    pub(crate) fn send(&mut self, socket: &UdpSocket, list: &[Vec<u8>], next: usize, count: usize) -> usize {
        let count = count.min(BATCH);
        for index in 0..count {
            let message = &list[(next + index) % list.len()];
            self.iovecs[index] = libc::iovec { iov_base: message.as_ptr().cast_mut().cast(), iov_len: message.len() };
            self.headers[index].msg_hdr.msg_iov = &raw mut self.iovecs[index];
            self.headers[index].msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: `count` headers point at their own iovecs in `self`, and those at messages of `list`, with true
        // lengths; both are borrowed until the call has returned, and the kernel only reads them.
        let sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), self.headers.as_mut_ptr(), count as u32, 0) };
        usize::try_from(sent).unwrap_or(0)
    }
}

/// Received datagrams with their sources and kernel timestamps.
pub(crate) struct Batch {
    bytes: Vec<u8>,
    control: Vec<Control>,
    names: Vec<libc::sockaddr_in>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
    /// Headers for the responses.
    answers: Vec<libc::mmsghdr>,
    segments: Vec<libc::iovec>,
    segment_lengths: Vec<Control>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self {
            bytes: vec![0; BATCH * SLOT_BYTES],
            control: vec![Control([0; CONTROL_BYTES]); BATCH],
            // SAFETY: a sockaddr_in is integers, for which all zero bytes are a value.
            names: vec![unsafe { std::mem::zeroed() }; BATCH],
            iovecs: iovecs(),
            headers: headers(),
            answers: headers(),
            segments: iovecs(),
            segment_lengths: vec![Control([0; CONTROL_BYTES]); BATCH],
        }
    }

    /// Receives pending datagrams without blocking, without sources and timestamps. Returns their number.
    pub(crate) fn receive_bare(&mut self, socket: &UdpSocket) -> usize {
        for index in 0..BATCH {
            self.point(index);
        }
        self.receive_into(socket)
    }

    /// Receives pending datagrams without blocking. Returns their number.
    pub(crate) fn receive(&mut self, socket: &UdpSocket) -> usize {
        for index in 0..BATCH {
            self.point(index);
            let header = &mut self.headers[index].msg_hdr;
            header.msg_name = (&raw mut self.names[index]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            header.msg_control = (&raw mut self.control[index]).cast();
            header.msg_controllen = CONTROL_BYTES as _;
        }
        self.receive_into(socket)
    }

    fn point(&mut self, index: usize) {
        let slot = &mut self.bytes[index * SLOT_BYTES..][..SLOT_BYTES];
        self.iovecs[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: SLOT_BYTES };
        self.headers[index].msg_hdr.msg_iov = &raw mut self.iovecs[index];
        self.headers[index].msg_hdr.msg_iovlen = 1;
    }

    fn receive_into(&mut self, socket: &UdpSocket) -> usize {
        let (headers, count) = (self.headers.as_mut_ptr(), BATCH as u32);
        // SAFETY: BATCH headers, each with its own iovec over its own slot, and either no name and control buffer or
        // its own ones, with true lengths; all in memory of `self`, borrowed mutably until the call has returned.
        let count =
            unsafe { libc::recvmmsg(socket.as_raw_fd(), headers, count, libc::MSG_DONTWAIT, std::ptr::null_mut()) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Datagram `index` of the last [`Batch::receive`].
    pub(crate) fn message(&self, index: usize) -> &[u8] {
        &self.bytes[index * SLOT_BYTES..][..self.length(index)]
    }

    fn length(&self, index: usize) -> usize {
        (self.headers[index].msg_len as usize).min(SLOT_BYTES)
    }

    /// The kernel's receive time, on the wall clock.
    pub(crate) fn stamp(&self, index: usize) -> Option<Duration> {
        let control = &self.control[index].0;
        let word = |at: usize| i64::from_ne_bytes(control[at..at + 8].try_into().expect("eight bytes"));
        let half = |at: usize| i32::from_ne_bytes(control[at..at + 4].try_into().expect("four bytes"));
        // Total length (a word), level, type, seconds, nanoseconds.
        let is_there = self.headers[index].msg_hdr.msg_controllen >= 32;
        (is_there && (half(8), half(12)) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS))
            .then(|| Duration::new(word(16) as u64, word(24) as u32))
    }

    /// Returns the first `count` datagrams with QR set. With `together`, responses to one client are sent as one
    /// segmented datagram, so an answer costs this side less than a query costs the client.
    pub(crate) fn answer(&mut self, socket: &UdpSocket, count: usize, together: bool) {
        let mut order: [u8; BATCH] = std::array::from_fn(|index| index as u8);
        if together {
            order[..count].sort_by_key(|&index| self.kin(usize::from(index)));
        }
        let mut answers = 0;
        let mut start = 0;
        while start < count {
            let kin = self.kin(usize::from(order[start]));
            let alike = order[start..count].iter().take_while(|&&index| self.kin(usize::from(index)) == kin);
            let same = if together { alike.count() } else { 1 };
            self.gather(answers, start, &order[start..start + same], kin.2);
            answers += 1;
            start += same;
        }
        // SAFETY: `answers` headers were set by `gather` just above, each with a name, control data and iovecs of its
        // own in memory of `self`, which is borrowed mutably until the call has returned. A client that is gone makes
        // the call fail, which is its loss.
        let _sent = unsafe { libc::sendmmsg(socket.as_raw_fd(), self.answers.as_mut_ptr(), answers as u32, 0) };
    }

    fn kin(&self, index: usize) -> Kin {
        let name = &self.names[index];
        (name.sin_addr.s_addr, name.sin_port, self.length(index))
    }

    /// Combines the datagrams of one client, whose iovecs begin at `start`, into one message.
    fn gather(&mut self, answer: usize, start: usize, members: &[u8], length: usize) {
        for (offset, &index) in members.iter().enumerate() {
            let slot = &mut self.bytes[usize::from(index) * SLOT_BYTES..][..length.max(12)];
            slot[2] |= 0x80;
            self.segments[start + offset] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: length };
        }
        let control = &mut self.segment_lengths[answer].0;
        control[..8].copy_from_slice(&18usize.to_ne_bytes());
        control[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        control[12..16].copy_from_slice(&UDP_SEGMENT.to_ne_bytes());
        control[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
        let header = &mut self.answers[answer].msg_hdr;
        header.msg_name = (&raw mut self.names[usize::from(members[0])]).cast();
        header.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        header.msg_iov = &raw mut self.segments[start];
        header.msg_iovlen = members.len() as _;
        header.msg_control = if members.len() > 1 { control.as_mut_ptr().cast() } else { std::ptr::null_mut() };
        header.msg_controllen = if members.len() > 1 { 24 } else { 0 };
    }
}

fn iovecs() -> Vec<libc::iovec> {
    vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH]
}

fn headers() -> Vec<libc::mmsghdr> {
    // SAFETY: an mmsghdr is integers and pointers, for which all zero bytes are a value.
    vec![unsafe { std::mem::zeroed() }; BATCH]
}

/// Enables kernel timestamps for received datagrams.
pub(crate) fn enable_stamps(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe {
        let value = (&raw const on).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, value, size)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until a socket is readable, for at most `at_most_ms`. Returns whether one is.
pub(crate) fn wait(sockets: &[UdpSocket], at_most_ms: i32) -> bool {
    let mut watched: Vec<_> = sockets
        .iter()
        .map(|socket| libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    // SAFETY: the table is live with its true length.
    let count = unsafe { libc::poll(watched.as_mut_ptr(), watched.len() as libc::nfds_t, at_most_ms) };
    count > 0
}
