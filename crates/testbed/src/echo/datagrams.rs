//! Queries over UDP. As in a fast server, a system call receives many queries, and another sends their answers:
//!
//! ```text
//!   receive a batch --> each query: its fault --> answers of the batch --> sent together
//!                                     +--> answers with a delay, for later
//! ```
//! Answers of equal size to one client are one message for the kernel (UDP_SEGMENT).

use super::fault::{Fault, Reply};
use super::handler::RequestHandler;
use measure::Transport;
use mio::net::UdpSocket;
use sockets::batch::{Incoming, Outgoing};
use sockets::limits::{BATCH_COUNT, MESSAGE_BYTES_MAX, STREAM_MESSAGE_BYTES_MAX};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use wire::limits::HEADER_BYTES;

/// The bit of the third byte of a message that makes it a response (RFC 1035 4.1.1).
const QR: u8 = 0x80;

/// The UDP socket of a thread, and its batches.
pub(super) struct Datagrams {
    socket: UdpSocket,
    incoming: Incoming,
    outgoing: Outgoing,
    /// Queries of the batch without a fault: client, bytes and index. In this order, answers of equal size to one
    /// client are adjacent.
    plain: Vec<(SocketAddr, usize, usize)>,
}

impl Datagrams {
    pub(super) fn new(socket: UdpSocket) -> Self {
        let incoming = Incoming::with_buffer_bytes(STREAM_MESSAGE_BYTES_MAX).with_senders();
        Self { socket, incoming, outgoing: Outgoing::to_each(), plain: Vec::with_capacity(BATCH_COUNT) }
    }

    /// Answers all queries that have arrived. `later` takes answers with a delay.
    pub(super) fn serve(
        &mut self,
        handler: &RequestHandler,
        mut later: impl FnMut(Duration, SocketAddr, Vec<u8>),
    ) -> io::Result<()> {
        loop {
            let count = match self.incoming.receive(&self.socket) {
                Ok(0) => return Ok(()),
                // An ICMP error for an earlier answer.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                other => other?,
            };
            for index in 0..count {
                let Some(client) = self.incoming.sender(index) else { continue };
                let (query, number) = (self.incoming.message(index), handler.counts.queries_of(Transport::Udp));
                let fault = handler.fault(query, Transport::Udp, client, number);
                if fault == Fault::None && (HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&query.len()) {
                    self.plain.push((client, query.len(), index));
                    continue;
                }
                if let Fault::Pause(_) = fault {
                    self.answer_plain();
                }
                let reply = Reply::new(self.incoming.message(index), fault);
                let partial = reply.partial.map(|framed| framed[2..].to_vec());
                for message in reply.messages.into_iter().chain(partial) {
                    match reply.delay {
                        Some(delay) => later(delay, client, message),
                        None if message.len() > MESSAGE_BYTES_MAX => self.send(&message, client),
                        None => add(&mut self.outgoing, &self.socket, client, |slot| {
                            slot[..message.len()].copy_from_slice(&message);
                            message.len()
                        }),
                    }
                }
            }
            self.answer_plain();
        }
    }

    /// Sends answers to queries without a fault, and all other answers of the batch. It allocates nothing, because it
    /// is the limit that servers are compared with.
    fn answer_plain(&mut self) {
        self.plain.sort_unstable();
        for (client, length, index) in self.plain.drain(..) {
            add(&mut self.outgoing, &self.socket, client, |slot| {
                slot[..length].copy_from_slice(self.incoming.message(index));
                slot[2] |= QR;
                length
            });
        }
        flush(&mut self.outgoing, &self.socket);
    }

    /// Sends one answer at once.
    pub(super) fn send(&self, message: &[u8], client: SocketAddr) {
        // Ignored if the client is gone or the buffer is full, as on a network.
        drop(self.socket.send_to(message, client));
    }
}

/// Adds a message to the batch. A full batch is sent first.
fn add(outgoing: &mut Outgoing, socket: &UdpSocket, client: SocketAddr, fill: impl FnOnce(&mut [u8]) -> usize) {
    if outgoing.count() == BATCH_COUNT {
        flush(outgoing, socket);
    }
    outgoing.push(fill);
    outgoing.set_destination(client);
}

/// Sends the batch.
fn flush(outgoing: &mut Outgoing, socket: &UdpSocket) {
    let (mut from, mut together) = (0, true);
    while from < outgoing.count() {
        match outgoing.send(socket, from, together) {
            Ok(count) => from += count,
            Err(_) if together => together = false,
            // The client is gone or the buffer is full. The answer is lost, as on a network.
            Err(_) => from += 1,
        }
    }
    outgoing.clear();
}
