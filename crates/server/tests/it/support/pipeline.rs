//! A client that keeps many updates in flight on one TCP connection, or sends them one by one.

use super::cluster::{self, wait_for};
use super::dns::{RESPONSE_WITHIN, Transport, exchange, framed, is_timeout, read_message};
use super::message::{append, name, now_s};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tsig::client::{ClientKey, UpdateBuilder};
use wire::Rtype;
use wire::number::Rcode;
use wire::parse::Message;

/// Updates in flight: as many as a node reads ahead from one connection.
const IN_FLIGHT: usize = 100;
/// Time limit for one response, or for the end of the connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause after SERVFAIL.
const PAUSE: Duration = Duration::from_millis(20);

/// OPT without options (RFC 6891 6.1.2). With it, responses contain an explanation.
const OPT: [u8; 11] = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];

/// Sends the same bytes until the outcome of the update is known, and returns the response. After SERVFAIL, or if the
/// connection is closed or there is no response, they are sent again. A node executes the same bytes once.
pub(crate) fn outcome_of(transport: Transport, to: SocketAddr, message: &[u8]) -> Vec<u8> {
    wait_for("the outcome of an update", || {
        let response = exchange(transport, to, message, RESPONSE_WITHIN)?;
        (rcode(&response) != Rcode::SERVFAIL).then_some(response)
    })
}

/// A connection with one key. If there is no leader for a while, a node responds SERVFAIL, or closes the connection.
/// The client then sends the same bytes again. A node executes them once.
pub(crate) struct Pipeline<'k> {
    to: SocketAddr,
    stream: TcpStream,
    key: &'k ClientKey,
    in_flight: usize,
    /// How many times an update was sent again.
    pub(crate) resent: usize,
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Whether an update with this response may be done if it is sent again: no limit refused it.
fn is_transient(response: &[u8]) -> bool {
    let is_limit = |(_, text): (u16, String)| text.contains("zones.memory_bytes_max");
    rcode(response) == Rcode::SERVFAIL && !extended_error(response).is_some_and(is_limit)
}

impl<'k> Pipeline<'k> {
    pub(crate) fn new(to: SocketAddr, key: &'k ClientKey) -> Self {
        Self { to, stream: connect(to), key, in_flight: IN_FLIGHT, resent: 0 }
    }

    /// The same with fewer updates in flight.
    pub(crate) fn with_in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    fn signed(&self, update: UpdateBuilder) -> Vec<u8> {
        self.key.sign(append(update.finish(), &OPT), now_s()).unwrap()
    }

    /// If the connection is closed, the next read fails.
    fn send(&mut self, message: &[u8]) {
        let _ = self.stream.write_all(&framed(message));
    }

    /// The next response. `None` if the node has closed the connection.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let response = read_message(&mut self.stream);
        assert!(!response.as_ref().is_err_and(is_timeout), "no response within {PATIENCE:?}");
        response.ok()
    }

    /// Sends one update until its outcome is known. Returns the response and its latency, with all repeats.
    pub(crate) fn one(&mut self, update: UpdateBuilder) -> (Vec<u8>, Duration) {
        let (message, start) = (self.signed(update), Instant::now());
        loop {
            self.send(&message);
            match self.receive() {
                Some(response) if !is_transient(&response) => return (response, start.elapsed()),
                Some(_) => std::thread::sleep(PAUSE),
                None => self.stream = connect(self.to),
            }
            assert!(start.elapsed() < cluster::PATIENCE, "an update has no outcome");
            self.resent += 1;
        }
    }

    /// Sends `count` updates, many at a time, until the outcome of each is known. Returns how many got each RCODE.
    pub(crate) fn many(&mut self, count: usize, make: impl Fn(usize) -> UpdateBuilder) -> Outcomes {
        let mut outcomes = Outcomes::default();
        // Updates in flight, by message ID.
        let mut in_flight = BTreeMap::<[u8; 2], Vec<u8>>::new();
        let (mut sent, mut progress) = (0, Instant::now());
        while outcomes.done + outcomes.refused < count {
            while sent < count && in_flight.len() < self.in_flight {
                let message = self.signed(make(sent));
                self.send(&message);
                assert!(in_flight.insert([message[0], message[1]], message).is_none(), "two updates with one ID");
                sent += 1;
            }
            assert!(progress.elapsed() < cluster::PATIENCE, "{} updates have no outcome", in_flight.len());
            let Some(response) = self.receive() else {
                outcomes.unanswered += in_flight.len();
                self.resent += in_flight.len();
                self.stream = connect(self.to);
                in_flight.values().for_each(|message| _ = self.stream.write_all(&framed(message)));
                continue;
            };
            let message = in_flight.remove(&response[..2]).expect("one response to each");
            match rcode(&response) {
                Rcode::NOERROR => outcomes.done += 1,
                Rcode::REFUSED => outcomes.refused += 1,
                Rcode::SERVFAIL => {
                    outcomes.failed += 1;
                    self.resent += 1;
                    std::thread::sleep(PAUSE);
                    self.send(&message);
                    in_flight.insert([message[0], message[1]], message);
                    continue;
                }
                other => panic!("an update got {other:?}"),
            }
            progress = Instant::now();
        }
        outcomes
    }
}

/// How many updates got each RCODE.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Outcomes {
    /// NOERROR
    pub(crate) done: usize,
    /// REFUSED
    pub(crate) refused: usize,
    /// SERVFAIL. They were sent again.
    pub(crate) failed: usize,
    /// No response, because the connection was closed. They were sent again.
    pub(crate) unanswered: usize,
}

pub(crate) fn rcode(response: &[u8]) -> Rcode {
    Rcode(u16::from(response[3] & 15))
}

/// An update of `zone` with its own message ID.
pub(crate) fn update_of(zone: &str, number: usize) -> UpdateBuilder {
    UpdateBuilder::new(number as u16, name(zone).as_ref())
}

/// An update that replaces all records of a type by `rdata`.
pub(crate) fn put(zone: &str, number: usize, owner: &str, rtype: Rtype, rdata: &[u8]) -> UpdateBuilder {
    let owner = name(owner);
    update_of(zone, number).delete_rrset(owner.as_ref(), rtype).add(owner.as_ref(), 60, rtype, rdata)
}

/// The code and the text of the extended error in a response (RFC 8914 2).
pub(crate) fn extended_error(response: &[u8]) -> Option<(u16, String)> {
    let message = Message::parse(response).unwrap();
    let (_, data) = message.edns()?.options().find(|(code, _)| *code == 15)?;
    Some((u16::from_be_bytes([data[0], data[1]]), String::from_utf8(data[2..].to_vec()).unwrap()))
}
