//! Datagrams in batches on a connected socket: sendmmsg and recvmmsg over memory that is allocated once.
//!
//! With `system`, the only file of the laboratory with `unsafe`. The kernel wants tables of pointers into one
//! another; they are set up afresh before each call from indices into memory that this file owns.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

use crate::limits::{BATCH_COUNT, QUERY_OCTETS_MAX, RESPONSE_OCTETS_KEPT};
use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// From one slot to the next: three cache lines over, so that first lines of slots do not share a set of the cache.
const SLOT_OCTETS: usize = RESPONSE_OCTETS_KEPT + 3 * 64;
/// One time stamp with its head.
const CONTROL_OCTETS: usize = 64;

#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL_OCTETS]);

/// Queries that go out together.
pub(in crate::engine) struct Outgoing {
    octets: Vec<u8>,
    /// Where each message ends.
    ends: [usize; BATCH_COUNT],
    count: usize,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Outgoing {
    pub(in crate::engine) fn new() -> Self {
        Self {
            octets: vec![0; BATCH_COUNT * QUERY_OCTETS_MAX],
            ends: [0; BATCH_COUNT],
            count: 0,
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

    /// Sends from message `from` on; gives how many the kernel took.
    pub(in crate::engine) fn send(&mut self, socket: &UdpSocket, from: usize) -> io::Result<usize> {
        for index in from..self.count {
            let start = self.start(index);
            let message = &mut self.octets[start..self.ends[index]];
            self.iovecs[index] = libc::iovec { iov_base: message.as_mut_ptr().cast(), iov_len: message.len() };
        }
        for index in from..self.count {
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.iovecs[index];
            header.msg_iovlen = 1;
        }
        let headers = &mut self.headers[from..self.count];
        // SAFETY: each header points at its own iovec and that at its own message, set just above with true lengths,
        // all in memory of `self`, which is borrowed mutably until the call has returned; names and control data are
        // null.
        let count = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                headers.len() as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        if count < 0 { Err(io::Error::last_os_error()) } else { Ok(count as usize) }
    }
}

/// Datagrams that came in together.
pub(in crate::engine) struct Incoming {
    octets: Vec<u8>,
    control: Vec<Control>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Incoming {
    pub(in crate::engine) fn new() -> Self {
        Self {
            octets: vec![0; BATCH_COUNT * SLOT_OCTETS],
            control: vec![Control([0; CONTROL_OCTETS]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr is integers and pointers, for which all zero octets are a value.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    /// Takes what waits, without waiting; gives how many.
    pub(in crate::engine) fn receive(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        for index in 0..BATCH_COUNT {
            let slot = &mut self.octets[index * SLOT_OCTETS..][..RESPONSE_OCTETS_KEPT];
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
        let length = (self.headers[index].msg_len as usize).min(RESPONSE_OCTETS_KEPT);
        &self.octets[index * SLOT_OCTETS..][..length]
    }

    /// When the kernel received it, on the wall clock; `None` when it does not say.
    pub(in crate::engine) fn stamp(&self, index: usize) -> Option<Duration> {
        // One control message: length of all (a word), level, type, seconds, nanoseconds.
        let length = self.headers[index].msg_hdr.msg_controllen;
        let control = self.control[index].0.get(..length.min(CONTROL_OCTETS))?;
        let word = |at: usize| Some(i64::from_ne_bytes(control.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
        if (half(8)?, half(12)?) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
            return None;
        }
        Some(Duration::new(u64::try_from(word(16)?).ok()?, u32::try_from(word(24)?).ok()?))
    }
}

// SAFETY: the pointers in the tables are set before each call and read by nobody between calls; what they point at is
// owned by the same value and moves with it.
unsafe impl Send for Outgoing {}
// SAFETY: as for `Outgoing`; `message` and `stamp` read indices and lengths, not pointers.
unsafe impl Send for Incoming {}

/// Asks the kernel to stamp what it receives.
pub(in crate::engine) fn enable_stamps(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is a live int and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

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
