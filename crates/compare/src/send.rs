//! Sends recorded messages to a server and collects the replies.
//!
//! ```text
//!    UDP: a window of messages over one socket -> unanswered ones again over a fresh socket -> once more -> silence
//!    TCP: one connection per message, a few connections at once
//! ```

use super::response::{Reaction, Reply};
use crate::limits::{CONNECTIONS_MAX, IN_FLIGHT_MAX};
use crate::recorded::Recorded;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use trace::Transport;

/// Window size and timeout in milliseconds of each pass. A datagram may be lost or late, so unanswered messages are
/// repeated together: silence costs one timeout per window, not per message. Most repeated messages stay unanswered, so
/// they do not fill any buffer.
const PASSES: [(usize, u64); 3] = [(IN_FLIGHT_MAX / 4, 150), (IN_FLIGHT_MAX, 400), (IN_FLIGHT_MAX, 800)];
/// Timeout of an answer over TCP, in milliseconds.
const TCP_SILENCE_MS: u64 = 1_500;
/// Timeout of a single read, in milliseconds.
const READ_MS: u64 = 10;

/// Sends every message to `server` and returns the replies. `done` counts finished messages.
///
/// The ID of message `n` is `n` modulo 2^16. Nothing else is changed.
///
/// # Errors
/// If a socket cannot be opened.
pub fn ask_all(server: SocketAddr, messages: &[Recorded], done: &AtomicUsize) -> io::Result<Vec<Reply>> {
    let mut replies = vec![Reply::SILENCE; messages.len()];
    let mut missing = indexes(messages, Transport::Udp);
    for (size, silence_ms) in PASSES {
        // A new socket, so that late answers to the previous pass do not arrive here.
        let mut window = InFlight::new(server, size, Duration::from_millis(silence_ms))?;
        missing = window.ask(messages, &missing, &mut replies, done);
    }
    done.fetch_add(missing.len(), Ordering::Relaxed);
    for (index, reply) in ask_streams(server, messages, done) {
        replies[index] = reply;
    }
    Ok(replies)
}

fn indexes(messages: &[Recorded], transport: Transport) -> Vec<usize> {
    (0..messages.len()).filter(|&index| messages[index].transport == transport).collect()
}

fn with_id(message: &Recorded, index: usize) -> Vec<u8> {
    let mut bytes = message.bytes.clone();
    for (byte, id) in bytes.iter_mut().zip((index as u16).to_be_bytes()) {
        *byte = id;
    }
    bytes
}

/// Messages in flight over one socket.
struct InFlight {
    socket: UdpSocket,
    size: usize,
    silence: Duration,
    /// By ID.
    waiting: BTreeMap<u16, usize>,
    /// In the order of sending. Some may have been answered.
    sent: VecDeque<(Instant, u16)>,
    missing: Vec<usize>,
}

impl InFlight {
    fn new(server: SocketAddr, size: usize, silence: Duration) -> io::Result<Self> {
        let socket = UdpSocket::bind((server.ip(), 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(Duration::from_millis(READ_MS)))?;
        Ok(Self { socket, size, silence, waiting: BTreeMap::new(), sent: VecDeque::new(), missing: Vec::new() })
    }

    /// Sends `wanted` and returns the messages without an answer.
    fn ask(
        &mut self,
        messages: &[Recorded],
        wanted: &[usize],
        replies: &mut [Reply],
        done: &AtomicUsize,
    ) -> Vec<usize> {
        let mut next = wanted.iter().copied().peekable();
        let mut buffer = vec![0u8; 65_535];
        while next.peek().is_some() || !self.waiting.is_empty() {
            while self.sent.len() < self.size
                && let Some(index) = next.next_if(|&index| !self.waiting.contains_key(&(index as u16)))
            {
                // An ICMP refusal counts as silence.
                let _sent = self.socket.send(&with_id(&messages[index], index));
                self.waiting.insert(index as u16, index);
                self.sent.push_back((Instant::now(), index as u16));
            }
            if let Ok(length) = self.socket.recv(&mut buffer) {
                let bytes = &buffer[..length];
                let id = bytes.first_chunk().map(|id| u16::from_be_bytes(*id));
                if let Some(index) = id.and_then(|id| self.waiting.remove(&id)) {
                    replies[index] = Reply::read(bytes);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.expire();
        }
        std::mem::take(&mut self.missing)
    }

    /// Removes answered and timed-out messages from the window.
    fn expire(&mut self) {
        while let Some(&(at, id)) = self.sent.front() {
            if self.waiting.contains_key(&id) {
                if at.elapsed() < self.silence {
                    return;
                }
                self.missing.extend(self.waiting.remove(&id));
            }
            self.sent.pop_front();
        }
    }
}

/// Sends all TCP messages, over a few connections at once.
fn ask_streams(server: SocketAddr, messages: &[Recorded], done: &AtomicUsize) -> Vec<(usize, Reply)> {
    let wanted = indexes(messages, Transport::Tcp);
    let share = wanted.len().div_ceil(CONNECTIONS_MAX).max(1);
    let ask_share = |share: &[usize]| -> Vec<(usize, Reply)> {
        let ask = |&index: &usize| {
            let reply = ask_tcp(server, &with_id(&messages[index], index)).unwrap_or(Reply::SILENCE);
            done.fetch_add(1, Ordering::Relaxed);
            (index, reply)
        };
        share.iter().map(ask).collect()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = wanted.chunks(share).map(|share| scope.spawn(|| ask_share(share))).collect();
        // A panic is a bug in this program, and must not count as silence.
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread that asks")).collect()
    })
}

fn ask_tcp(server: SocketAddr, message: &[u8]) -> io::Result<Reply> {
    let silence = Duration::from_millis(TCP_SILENCE_MS);
    let mut stream = TcpStream::connect_timeout(&server, silence)?;
    stream.set_read_timeout(Some(silence))?;
    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    stream.write_all(&framed)?;
    let mut length = [0u8; 2];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0u8; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut bytes)?;
    Ok(Reply::read(&bytes))
}

impl Reply {
    fn read(bytes: &[u8]) -> Self {
        Self { reaction: Reaction::read(bytes), byte_count: bytes.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers odd IDs at once, in swapped pairs. Ignores every seventh message. Answers the others only when they are
    /// repeated.
    fn unreliable_server(socket: &UdpSocket, messages: usize) {
        let mut seen = BTreeMap::<u16, u8>::new();
        let mut buffer = [0u8; 512];
        let mut delayed: Option<(Vec<u8>, SocketAddr)> = None;
        socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let mut bytes = buffer[..length].to_vec();
            bytes[2] |= 0x80;
            let id = u16::from_be_bytes([bytes[0], bytes[1]]);
            let count = seen.entry(id).or_default();
            *count += 1;
            if usize::from(id) < messages && (id % 7 == 0 || id % 2 == 0 && *count < 2) {
                continue;
            }
            match delayed.take() {
                Some((first, to)) => {
                    socket.send_to(&bytes, from).unwrap();
                    socket.send_to(&first, to).unwrap();
                }
                None if id % 4 == 1 => delayed = Some((bytes, from)),
                None => drop(socket.send_to(&bytes, from).unwrap()),
            }
        }
    }

    #[test]
    fn silence_costs_windows_and_answers_find_their_question() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let message = |index: usize| {
            let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, index as u8];
            bytes.extend_from_slice(&[0, 0, 1, 0, 1]);
            Recorded { transport: Transport::Udp, bytes }
        };
        let messages: Vec<_> = (0..200).map(message).collect();
        let thread = std::thread::spawn(move || unreliable_server(&server, 200));
        let done = AtomicUsize::new(0);
        let start = Instant::now();
        let replies = ask_all(address, &messages, &done).unwrap();
        let elapsed = start.elapsed();
        for (index, reply) in replies.iter().enumerate() {
            let Reaction::Response(response) = &reply.reaction else {
                assert!(index % 7 == 0 || index % 4 == 1, "{index} {:?}", reply.reaction);
                continue;
            };
            assert_ne!(index % 7, 0);
            assert_eq!(response.question[1], (index as u8).to_ascii_lowercase());
        }
        assert_eq!(done.into_inner(), 200);
        // 100 messages are repeated. One after the other, they would take 40 s.
        assert!(elapsed < Duration::from_secs(15), "{elapsed:?}");
        thread.join().unwrap();
    }
}
