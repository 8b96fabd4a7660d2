//! A client that always has the same number of UDP queries in flight. Its rate of answers shows the capacity of the
//! server, and of the machine that all share.

use super::legitimate::{SOCKETS, response, sockets};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Queries in flight from each port.
const IN_FLIGHT: u16 = 16;
/// Time without a response after which the queries of a port count as lost.
const SILENCE: Duration = Duration::from_millis(100);

/// Runs until it is told to finish.
pub(crate) struct ClosedLoop {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<f64>,
}

impl ClosedLoop {
    pub(crate) fn start(server: SocketAddr, message: Vec<u8>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let theirs = stop.clone();
        Self { stop, thread: std::thread::spawn(move || run(server, &message, &theirs)) }
    }

    /// Answers per second.
    pub(crate) fn finish(self) -> f64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap()
    }
}

fn run(server: SocketAddr, message: &[u8], stop: &AtomicBool) -> f64 {
    let sockets = sockets(server);
    let begin = Instant::now();
    let (mut answered, mut waiting, mut heard) = (0u64, [0u16; SOCKETS], [begin; SOCKETS]);
    while !stop.load(Ordering::SeqCst) {
        let before = answered;
        for (index, socket) in sockets.iter().enumerate() {
            while waiting[index] > 0 && response(socket).is_some() {
                (answered, waiting[index], heard[index]) = (answered + 1, waiting[index] - 1, Instant::now());
            }
            if waiting[index] == 0 || heard[index].elapsed() > SILENCE {
                (waiting[index], heard[index]) = (0, Instant::now());
            }
            waiting[index] += send(socket, message, IN_FLIGHT - waiting[index]);
        }
        if answered == before {
            std::thread::yield_now();
        }
    }
    answered as f64 / begin.elapsed().as_secs_f64()
}

/// Returns the number of queries that the kernel accepted.
fn send(socket: &UdpSocket, message: &[u8], count: u16) -> u16 {
    (0..count).take_while(|_| socket.send(message).is_ok()).count() as u16
}
