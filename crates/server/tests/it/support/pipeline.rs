//! A client that keeps many updates in flight on one TCP connection, or sends them one by one.

use super::dns::{framed, read_message};
use super::message::{append, name, now_s};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tsig::client::{ClientKey, UpdateBuilder};
use wire::Rtype;
use wire::number::Rcode;
use wire::parse::Message;

/// Updates in flight: as many as a node reads ahead from one connection.
const IN_FLIGHT: usize = 100;
/// Time limit for one response.
const PATIENCE: Duration = Duration::from_secs(30);

/// OPT without options (RFC 6891 6.1.2). With it, responses contain an explanation.
const OPT: [u8; 11] = [0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0];

/// A connection with one key.
pub(crate) struct Pipeline<'k> {
    stream: TcpStream,
    key: &'k ClientKey,
    in_flight: usize,
}

impl<'k> Pipeline<'k> {
    pub(crate) fn new(to: SocketAddr, key: &'k ClientKey) -> Self {
        let stream = TcpStream::connect(to).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, key, in_flight: IN_FLIGHT }
    }

    /// The same with fewer updates in flight.
    pub(crate) fn with_in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    fn send(&mut self, update: UpdateBuilder) {
        let message = self.key.sign(append(update.finish(), &OPT), now_s()).unwrap();
        self.stream.write_all(&framed(&message)).unwrap();
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        read_message(&mut self.stream).ok()
    }

    /// Sends one update. Returns the response and its latency.
    pub(crate) fn one(&mut self, update: UpdateBuilder) -> (Vec<u8>, Duration) {
        let start = Instant::now();
        self.send(update);
        (self.receive().expect("a response"), start.elapsed())
    }

    /// Sends `count` updates, many at a time. Returns how many got each RCODE. A node closes the connection if the
    /// outcome of an update is unknown. Then nothing more is sent.
    pub(crate) fn many(&mut self, count: usize, make: impl Fn(usize) -> UpdateBuilder) -> Outcomes {
        let mut outcomes = Outcomes::default();
        let mut sent = 0;
        for heard in 0..count {
            while sent < count && sent - heard < self.in_flight {
                self.send(make(sent));
                sent += 1;
            }
            let Some(response) = self.receive() else {
                outcomes.unanswered = count - heard;
                break;
            };
            match rcode(&response) {
                Rcode::NOERROR => outcomes.done += 1,
                Rcode::REFUSED => outcomes.refused += 1,
                Rcode::SERVFAIL => outcomes.failed += 1,
                other => panic!("update {heard} got {other:?}"),
            }
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
    /// SERVFAIL
    pub(crate) failed: usize,
    /// No response, or not sent.
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
