//! Answers messages for all servers of a hierarchy.

use super::backend::{Backend, answered_of};
use super::directory::Directory;
use super::responder::{AnswerSource, Responder, context};
use super::tally::{QueryResult, Tally};
use crate::ServerBehavior;
use std::net::IpAddr;
use std::sync::Arc;
use wire::name::Name;
use wire::number::{Opcode, Rcode};
use wire::parse::{Parsed, Request, parse_request};
use zone::answer::{Bare, Head, Transport, answer_from, respond_bare};
use zone::set::ZoneReader;

/// A message to a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerMessage<'m> {
    /// Time by the caller's clock.
    pub at_ns: u64,
    /// Destination address.
    pub server: IpAddr,
    /// Transport.
    pub transport: Transport,
    /// The message.
    pub bytes: &'m [u8],
}

/// Answers for every server of a hierarchy, on one thread.
pub struct Emulator {
    reader: ZoneReader,
    directory: Arc<Directory>,
    backend: Option<Box<dyn Backend>>,
    /// Created when a server with a behavior of its own is queried.
    responder: Option<Responder>,
    tally: Tally,
}

impl Emulator {
    pub(super) fn new(reader: ZoneReader, directory: Arc<Directory>, keeps_upstream: bool) -> Self {
        Self { reader, directory, backend: None, responder: None, tally: Tally::new(keeps_upstream) }
    }

    /// The same, but servers under test answer from their zones.
    #[must_use]
    pub fn in_front_of(mut self, backend: Box<dyn Backend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Writes the answer to a message. Returns its length, or 0 without an answer.
    ///
    /// An address without zones refuses all queries. So does a server without a zone for the name.
    pub fn answer(&mut self, message: &ServerMessage<'_>, out: &mut [u8]) -> usize {
        match parse_request(message.bytes) {
            Parsed::Drop(_) => {
                self.tally.other_count += 1;
                0
            }
            Parsed::Reject(reject) => {
                self.tally.other_count += 1;
                refuse(message.transport, &Head::from(&reject), reject.rcode, out)
            }
            Parsed::Request(request) if request.header.opcode != Opcode::QUERY => {
                self.tally.other_count += 1;
                refuse(message.transport, &Head::from(&request), Rcode::NOTIMP, out)
            }
            Parsed::Request(request) => self.answer_query(message, &request, out),
        }
    }

    fn answer_query(&mut self, message: &ServerMessage<'_>, request: &Request<'_>, out: &mut [u8]) -> usize {
        let set = self.reader.pin();
        let server = self.directory.server(message.server);
        let found = request.question.as_ref().and_then(|question| {
            server.and_then(|server| self.directory.zone_for(set, server, question.qname, question.qtype))
        });
        let (zone, number) = found.map_or((None, None), |found| (Some(found.zone), Some(found.number)));
        let answered = match (&mut self.backend, number) {
            (Some(backend), Some(number)) => {
                let level = self.directory.level(number);
                let length = backend.exchange(level, message.transport, message.bytes, out);
                let Some(answered) = answered_of(&out[..length]) else {
                    self.tally.silent_count += 1;
                    return 0;
                };
                answered
            }
            // Queries outside all zones are refused here, also with servers under test.
            _ => {
                let behavior = server.map_or_else(ServerBehavior::default, |server| self.directory.behavior(server));
                let responder = zone.as_ref().filter(|_| behavior != ServerBehavior::default()).and_then(|zone| {
                    let source = AnswerSource { set, zone, request, transport: message.transport, behavior };
                    self.responder.get_or_insert_default().answer(&source, out)
                });
                let without_behavior =
                    |out| answer_from(set, zone.as_ref(), request, &context(message.transport, behavior), out);
                responder.unwrap_or_else(|| without_behavior(out))
            }
        };
        let (name, rtype) = match &request.question {
            Some(question) => (question.qname.to_name(), question.qtype),
            // A query only for a cookie.
            None => (Name::root(), Default::default()),
        };
        let (at_ns, address, transport) = (message.at_ns, message.server, message.transport);
        let answered_at =
            QueryResult { at_ns, address, transport, name, rtype, server, zone: number, answered: &answered };
        self.tally.note(answered_at);
        answered.len
    }

    /// Must be called before the thread waits.
    pub fn offline(&mut self) {
        self.reader.offline();
    }

    /// The counts so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// The response to a query that no server answers, regardless of behavior.
fn refuse(transport: Transport, head: &Head<'_>, rcode: Rcode, out: &mut [u8]) -> usize {
    respond_bare(head, &context(transport, ServerBehavior::default()), Bare { rcode, ..Bare::default() }, out)
}

#[cfg(test)]
mod tests;
