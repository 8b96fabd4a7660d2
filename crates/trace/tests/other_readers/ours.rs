//! Reads files with our reader.

use crate::fields::{MessageFields, NONE};
use std::path::Path;
use trace::{DnstapSide, Options, open};
use wire::parse::{FirstQuestion, Header, Message};

/// Every message of a file in order.
pub(crate) fn read(path: &Path) -> Vec<MessageFields> {
    let mut reader = open(path, &Options { dnstap: DnstapSide::ALL.into(), ..Options::default() }).unwrap();
    let mut all = Vec::new();
    while let Some(message) = reader.next().unwrap() {
        all.push(fields_of(&message));
    }
    all
}

fn fields_of(message: &trace::Message<'_>) -> MessageFields {
    let header = Header::parse(message.bytes).unwrap();
    let (id, response) = (header.id, u8::from(header.qr));
    let key = format!("{} {} {} {id} {response}", message.transport, message.source, message.destination);
    let mut entry = MessageFields::new(key);
    entry.set("time", message.at_ns);
    entry.set("opcode", header.opcode.0);
    let flags = [
        ("AA", header.aa),
        ("TC", header.tc),
        ("RD", header.rd),
        ("RA", header.ra),
        ("AD", header.ad),
        ("CD", header.cd),
    ];
    flags.into_iter().for_each(|(name, is_set)| entry.set(name, u8::from(is_set)));
    entry.set("RCODE", header.rcode);
    ["QD", "AN", "NS", "AR"].into_iter().zip(header.counts).for_each(|(name, count)| entry.set(name, count));
    let question = FirstQuestion::read(message.bytes).ok().filter(|_| header.counts[0] > 0);
    let (name, rtype, class) = question.map_or_else(
        || (NONE.to_owned(), NONE.to_owned(), NONE.to_owned()),
        |asked| (hex(asked.qname.as_bytes()), asked.qtype.0.to_string(), asked.qclass.0.to_string()),
    );
    entry.set("name", name);
    entry.set("type", rtype);
    entry.set("class", class);
    let parsed = Message::parse(message.bytes);
    entry.is_malformed = parsed.is_err();
    let edns = parsed.ok().and_then(|message| message.edns());
    entry.set("EDNS", if edns.is_some() { "there" } else { NONE });
    entry.set("size", edns.map_or_else(|| NONE.to_owned(), |edns| edns.payload.to_string()));
    entry.set("version", edns.map_or_else(|| NONE.to_owned(), |edns| edns.version.to_string()));
    entry.set("DO", edns.map_or_else(|| NONE.to_owned(), |edns| u8::from(edns.dnssec_ok).to_string()));
    entry
}

/// Bytes as hexadecimal digits, as in tshark.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
