//! A client that keeps many updates in flight on one TCP connection, and one that sends them one by one.

use super::dns::read_tcp;
use super::message::{append, name, now_s};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tsig::client::{ClientKey, UpdateBuilder};
use wire::Rtype;
use wire::number::Rcode;
use wire::parse::Message;

/// Updates on their way at a time: as many as a node reads ahead of one connection.
const IN_FLIGHT: usize = 100;
/// How long one response is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// OPT without options (RFC 6891 6.1.2): with it responses explain themselves.
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

    /// The same with fewer updates on their way.
    pub(crate) fn with_in_flight(self, in_flight: usize) -> Self {
        Self { in_flight, ..self }
    }

    fn send(&mut self, update: UpdateBuilder) {
        let message = self.key.sign(append(update.finish(), &OPT), now_s()).unwrap();
        self.stream.write_all(&[&(message.len() as u16).to_be_bytes(), &message[..]].concat()).unwrap();
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        read_tcp(&mut self.stream).ok()
    }

    /// Sends one update; gives the response and how long it took.
    pub(crate) fn one(&mut self, update: UpdateBuilder) -> (Vec<u8>, Duration) {
        let start = Instant::now();
        self.send(update);
        (self.receive().expect("a response"), start.elapsed())
    }

    /// Sends `count` updates, many at a time; gives how many got each RCODE. A node that does not know what
    /// became of an update closes the connection: then nothing more is sent.
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

/// An update of `zone` with a message ID of its own.
pub(crate) fn update_of(zone: &str, number: usize) -> UpdateBuilder {
    UpdateBuilder::new(number as u16, name(zone).as_ref())
}

/// An update that puts `rdata` in the place of all records of a type.
pub(crate) fn put(zone: &str, number: usize, owner: &str, rtype: Rtype, rdata: &[u8]) -> UpdateBuilder {
    let owner = name(owner);
    update_of(zone, number).delete_rrset(owner.as_ref(), rtype).add(owner.as_ref(), 60, rtype, rdata)
}

/// The text of the extended error in a response (RFC 8914 2), after its code.
pub(crate) fn extended_error(response: &[u8]) -> Option<(u16, String)> {
    let message = Message::parse(response).unwrap();
    let (_, data) = message.edns()?.options().find(|(code, _)| *code == 15)?;
    Some((u16::from_be_bytes([data[0], data[1]]), String::from_utf8(data[2..].to_vec()).unwrap()))
}
