//! Carries packets between two interfaces: the files, the clock and the thread around a [`Line`] for each direction.
//!
//! ```text
//!   clients' TUN --read--> Line up   --when due--> hub's TUN
//!   clients' TUN <--when due-- Line down <--read-- hub's TUN
//! ```
//!
//! The thread sleeps until the next packet arrives or is due.

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

/// A link carried by a thread of this process.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Closing this ends the thread.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<io::Result<[LineStatistics; 2]>>>,
}

/// One direction.
struct RelayDirection {
    line: Line,
    /// How late packets were sent, in ns.
    lateness: Histogram<u64>,
    /// Packets that the kernel refused.
    refused: u64,
}

impl Relay {
    /// Starts the thread.
    pub(crate) fn start(clients: Tun, hub: Tun, shape: &Shape, seed: u64, spin: Duration) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let new_direction = |direction| -> io::Result<RelayDirection> {
            let lateness = Histogram::new_with_bounds(1, 60_000_000_000, 3).map_err(io::Error::other)?;
            Ok(RelayDirection { line: Line::new(shape.clone(), direction, seed), lateness, refused: 0 })
        };
        let (up, down) = (new_direction(Direction::Up)?, new_direction(Direction::Down)?);
        let forward = move || forward([&clients, &hub], [up, down], &stopped, spin);
        let thread = std::thread::Builder::new().name("relay".into()).spawn(forward)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Whether the thread runs. It ends by itself only if an interface fails.
    pub(crate) fn is_alive(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends the thread. Packets in the link are lost.
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

/// `ends`: of the clients and of the hub. `directions`: up and down.
fn forward(
    ends: [&Tun; 2],
    mut directions: [RelayDirection; 2],
    stop: &UnixStream,
    spin: Duration,
) -> io::Result<[LineStatistics; 2]> {
    system::make_timers_exact();
    stop.set_nonblocking(true)?;
    let origin = Instant::now();
    let now = || origin.elapsed().as_nanos() as u64;
    let files = [ends[0].fd(), ends[1].fd(), stop.as_raw_fd()];
    let mut buffer = vec![0; 2 * MTU];
    loop {
        let mut has_more = false;
        for (index, direction) in directions.iter_mut().enumerate() {
            has_more |= read_packets(ends[index], direction, &mut buffer, now)?;
        }
        for (index, direction) in directions.iter_mut().enumerate() {
            write_due(ends[1 - index], direction, now);
        }
        // The other end sends nothing, so readable means closed.
        if matches!(io::Read::read(&mut &*stop, &mut [0]), Ok(0)) {
            return Ok(directions.map(|direction| {
                LineStatistics::new(direction.line.counts(), direction.refused, &direction.lateness)
            }));
        }
        let due_ns = directions.iter().filter_map(|direction| direction.line.poll_timeout()).min();
        let remaining = due_ns.map(|due_ns| Duration::from_nanos(due_ns.saturating_sub(now())).saturating_sub(spin));
        if !has_more && remaining != Some(Duration::ZERO) {
            system::wait_readable(files, remaining);
        }
    }
}

/// Reads a batch of packets. Returns whether there may be more.
fn read_packets(
    from: &Tun,
    direction: &mut RelayDirection,
    buffer: &mut [u8],
    now: impl Fn() -> u64,
) -> io::Result<bool> {
    for _ in 0..READ_BATCH {
        let Some(packet) = from.read(buffer)? else { return Ok(false) };
        direction.line.handle_packet(packet, now());
    }
    Ok(true)
}

/// Writes the packets that are due.
fn write_due(to: &Tun, direction: &mut RelayDirection, now: impl Fn() -> u64) {
    for _ in 0..4 * READ_BATCH {
        let now_ns = now();
        let Some(due) = direction.line.poll_due(now_ns) else { break };
        direction.lateness.saturating_record(now_ns - due.at_ns);
        if to.write(&due.bytes).is_err() {
            direction.refused += 1;
        }
        direction.line.recycle(due);
    }
}
