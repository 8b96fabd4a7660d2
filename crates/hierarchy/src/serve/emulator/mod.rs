//! Bytes to bytes: the server at an address, out of all that there are.

use super::backend::{Backend, told};
use super::directory::Directory;
use super::responder::{Matter, Responder};
use super::tally::{Noted, Tally};
use crate::ServerBehavior;
use std::net::IpAddr;
use std::sync::Arc;
use wire::name::Name;
use wire::number::{Opcode, Rcode};
use wire::parse::{Parsed, Request, parse_request};
use zone::answer::{AnswerContext, Bare, Chaos, Head, Servable, Transport, answer_from, respond_bare};
use zone::set::ZoneReader;

/// A message that came to a server.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'m> {
    /// When, by the caller's clock.
    pub at_ns: u64,
    /// The address that it was sent to.
    pub server: IpAddr,
    /// Over what.
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

    /// The same, that has servers under test answer what a zone answers.
    #[must_use]
    pub fn in_front_of(mut self, backend: Box<dyn Backend>) -> Self {
        self.backend = Some(backend);
        self
    }

    /// Writes the answer to a message, and gives its bytes; 0 if there is none.
    ///
    /// An address that no zone names refuses all queries, as does a server that has no zone with the name.
    pub fn answer(&mut self, asked: &Asked<'_>, out: &mut [u8]) -> usize {
        match parse_request(asked.bytes) {
            Parsed::Drop(_) => {
                self.tally.other_count += 1;
                0
            }
            Parsed::Reject(reject) => {
                self.tally.other_count += 1;
                refuse(asked.transport, &Head::from(&reject), reject.rcode, out)
            }
            Parsed::Request(request) if request.header.opcode != Opcode::QUERY => {
                self.tally.other_count += 1;
                refuse(asked.transport, &Head::from(&request), Rcode::NOTIMP, out)
            }
            Parsed::Request(request) => self.answer_query(asked, &request, out),
        }
    }

    fn answer_query(&mut self, asked: &Asked<'_>, request: &Request<'_>, out: &mut [u8]) -> usize {
        let set = self.reader.pin();
        let server = self.directory.server(asked.server);
        let found = request.question.as_ref().and_then(|question| {
            server.and_then(|server| self.directory.zone_for(set, server, question.qname, question.qtype))
        });
        let (zone, number) = found.map_or((None, None), |found| (Some(found.zone), Some(found.number)));
        let answered = match (&mut self.backend, number) {
            (Some(backend), Some(number)) => {
                let level = self.directory.level(number);
                let length = backend.exchange(level, asked.transport, asked.bytes, out);
                let Some(answered) = told(&out[..length]) else {
                    self.tally.silent_count += 1;
                    return 0;
                };
                answered
            }
            // What no zone answers is refused here, whoever has the zones.
            _ => {
                let behavior = server.map_or_else(ServerBehavior::default, |server| self.directory.behavior(server));
                let responder = zone.as_ref().filter(|_| behavior != ServerBehavior::default()).and_then(|zone| {
                    let matter = Matter { set, zone, request, transport: asked.transport, behavior };
                    self.responder.get_or_insert_default().answer(&matter, out)
                });
                let plainly = |out| answer_from(set, zone.as_ref(), request, &context(asked.transport, behavior), out);
                responder.unwrap_or_else(|| plainly(out))
            }
        };
        let (name, rtype) = match &request.question {
            Some(question) => (question.qname.to_name(), question.qtype),
            // A query for a cookie alone.
            None => (Name::root(), Default::default()),
        };
        let (at_ns, address, transport) = (asked.at_ns, asked.server, asked.transport);
        let answered_at = Noted { at_ns, address, transport, name, rtype, server, zone: number, answered: &answered };
        self.tally.note(answered_at);
        answered.len
    }

    /// To be called before the thread waits.
    pub fn offline(&mut self) {
        self.reader.offline();
    }

    /// What was asked so far.
    #[must_use]
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

/// As a plain server with the sizes of most: no cookies, no identifier, nothing that differs from one answer to the
/// next. Its datagrams are as large as its behavior says.
pub(super) fn context(transport: Transport, behavior: ServerBehavior) -> AnswerContext<'static> {
    AnswerContext {
        transport,
        udp_bytes_max: behavior.datagram_bytes_max(),
        payload: behavior.datagram_bytes_max(),
        nsid: None,
        cookie: None,
        keepalive: None,
        padding_block: 0,
        chaos: Chaos { id_server: None, version: None },
        zone_state: &|_| Servable::Ready,
        tsig_reserve: 0,
    }
}

/// The response to a query that no server answers, whatever its behavior.
fn refuse(transport: Transport, head: &Head<'_>, rcode: Rcode, out: &mut [u8]) -> usize {
    respond_bare(head, &context(transport, ServerBehavior::default()), Bare { rcode, ..Bare::default() }, out)
}

#[cfg(test)]
mod tests;
