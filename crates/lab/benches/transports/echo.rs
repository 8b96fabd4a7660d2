//! A server over TCP that answers without a look at the question: it waits with epoll, reads from a socket and writes
//! to it, and that is all.

#[path = "../support/input.rs"]
mod input;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is read at once: more than any cell has in flight on a connection.
const READ_BYTES: usize = 4096;
/// Connections that one call of epoll tells of.
const EVENTS: usize = 1_024;
/// How long to wait before a look at whether to end.
const PAUSE: Duration = Duration::from_millis(50);
const LISTENER: Token = Token(usize::MAX);

/// A connection, and the beginning of a message whose rest has not come.
struct Connection {
    stream: TcpStream,
    rest: Vec<u8>,
}

/// Answers every message with itself, QR set, unread; those of one read together. Prints its address first, ends with
/// its standard input.
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
    /// Answers what is there; false when the connection has ended.
    fn serve(&mut self) -> bool {
        let mut bytes = [0; READ_BYTES];
        loop {
            let held = self.rest.len();
            bytes[..held].copy_from_slice(&self.rest);
            match self.stream.read(&mut bytes[held..]) {
                Ok(0) => return false,
                Ok(count) => {
                    let filled = held + count;
                    let whole = turn_into_answers(&mut bytes[..filled]);
                    // What a client does not take at once is its loss: it reads all the time.
                    if whole > 0 && self.stream.write_all(&bytes[..whole]).is_err() {
                        return false;
                    }
                    self.rest.clear();
                    self.rest.extend_from_slice(&bytes[whole..filled]);
                    // As with any edge of epoll: a read that did not fill its buffer has emptied the socket.
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

/// Sets QR in each whole message; gives how many bytes they are.
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
