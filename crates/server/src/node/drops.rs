//! What the kernel dropped before a worker saw it, read from each UDP socket when `/metrics` is: packets cost nothing.
//!
//! A second descriptor of each socket stays here, so that no worker need be asked.

use super::sockets::ClientSockets;
use super::system::dropped_datagrams;
use crate::listen::Transport;
use crate::metrics::text::{Kind, Page};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// The UDP sockets of a node.
#[derive(Default)]
pub(crate) struct SocketDrops(Mutex<Vec<Watched>>);

struct Watched {
    socket: UdpSocket,
    transport: Transport,
    /// Of the thread that receives on it.
    worker: usize,
    address: String,
    count: Widened,
}

/// A counter of the kernel, of 32 bits, that goes on where that one goes round.
#[derive(Default)]
struct Widened {
    last: u32,
    total: u64,
}

impl Widened {
    /// Right as long as it is told once in 2^32 steps.
    fn see(&mut self, now: u32) -> u64 {
        self.total += u64::from(now.wrapping_sub(self.last));
        self.last = now;
        self.total
    }
}

impl SocketDrops {
    /// From now on these are read.
    pub(super) fn watch(&self, sockets: &ClientSockets) {
        let plain = sockets.udp.iter().enumerate();
        let plain = plain.flat_map(|(worker, all)| all.iter().map(move |one| (Transport::Udp, worker, one.udp())));
        let quic = sockets.streams.iter().enumerate();
        let quic = quic.flat_map(|(worker, all)| all.doq.iter().map(move |one| (Transport::Doq, worker, one)));
        let watched = plain.chain(quic).filter_map(|(transport, worker, socket)| {
            let address = socket.local_addr().ok()?.to_string();
            let socket = socket.try_clone().ok()?;
            let says = dropped_datagrams(socket.as_fd());
            says.is_ok().then(|| Watched { socket, transport, worker, address, count: Widened::default() })
        });
        let watched: Vec<Watched> = watched.collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    /// Lets go of all sockets.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Writes their family; none while there is no socket for clients, or where the kernel does not count.
    pub(super) fn write(&self, page: &mut Page) {
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sockets.is_empty() {
            return;
        }
        let help = "Datagrams that the kernel dropped at a socket: its buffer was full.";
        let mut family = page.family("catamaran_udp_socket_drops_total", Kind::Counter, help);
        for watched in sockets.iter_mut() {
            let now = dropped_datagrams(watched.socket.as_fd()).unwrap_or(watched.count.last);
            let (worker, total) = (watched.worker.to_string(), watched.count.see(now));
            let transport = watched.transport.label();
            let labels = [("transport", transport), ("address", watched.address.as_str()), ("worker", &worker)];
            family.series(&labels, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_goes_on_where_the_kernel_goes_round() {
        let mut count = Widened::default();
        assert_eq!(count.see(u32::MAX - 1), u64::from(u32::MAX) - 1);
        assert_eq!(count.see(u32::MAX - 1), u64::from(u32::MAX) - 1);
        assert_eq!(count.see(3), (1 << 32) + 3);
    }
}
