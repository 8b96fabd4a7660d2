//! What we read.

use crate::fields::{MessageFields, NONE};
use std::path::Path;
use trace::{DnstapSide, Options, open};
use wire::parse::{FirstQuestion, Header, Message};

/// Every message of a file, in its order.
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
    let mut told = MessageFields::new(key);
    told.set("time", message.at_ns);
    told.set("opcode", header.opcode.0);
    let flags = [
        ("AA", header.aa),
        ("TC", header.tc),
        ("RD", header.rd),
        ("RA", header.ra),
        ("AD", header.ad),
        ("CD", header.cd),
    ];
    flags.into_iter().for_each(|(name, is_set)| told.set(name, u8::from(is_set)));
    told.set("RCODE", header.rcode);
    ["QD", "AN", "NS", "AR"].into_iter().zip(header.counts).for_each(|(name, count)| told.set(name, count));
    let question = FirstQuestion::read(message.bytes).ok().filter(|_| header.counts[0] > 0);
    let (name, rtype, class) = question.map_or_else(
        || (NONE.to_owned(), NONE.to_owned(), NONE.to_owned()),
        |asked| (hex(asked.qname.as_bytes()), asked.qtype.0.to_string(), asked.qclass.0.to_string()),
    );
    told.set("name", name);
    told.set("type", rtype);
    told.set("class", class);
    let parsed = Message::parse(message.bytes);
    told.is_malformed = parsed.is_err();
    let edns = parsed.ok().and_then(|message| message.edns());
    told.set("EDNS", if edns.is_some() { "there" } else { NONE });
    told.set("size", edns.map_or_else(|| NONE.to_owned(), |edns| edns.payload.to_string()));
    told.set("version", edns.map_or_else(|| NONE.to_owned(), |edns| edns.version.to_string()));
    told.set("DO", edns.map_or_else(|| NONE.to_owned(), |edns| u8::from(edns.dnssec_ok).to_string()));
    told
}

/// Bytes in base 16, as tshark has them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
