//! Datagrams that the kernel dropped before a worker read them. `/metrics` reads the kernel's counter of each UDP
//! socket through a second descriptor, so that it does not disturb the workers.

use super::Transport;
use super::client_sockets::ClientSockets;
use crate::sys::socket::dropped_datagrams;
use metrics_text::{Kind, Page};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

/// The UDP sockets of a node.
#[derive(Default)]
pub(crate) struct SocketDrops(Mutex<Vec<Watched>>);

struct Watched {
    socket: UdpSocket,
    transport: Transport,
    /// The number of the worker that reads the socket.
    worker: usize,
    address: String,
    count: WideCounter,
}

/// A 64-bit counter made from the 32-bit counter of the kernel, which wraps around.
#[derive(Default)]
struct WideCounter {
    last: u32,
    total: u64,
}

impl WideCounter {
    /// Correct if it is called at least once per 2^32 drops.
    fn see(&mut self, now: u32) -> u64 {
        self.total += u64::from(now.wrapping_sub(self.last));
        self.last = now;
        self.total
    }
}

impl SocketDrops {
    /// Sets the sockets to read.
    pub(crate) fn watch(&self, sockets: &ClientSockets) {
        let plain = sockets.udp.iter().enumerate();
        let plain = plain.flat_map(|(worker, all)| all.iter().map(move |one| (Transport::Udp, worker, one.udp())));
        let quic = sockets.streams.iter().enumerate();
        let quic = quic.flat_map(|(worker, all)| all.doq.iter().map(move |one| (Transport::Doq, worker, one)));
        let watched = plain.chain(quic).filter_map(|(transport, worker, socket)| {
            let address = socket.local_addr().ok()?.to_string();
            let socket = socket.try_clone().ok()?;
            let count = dropped_datagrams(socket.as_fd());
            count.is_ok().then(|| Watched { socket, transport, worker, address, count: WideCounter::default() })
        });
        let watched: Vec<Watched> = watched.collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = watched;
    }

    /// Closes all descriptors.
    pub(crate) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Writes the metric family. Omitted if there are no sockets for clients, or the kernel does not count drops.
    pub(crate) fn write(&self, page: &mut Page) {
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
    fn a_counter_continues_after_the_kernel_counter_wraps() {
        let mut count = WideCounter::default();
        assert_eq!(count.see(u32::MAX - 1), u64::from(u32::MAX) - 1);
        assert_eq!(count.see(u32::MAX - 1), u64::from(u32::MAX) - 1);
        assert_eq!(count.see(3), (1 << 32) + 3);
    }
}
