//! A DNS server that answers with the address of the client, as A, AAAA or TXT.

use crate::address::{Family, from_rdata};
use std::net::IpAddr;
use wire::Name;
use wire::builder::MessageBuilder;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{FirstQuestion, Header, Message, Section};

/// The query.
pub(super) fn query(id: u16, qname: &Name, qtype: Rtype, qclass: Class) -> Vec<u8> {
    // Some of these servers are resolvers.
    let header = Header { id, rd: true, ..Header::default() };
    MessageBuilder::new(header).question(qname.as_ref(), qtype, qclass).build()
}

/// The address in the response to a query.
pub(super) fn read(query: &[u8], response: &[u8], family: Family) -> Option<IpAddr> {
    let message = Message::parse(response).ok()?;
    let (question, response_question) = (FirstQuestion::read(query).ok()?, FirstQuestion::read(response).ok()?);
    let header = message.header();
    // RFC 5452 9.1: ID and question must match. The socket checks the address.
    let is_ours = header.qr && response[..2] == query[..2] && question == response_question;
    if !is_ours || message.rcode() != Rcode::NOERROR {
        return None;
    }
    message.records(Section::Answer).flatten().find_map(|record| match record.rtype {
        rtype if rtype == family.rtype() => from_rdata(family, record.rdata()),
        Rtype::TXT => strings(record.rdata()).filter_map(parse).find(|address| Family::of(address) == family),
        _ => None,
    })
}

/// The character-strings of a TXT record (RFC 1035 3.3.14).
fn strings(mut rdata: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&len, rest) = rdata.split_first()?;
        let (string, rest) = rest.split_at_checked(usize::from(len))?;
        rdata = rest;
        Some(string)
    })
}

fn parse(string: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(string).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(query: &[u8], rtype: Rtype, rdata: &[u8]) -> Vec<u8> {
        let question = FirstQuestion::read(query).unwrap();
        let header = Header { qr: true, ..Header::parse(query).unwrap() };
        MessageBuilder::new(header)
            .question(question.qname, question.qtype, question.qclass)
            .record(Section::Answer, question.qname, rtype, question.qclass, 0, rdata)
            .build()
    }

    #[test]
    fn the_address_is_read_from_each_type() {
        let name: Name = "whoami.example".parse().unwrap();
        let ask = |qtype| query(7, &name, qtype, Class::IN);
        let address = |qtype, rdata: &[u8], family| read(&ask(qtype), &answer(&ask(qtype), qtype, rdata), family);
        let (v4, v6) = ("192.0.2.1".parse().ok(), "2001:db8::1".parse().ok());
        assert_eq!(address(Rtype::A, &[192, 0, 2, 1], Family::V4), v4);
        assert_eq!(address(Rtype::A, &[192, 0, 2, 1], Family::V6), None);
        assert_eq!(address(Rtype::TXT, b"\x0b2001:db8::1", Family::V6), v6);
        assert_eq!(address(Rtype::TXT, b"\x05hello\x09192.0.2.1", Family::V4), v4);
        assert_eq!(address(Rtype::TXT, b"\xff192.0.2.1", Family::V4), None);
        // Another ID, then another question.
        let other = query(8, &name, Rtype::A, Class::IN);
        assert_eq!(read(&ask(Rtype::A), &answer(&other, Rtype::A, &[192, 0, 2, 1]), Family::V4), None);
        let other = query(7, &name, Rtype::TXT, Class::IN);
        assert_eq!(read(&ask(Rtype::A), &answer(&other, Rtype::A, &[192, 0, 2, 1]), Family::V4), None);
        assert_eq!(read(&ask(Rtype::A), &ask(Rtype::A), Family::V4), None);
    }
}
