//! Conditions of rules.

use super::plan::When;
use crate::message::Message;
use crate::prefix::Prefix;
use std::net::IpAddr;
use wire::parse::{FirstQuestion, Header};

impl When {
    /// Whether all conditions hold for a message at this time since the first one.
    pub(super) fn matches(&self, message: &Message<'_>, after_ns: u64) -> bool {
        let is_in = |prefixes: &[Prefix], address: IpAddr| {
            prefixes.is_empty() || prefixes.iter().any(|prefix| prefix.contains(address))
        };
        self.responses.is_none_or(|responses| responses == message.is_response())
            && after_ns >= self.from_ns
            && self.until_ns.is_none_or(|until_ns| after_ns < until_ns)
            && (self.transports.is_empty() || self.transports.contains(&message.transport))
            && is_in(&self.clients, message.client().ip())
            && is_in(&self.servers, message.server().ip())
            && self.question_matches(message.bytes)
            && self.rest_matches(message)
    }

    fn question_matches(&self, bytes: &[u8]) -> bool {
        if self.names.is_empty() && self.qtypes.is_empty() {
            return true;
        }
        let has_question = Header::parse(bytes).is_some_and(|header| header.counts[0] > 0);
        let Some(question) = FirstQuestion::read(bytes).ok().filter(|_| has_question) else { return false };
        (self.names.is_empty() || self.names.iter().any(|name| question.qname.is_at_or_below(name.as_ref())))
            && (self.qtypes.is_empty() || self.qtypes.contains(&question.qtype))
    }

    fn rest_matches(&self, message: &Message<'_>) -> bool {
        let opcode = message.bytes[2] >> 3 & 0x0F;
        if !self.opcodes.is_empty() && !self.opcodes.iter().any(|wanted| wanted.0 == opcode) {
            return false;
        }
        if self.rcodes.is_empty() && self.edns.is_none() && self.dnssec_ok.is_none() {
            return true;
        }
        let whole = wire::parse::Message::parse(message.bytes).ok();
        let low = wire::Rcode(u16::from(message.bytes[3] & 0x0F));
        let rcode = whole.as_ref().map_or(low, wire::parse::Message::rcode);
        let edns = whole.and_then(|whole| whole.edns());
        (self.rcodes.is_empty() || (message.is_response() && self.rcodes.contains(&rcode)))
            && self.edns.is_none_or(|wanted| wanted == edns.is_some())
            && self.dnssec_ok.is_none_or(|wanted| wanted == edns.is_some_and(|edns| edns.dnssec_ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Transport;
    use wire::{MessageBuilder, Name, Opcode, Rcode, Rtype};

    fn matches(when: &When, bytes: &[u8]) -> bool {
        let (client, server) = ("192.0.2.1:4000".parse().unwrap(), "[2001:db8::53]:53".parse().unwrap());
        let (source, destination) = if bytes[2] & 0x80 == 0 { (client, server) } else { (server, client) };
        when.matches(&Message { at_ns: 0, source, destination, transport: Transport::Tcp, bytes }, 5_000)
    }

    #[test]
    fn every_condition_is_checked() {
        let name: Name = "www.Example.com.".parse().unwrap();
        let query = MessageBuilder::query(7, name.as_ref(), Rtype::AAAA).edns(1232, true).build();
        let response = MessageBuilder::query(7, name.as_ref(), Rtype::A).header(|header| header.qr = true);
        let response = response.rcode(Rcode::BADCOOKIE).build();
        let other: Name = "example.org.".parse().unwrap();
        let cases: [(When, bool, bool); 14] = [
            (When::default(), true, true),
            (When { responses: Some(true), ..When::default() }, false, true),
            (When { transports: vec![Transport::Udp], ..When::default() }, false, false),
            (When { transports: vec![Transport::Udp, Transport::Tcp], ..When::default() }, true, true),
            (When { clients: vec!["192.0.2.0/24".parse().unwrap()], ..When::default() }, true, true),
            (When { servers: vec!["192.0.2.0/24".parse().unwrap()], ..When::default() }, false, false),
            (When { names: vec![other.clone(), "EXAMPLE.com".parse().unwrap()], ..When::default() }, true, true),
            (When { names: vec![other], ..When::default() }, false, false),
            (When { qtypes: vec![Rtype::AAAA], ..When::default() }, true, false),
            (When { opcodes: vec![Opcode::UPDATE], ..When::default() }, false, false),
            (When { rcodes: vec![Rcode::BADCOOKIE], ..When::default() }, false, true),
            (When { dnssec_ok: Some(true), ..When::default() }, true, false),
            (When { from_ns: 5_000, until_ns: Some(5_001), ..When::default() }, true, true),
            (When { from_ns: 5_001, ..When::default() }, false, false),
        ];
        for (when, of_query, of_response) in cases {
            assert_eq!((matches(&when, &query), matches(&when, &response)), (of_query, of_response), "{when:?}");
        }
        assert!(!matches(&When { until_ns: Some(5_000), ..When::default() }, &query));
    }

    #[test]
    fn messages_without_a_question_match_no_name() {
        let empty = [0; 12];
        assert!(!matches(&When { names: vec![Name::root()], ..When::default() }, &empty));
        assert!(matches(&When { edns: Some(false), ..When::default() }, &empty));
    }
}
