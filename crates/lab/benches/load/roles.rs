//! Roles of this program besides the echo: the bare loop, and the far end of a pacing run. Each exits when its standard
//! input closes, so it never outlives its parent.

use super::echo::{listen, until_input_ends};
use super::sockets::{BATCH, Batch, Sender, enable_stamps, wait};
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// After this silence, queries of the bare loop count as lost.
const SILENCE_MS: i32 = 100;

/// A query that arrived at the far end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Arrival {
    /// The number in the query's name: its position in the plan.
    pub(crate) number: u64,
    /// When the kernel received it, in nanoseconds since 1970.
    pub(crate) at_ns: u64,
}

/// Echoes queries and records when the kernel received each. With `is_busy`, every core also runs a busy thread. Writes
/// the records in order of arrival when standard input closes.
pub(crate) fn far_end(notes: &Path, is_busy: bool) {
    let socket = listen();
    enable_stamps(&socket).expect("kernel time stamps");
    let ended = until_input_ends();
    if is_busy {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let ended = Arc::clone(&ended);
            std::thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::black_box((0..1_000u64).fold(1, |sum: u64, value| sum.wrapping_mul(value | 1)));
                }
            });
        }
    }
    let mut batch = Batch::new();
    let mut arrivals: Vec<Arrival> = Vec::with_capacity(1 << 20);
    while !ended.load(Ordering::Relaxed) {
        let count = batch.receive(&socket);
        if count == 0 {
            wait(std::slice::from_ref(&socket), 50);
            continue;
        }
        for index in 0..count {
            let stamp = batch.stamp(index).expect("a time stamp of the kernel");
            if let Some(number) = number(batch.message(index)) {
                arrivals.push(Arrival { number, at_ns: stamp.as_nanos() as u64 });
            }
        }
        batch.answer(&socket, count, true);
    }
    write_arrivals(notes, &arrivals);
}

/// Writes a file that [`read_arrivals`] reads.
pub(crate) fn write_arrivals(notes: &Path, arrivals: &[Arrival]) {
    let mut out = BufWriter::new(std::fs::File::create(notes).expect("a file for the arrivals"));
    for Arrival { number, at_ns } in arrivals {
        out.write_all(&number.to_le_bytes()).and_then(|()| out.write_all(&at_ns.to_le_bytes())).expect("a disk");
    }
    out.flush().expect("a disk with room");
}

/// Reads a file of [`write_arrivals`].
pub(crate) fn read_arrivals(notes: &Path) -> Vec<Arrival> {
    let bytes = std::fs::read(notes).expect("the file of the arrivals");
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(16).map(|both| Arrival { number: word(&both[..8]), at_ns: word(&both[8..]) }).collect()
}

/// Parses the digits of `q123.example.`.
pub(crate) fn number(message: &[u8]) -> Option<u64> {
    let label = message.get(14..13 + usize::from(*message.get(12)?))?;
    std::str::from_utf8(label).ok()?.parse().ok()
}

/// Sends the list in a loop, with this many queries in flight over this many sockets. It does not parse answers or
/// measure times. Prints the number of answers each second.
pub(crate) fn bare(server: SocketAddr, list: &[Vec<u8>], duration: Duration, in_flight: usize, socket_count: usize) {
    let sockets: Vec<UdpSocket> = (0..socket_count)
        .map(|_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            socket.connect(server).expect("a server");
            socket
        })
        .collect();
    let share = in_flight.div_ceil(socket_count).min(BATCH);
    let (mut sender, mut batch) = (Sender::new(), Batch::new());
    let mut waiting = vec![0usize; socket_count];
    let (mut next, mut received) = (0usize, 0u64);
    let start = Instant::now();
    while start.elapsed() < duration {
        let before = received;
        for (socket, waiting) in sockets.iter().zip(&mut waiting) {
            let count = batch.receive_bare(socket);
            received += count as u64;
            *waiting = waiting.saturating_sub(count);
            if *waiting < share {
                let sent = sender.send(socket, list, next, share - *waiting);
                next += sent;
                *waiting += sent;
            }
        }
        if received == before && !wait(&sockets, SILENCE_MS) {
            waiting.fill(0);
        }
    }
    println!("{:.0}", received as f64 / start.elapsed().as_secs_f64());
}
