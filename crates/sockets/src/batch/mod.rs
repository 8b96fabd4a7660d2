//! Batches of datagrams: sendmmsg and recvmmsg on preallocated memory. A socket may be connected, or unconnected with a
//! source address for each message.
//!
//! Only this file and `system` of this crate have `unsafe` code. The kernel needs tables of pointers into each other.
//! They are rebuilt before each call from indices into memory that this file owns.
#![expect(unsafe_code, reason = "batched system calls; every block argues its safety")]

#[cfg(test)]
mod tests;

use super::control::{
    CONTROL_BYTES, ControlBytes, NAME_BYTES, SocketAddressBytes, address_of, destination_of, put_segment, put_source,
};
use crate::limits::{BATCH_COUNT, MESSAGE_BYTES_MAX, RESPONSE_BYTES_KEPT, UNFRAGMENTED_BYTES_MAX};
use crate::system::{memory, stamp_of};
use socket2::SockAddr;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Gap between two slots: three cache lines, so that the first lines of slots fall into different cache sets.
const SLOT_BYTES_APART: usize = 3 * 64;
/// Maximum size of a run of queries. It must fit into an IP packet.
const RUN_BYTES_MAX: usize = 61_440;

/// Queries that are sent together.
pub struct Outgoing {
    bytes: Vec<u8>,
    /// Where each message ends.
    ends: [usize; BATCH_COUNT],
    count: usize,
    /// The destination. None on a connected socket.
    destination: Option<SockAddr>,
    /// The destination of each message, if they differ. Otherwise empty.
    recipients: Vec<Option<SockAddr>>,
    /// The source address of each message, on an unconnected socket.
    sources: [Option<IpAddr>; BATCH_COUNT],
    control: Vec<ControlBytes>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self::new()
    }
}

impl Outgoing {
    /// A batch for an unconnected socket.
    #[must_use]
    pub fn to(destination: SocketAddr) -> Self {
        Self { destination: Some(destination.into()), ..Self::new() }
    }

    /// A batch with a destination for each message.
    #[must_use]
    pub fn to_each() -> Self {
        Self { recipients: vec![None; BATCH_COUNT], ..Self::new() }
    }

    /// A batch for a connected socket.
    #[must_use]
    pub fn new() -> Self {
        Self {
            destination: None,
            recipients: Vec::new(),
            sources: [None; BATCH_COUNT],
            bytes: memory(BATCH_COUNT * MESSAGE_BYTES_MAX),
            ends: [0; BATCH_COUNT],
            count: 0,
            control: vec![ControlBytes([0; CONTROL_BYTES]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr has only integers and pointers, for which all zero bytes are valid.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Number of messages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Size of message `index`.
    #[must_use]
    pub fn bytes_of(&self, index: usize) -> usize {
        self.ends[index] - self.start(index)
    }

    /// Message `index`.
    #[must_use]
    pub fn message(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index]]
    }

    /// Sets the source address of the newest message. Without one, the kernel chooses.
    pub fn set_source(&mut self, source: Option<IpAddr>) {
        self.sources[self.count - 1] = source;
    }

    /// The source address of message `index`, if set.
    pub fn source(&self, index: usize) -> Option<IpAddr> {
        self.sources[index]
    }

    /// Sets the destination of the newest message, in a batch of [`Outgoing::to_each`].
    pub fn set_destination(&mut self, recipient: SocketAddr) {
        self.recipients[self.count - 1] = Some(recipient.into());
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |previous| self.ends[previous])
    }

    /// Adds a message. `fill` writes it and returns its length.
    ///
    /// # Panics
    /// If the batch is full.
    pub fn push(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) -> &mut [u8] {
        assert!(self.count < BATCH_COUNT);
        let start = self.start(self.count);
        let slot = &mut self.bytes[start..start + MESSAGE_BYTES_MAX];
        let length = fill(slot);
        self.ends[self.count] = start + length;
        self.count += 1;
        &mut self.bytes[start..start + length]
    }

    /// Sends the messages from `from` on, and returns how many the kernel accepted. With `together`, adjacent messages
    /// of equal length, source and destination are sent as one segmented datagram.
    pub fn send(&mut self, socket: &impl AsRawFd, from: usize, together: bool) -> io::Result<usize> {
        let mut runs = [0; BATCH_COUNT];
        let run_count = self.lay_out(from, together, &mut runs);
        let headers = &mut self.headers[..run_count];
        // SAFETY: `lay_out` has just set all pointers and lengths. Each header points to its own iovec and control
        // message, and each iovec to consecutive messages. All of this, including the names that the kernel reads, is
        // memory of `self`, which is borrowed mutably until the call returns.
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

    /// Groups the messages from `from` on into runs. Writes the length of each run to `runs`, and returns the number of
    /// runs.
    fn lay_out(&mut self, from: usize, together: bool, runs: &mut [usize; BATCH_COUNT]) -> usize {
        let (mut at, mut run_count) = (from, 0);
        while at < self.count {
            let length = self.bytes_of(at);
            let run = if together { self.run_len(at, length) } else { 1 };
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

    /// Number of adjacent messages with this length, and the source and destination of the first.
    fn run_len(&self, at: usize, length: usize) -> usize {
        if length == 0 || length > UNFRAGMENTED_BYTES_MAX {
            return 1;
        }
        let most = (RUN_BYTES_MAX / length).min(self.count - at);
        let is_alike = |index: usize| {
            let goes_to_same = self.recipients.get(index) == self.recipients.get(at);
            self.bytes_of(index) == length && self.sources[index] == self.sources[at] && goes_to_same
        };
        (at..at + most).take_while(|&index| is_alike(index)).count()
    }
}

/// Datagrams that were received together.
pub struct Incoming {
    bytes: Vec<u8>,
    /// Maximum number of bytes kept of each datagram.
    bytes_kept: usize,
    /// The sender of each datagram. Empty if senders are not recorded.
    names: Vec<SocketAddressBytes>,
    control: Vec<ControlBytes>,
    iovecs: Vec<libc::iovec>,
    headers: Vec<libc::mmsghdr>,
}

impl Default for Incoming {
    fn default() -> Self {
        Self::new()
    }
}

impl Incoming {
    /// Creates buffers for the beginning of datagrams.
    #[must_use]
    pub fn new() -> Self {
        Self::with_buffer_bytes(RESPONSE_BYTES_KEPT)
    }

    /// Creates buffers of this many bytes per datagram.
    #[must_use]
    pub fn with_buffer_bytes(bytes_kept: usize) -> Self {
        Self {
            bytes: memory(BATCH_COUNT * (bytes_kept + SLOT_BYTES_APART)),
            bytes_kept,
            names: Vec::new(),
            control: vec![ControlBytes([0; CONTROL_BYTES]); BATCH_COUNT],
            iovecs: vec![libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH_COUNT],
            // SAFETY: an mmsghdr has only integers and pointers, for which all zero bytes are valid.
            headers: vec![unsafe { std::mem::zeroed() }; BATCH_COUNT],
        }
    }

    /// Also records the sender of each datagram.
    #[must_use]
    pub fn with_senders(self) -> Self {
        Self { names: vec![SocketAddressBytes([0; NAME_BYTES]); BATCH_COUNT], ..self }
    }

    /// Receives pending datagrams without blocking. Returns their number.
    pub fn receive(&mut self, socket: &impl AsRawFd) -> io::Result<usize> {
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
        // SAFETY: `headers` has BATCH_COUNT entries. Each points to its own control buffer and iovec, and each iovec to
        // its own slot, set just above with correct lengths. Names are null, or point to memory of `self` like the
        // rest. `self` is borrowed mutably until the call returns.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.headers.as_mut_ptr(),
                BATCH_COUNT as libc::c_uint,
                // The lengths of the datagrams, even if they are longer than their slots.
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
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

    /// Datagram `index` of the last [`Incoming::receive`], possibly cut.
    #[must_use]
    pub fn message(&self, index: usize) -> &[u8] {
        let length = (self.headers[index].msg_len as usize).min(self.bytes_kept);
        &self.bytes[index * (self.bytes_kept + SLOT_BYTES_APART)..][..length]
    }

    /// How many bytes of datagram `index` did not fit into its slot.
    #[must_use]
    pub fn cut_bytes(&self, index: usize) -> usize {
        (self.headers[index].msg_len as usize).saturating_sub(self.bytes_kept)
    }

    /// The sender, if it is recorded.
    #[must_use]
    pub fn sender(&self, index: usize) -> Option<SocketAddr> {
        address_of(self.names.get(index)?)
    }

    /// The destination address, if the socket reports it.
    #[must_use]
    pub fn destination(&self, index: usize) -> Option<IpAddr> {
        let length = self.headers[index].msg_hdr.msg_controllen;
        destination_of(self.control[index].0.get(..length.min(CONTROL_BYTES))?)
    }

    /// The kernel's receive time on the wall clock, or `None` without a timestamp.
    #[must_use]
    pub fn stamp(&self, index: usize) -> Option<Duration> {
        let length = self.headers[index].msg_hdr.msg_controllen;
        stamp_of(self.control[index].0.get(..length.min(CONTROL_BYTES))?)
    }
}

// SAFETY: the pointers in the tables are set before each call and not read between calls. The memory that they point to
// is owned by the same value and moves with it.
unsafe impl Send for Outgoing {}
// SAFETY: as for `Outgoing`. Datagrams are read with indices and lengths, not with pointers.
unsafe impl Send for Incoming {}

/// Datagrams that the kernel dropped because the socket's buffer was full (SK_MEMINFO_DROPS).
#[must_use]
pub fn dropped(socket: &impl AsRawFd) -> u32 {
    /// Index of the counter, and number of values from the kernel.
    const DROPS: usize = 8;
    const COUNT: usize = 9;
    let mut values = [0u32; COUNT];
    let mut length = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the buffer is live and its size is given. The kernel does not write beyond it.
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

/// A poll entry for [`wait`](crate::system::wait).
#[must_use]
pub fn watch(socket: &UdpSocket) -> libc::pollfd {
    libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}
