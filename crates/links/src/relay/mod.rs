//! Carries packets between two interfaces, each direction by a [`Line`]: the files, the clock and the thread around it.
//!
//! ```text
//!   clients' TUN --read--> Line up   --when due--> hub's TUN
//!   clients' TUN <--when due-- Line down <--read-- hub's TUN
//! ```
//! It sleeps until the next packet is due or one comes, whichever is first, and costs nothing while none is held.

mod statistics;

pub use statistics::{LineStatistics, LinkStatistics};

use crate::delay::{Direction, Line, Shape};
use crate::limits::{MTU, READ_BATCH};
use crate::system;
use crate::tun::Tun;
use hdrhistogram::Histogram;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A link that is carried by a thread of this process.
#[derive(Debug)]
pub(crate) struct Relay {
    /// The thread ends when this is closed.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<[LineStatistics; 2]>>>,
}

/// One direction and where it leads.
struct Way {
    line: Line,
    /// How late packets went out, in ns.
    lateness: Histogram<u64>,
    /// Packets that the kernel did not take.
    refused: u64,
}

impl Relay {
    /// Begins to carry.
    pub(crate) fn start(clients: Tun, hub: Tun, shape: &Shape, seed: u64, spin: Duration) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let way = |direction| -> io::Result<Way> {
            let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)?;
            Ok(Way { line: Line::new(shape.clone(), direction, seed), lateness, refused: 0 })
        };
        let (up, down) = (way(Direction::Up)?, way(Direction::Down)?);
        let carry = move || carry([&clients, &hub], [up, down], &stopped, spin);
        let thread = std::thread::Builder::new().name("relay".into()).spawn(carry)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Whether it still carries: it ends by itself only when an interface fails.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it. What it holds is lost.
    pub(crate) fn stop(&mut self) -> io::Result<[LineStatistics; 2]> {
        self.stop = None;
        let thread = self.thread.take().ok_or_else(|| io::Error::other("the relay was stopped before"))?;
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the relay panicked")))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join();
        }
    }
}

/// `ends`: the clients' and the hub's; `ways`: up and down.
fn carry(ends: [&Tun; 2], mut ways: [Way; 2], stop: &UnixStream, spin: Duration) -> io::Result<[LineStatistics; 2]> {
    system::be_on_time();
    stop.set_nonblocking(true)?;
    let origin = Instant::now();
    let now = || origin.elapsed().as_nanos() as u64;
    let files = [ends[0].fd(), ends[1].fd(), stop.as_raw_fd()];
    let mut buffer = vec![0; 2 * MTU];
    loop {
        let mut has_more = false;
        for (index, way) in ways.iter_mut().enumerate() {
            has_more |= take_in(ends[index], way, &mut buffer, now)?;
        }
        for (index, way) in ways.iter_mut().enumerate() {
            let_out(ends[1 - index], way, now);
        }
        // The other end sends nothing: all that can be read is that it is closed.
        if matches!(io::Read::read(&mut &*stop, &mut [0]), Ok(0)) {
            return Ok(ways.map(|way| LineStatistics::new(way.line.counts(), way.refused, &way.lateness)));
        }
        let due_ns = ways.iter().filter_map(|way| way.line.poll_timeout()).min();
        let left = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now())).saturating_sub(spin));
        if !has_more && left != Some(Duration::ZERO) {
            system::wait_readable(files, left);
        }
    }
}

/// Reads what waits, a turn of it; whether there may be more.
fn take_in(from: &Tun, way: &mut Way, buffer: &mut [u8], now: impl Fn() -> u64) -> io::Result<bool> {
    for _ in 0..READ_BATCH {
        let Some(packet) = from.read(buffer)? else { return Ok(false) };
        way.line.handle_packet(packet, now());
    }
    Ok(true)
}

/// Writes what is due.
fn let_out(to: &Tun, way: &mut Way, now: impl Fn() -> u64) {
    for _ in 0..4 * READ_BATCH {
        let now_ns = now();
        let Some(due) = way.line.poll_due(now_ns) else { break };
        way.lateness.saturating_record(now_ns - due.at_ns);
        if to.write(&due.bytes).is_err() {
            way.refused += 1;
        }
        way.line.recycle(due);
    }
}
