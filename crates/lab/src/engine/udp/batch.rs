//! Datagrams in batches on a connected socket: sendmmsg and recvmmsg over memory that is allocated once.
//!
//! With `system`, the only file of the laboratory with `unsafe`. The kernel wants tables of pointers into one
//! another; they are set up afresh before each call from indices into memory that this file owns.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use crate::engine::system::{memory, stamp_of};
use crate::limits::{BATCH_COUNT, QUERY_OCTETS_MAX, RESPONSE_OCTETS_KEPT};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Between two slots: three cache lines, so that first lines of slots do not share a set of the cache.
const SLOT_OCTETS_APART: usize = 3 * 64;
/// One time stamp with its head.
const CONTROL_OCTETS: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_OCTETS]);

/// Longest query that goes to the kernel together with others: it fits the smallest link of IPv6 (RFC 8200 5).
const SEGMENT_OCTETS_MAX: usize = 1_232;
/// Octets of queries that go together; the kernel takes no more than an IP packet holds.
const RUN_OCTETS_MAX: usize = 61_440;

/// Queries that go out together.
pub(in crate::engine) struct Outgoing {
    octets: Vec<u8>,
    /// Where each message ends.
    ends: [usize; BATCH_COUNT],
    count: usize,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Outgoing {
    pub(in crate::engine) fn new() -> Self {
        Self {
            octets: memory(BATCH_COUNT * QUERY_OCTETS_MAX),
            ends: [0; BATCH_COUNT],
            count: 0,
            control: vec![Control([0; CONTROL_OCTETS]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr is integers and pointers, for which all zero octets are a value.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    pub(in crate::engine) fn clear(&mut self) {
        self.count = 0;
    }

    pub(in crate::engine) fn count(&self) -> usize {
        self.count
    }

    pub(in crate::engine) fn octets_of(&self, index: usize) -> usize {
        self.ends[index] - self.start(index)
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |previous| self.ends[previous])
    }

    /// Adds a message: `fill` writes it and gives its length.
    ///
    /// # Panics
    /// When the batch is full.
    pub(in crate::engine) fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> &mut [u8] {
        assert!(self.count < BATCH_COUNT);
        let start = self.start(self.count);
        let slot = &mut self.octets[start..start + QUERY_OCTETS_MAX];
        let length = fill(slot);
        self.ends[self.count] = start + length;
        self.count += 1;
        &mut self.octets[start..start + length]
    }

    /// Sends from message `from` on; gives how many the kernel took. With `together` those of one length beside one
    /// another are given to it as one that it takes apart.
    pub(in crate::engine) fn send(&mut self, socket: &UdpSocket, from: usize, together: bool) -> io::Result<usize> {
        let mut runs = [0; BATCH_COUNT];
        let run_count = self.lay_out(from, together, &mut runs);
        let headers = &mut self.headers[..run_count];
        // SAFETY: each header points at its own iovec and control message, and the iovec at messages in a row, set by
        // `lay_out` just above with true lengths, all in memory of `self`, which is borrowed mutably until the call has
        // returned; names are null.
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
            let length = self.octets_of(at);
            let run = if together { self.run_len(at, length) } else { 1 };
            let start = self.start(at);
            let messages = &mut self.octets[start..self.ends[at + run - 1]];
            self.iovecs[run_count] = libc::iovec { iov_base: messages.as_mut_ptr().cast(), iov_len: messages.len() };
            let header = &mut self.headers[run_count].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[run_count];
            header.msg_iovlen = 1;
            (header.msg_control, header.msg_controllen) = (std::ptr::null_mut(), 0);
            if run > 1 {
                self.control[run_count] = segment(length);
                header.msg_control = (&raw mut self.control[run_count]).cast();
                header.msg_controllen = SEGMENT_CONTROL_OCTETS as _;
            }
            runs[run_count] = run;
            run_count += 1;
            at += run;
        }
        run_count
    }

    /// How many messages of this length stand in a row.
    fn run_len(&self, at: usize, length: usize) -> usize {
        if length == 0 || length > SEGMENT_OCTETS_MAX {
            return 1;
        }
        let most = (RUN_OCTETS_MAX / length).min(self.count - at);
        (at..at + most).take_while(|&index| self.octets_of(index) == length).count()
    }
}

/// Octets of the control message of [`segment`].
const SEGMENT_CONTROL_OCTETS: usize = 24;

/// The control message that says how long each datagram of a large one is: length of all (a word), level, type, length.
fn segment(length: usize) -> Control {
    let mut control = Control([0; CONTROL_OCTETS]);
    control.0[..8].copy_from_slice(&18usize.to_ne_bytes());
    control.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
    control.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
    control.0[16..18].copy_from_slice(&(length as u16).to_ne_bytes());
    control
}

/// Datagrams that came in together.
pub(in crate::engine) struct Incoming {
    octets: Vec<u8>,
    /// Octets of each datagram that are kept.
    octets_kept: usize,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Incoming {
    pub(in crate::engine) fn new() -> Self {
        Self::keeping(RESPONSE_OCTETS_KEPT)
    }

    /// With room for so many octets of each datagram.
    pub(in crate::engine) fn keeping(octets_kept: usize) -> Self {
        Self {
            octets: memory(BATCH_COUNT * (octets_kept + SLOT_OCTETS_APART)),
            octets_kept,
            control: vec![Control([0; CONTROL_OCTETS]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr is integers and pointers, for which all zero octets are a value.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    /// Takes what waits, without waiting; gives how many.
    pub(in crate::engine) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for index in 0..BATCH_COUNT {
            let slot = &mut self.octets[index * (self.octets_kept + SLOT_OCTETS_APART)..][..self.octets_kept];
            self.iovecs[index] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot.len() };
        }
        for index in 0..BATCH_COUNT {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut self.control[index]).cast();
            header.msg_controllen = CONTROL_OCTETS as _;
            header.msg_flags = 0;
        }
        // SAFETY: `headers` has BATCH_COUNT entries; each points at its own control buffer and iovec, and each iovec at
        // its own slot, set just above with true lengths, all in memory of `self`, which is borrowed mutably until the
        // call has returned; names are null.
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
    pub(in crate::engine) fn message(&self, index: usize) -> &[u8] {
        let length = (self.headers[index].msg_len as usize).min(self.octets_kept);
        &self.octets[index * (self.octets_kept + SLOT_OCTETS_APART)..][..length]
    }

    /// When the kernel received it, on the wall clock; `None` when it does not say.
    pub(in crate::engine) fn stamp(&self, index: usize) -> Option<Duration> {
        let length = self.headers[index].msg_hdr.msg_controllen;
        stamp_of(self.control[index].0.get(..length.min(CONTROL_OCTETS))?)
    }
}

// SAFETY: the pointers in the tables are set before each call and read by nobody between calls; what they point at is
// owned by the same value and moves with it.
unsafe impl Send for Outgoing {}
// SAFETY: as for `Outgoing`; `message` and `stamp` read indices and lengths, not pointers.
unsafe impl Send for Incoming {}

/// Datagrams that the kernel threw away because nobody read the socket in time (SK_MEMINFO_DROPS).
pub(in crate::engine) fn dropped(socket: &UdpSocket) -> u32 {
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
