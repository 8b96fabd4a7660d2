//! A TCP server that does not parse the question. It only waits with epoll, reads and writes.

#[path = "../support/input.rs"]
mod input;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Size of a read: more than any cell has in flight on a connection.
const READ_BYTES: usize = 4096;
/// Connections reported by one call of epoll.
const EVENTS: usize = 1_024;
/// Interval of the check whether to exit.
const PAUSE: Duration = Duration::from_millis(50);
const LISTENER: Token = Token(usize::MAX);

/// A connection with the beginning of an incomplete message.
struct Connection {
    stream: TcpStream,
    rest: Vec<u8>,
}

/// Returns every message with QR set, without parsing it. Messages of one read are answered together. Prints its
/// address first, and exits when standard input closes.
pub(crate) fn echo() {
    let mut listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("loopback");
    println!("{}", listener.local_addr().expect("an address"));
    let ended = input::until_input_ends();
    let mut poll = Poll::new().expect("epoll");
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE).expect("a listener");
    let (mut events, mut connections, mut next) = (Events::with_capacity(EVENTS), HashMap::new(), 0);
    while !ended.load(Ordering::Relaxed) {
        let _waited = poll.poll(&mut events, Some(PAUSE));
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    let _set = stream.set_nodelay(true);
                    let token = Token(next);
                    next += 1;
                    if poll.registry().register(&mut stream, token, Interest::READABLE).is_ok() {
                        connections.insert(token, Connection { stream, rest: Vec::new() });
                    }
                }
            } else if connections.get_mut(&event.token()).is_some_and(|connection| !connection.serve()) {
                connections.remove(&event.token());
            }
        }
    }
}

impl Connection {
    /// Answers all complete messages. Returns false if the connection has ended.
    fn serve(&mut self) -> bool {
        let mut bytes = [0; READ_BYTES];
        loop {
            let kept = self.rest.len();
            bytes[..kept].copy_from_slice(&self.rest);
            match self.stream.read(&mut bytes[kept..]) {
                Ok(0) => return false,
                Ok(count) => {
                    let filled = kept + count;
                    let whole = turn_into_answers(&mut bytes[..filled]);
                    // The client reads all the time, so a short write only happens if it is gone.
                    if whole > 0 && self.stream.write_all(&bytes[..whole]).is_err() {
                        return false;
                    }
                    self.rest.clear();
                    self.rest.extend_from_slice(&bytes[whole..filled]);
                    // epoll is edge-triggered: a read that did not fill its buffer has emptied the socket.
                    if filled < READ_BYTES {
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }
}

/// Sets QR in each complete message. Returns their total size in bytes.
fn turn_into_answers(bytes: &mut [u8]) -> usize {
    let mut at = 0;
    while let Some(&[high, low]) = bytes.get(at..at + 2) {
        let end = at + 2 + usize::from(u16::from_be_bytes([high, low]));
        if end > bytes.len() {
            break;
        }
        if let Some(flags) = bytes.get_mut(at + 4).filter(|_| end > at + 4) {
            *flags |= 0x80;
        }
        at = end;
    }
    at
}
