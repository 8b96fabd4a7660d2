//! A query that is parsed and composed again, to change its name or its EDNS.

use crate::extent;
use crate::limits::MESSAGE_BYTES_MAX;
use wire::parse::{Header, RecordView, Section};
use wire::{Name, Rtype};

/// Payload size of added EDNS (DNS flag day 2020).
const PAYLOAD: u16 = 1_232;

/// A query: one question, its records, its EDNS.
#[derive(Debug)]
pub(super) struct Query {
    header: Header,
    /// QNAME in wire form.
    pub(super) qname: Vec<u8>,
    /// QTYPE and QCLASS.
    numbers: [u8; 4],
    /// Records before OPT and after it, with decompressed names.
    before: Vec<u8>,
    trailing: Vec<u8>,
    /// The OPT record.
    pub(super) edns: Option<Edns>,
    /// Bytes after the last record.
    extra: Vec<u8>,
}

/// The contents of an OPT record.
#[derive(Debug)]
pub(super) struct Edns {
    pub(super) payload: u16,
    /// Extended RCODE, version, flags.
    ttl: u32,
    options: Vec<u8>,
}

impl Default for Edns {
    fn default() -> Self {
        Self { payload: PAYLOAD, ttl: 0, options: Vec::new() }
    }
}

impl Edns {
    /// DO (RFC 3225 3).
    const DNSSEC_OK: u32 = 0x8000;

    pub(super) fn set_dnssec_ok(&mut self, is_set: bool) {
        self.ttl = if is_set { self.ttl | Self::DNSSEC_OK } else { self.ttl & !Self::DNSSEC_OK };
    }

    /// Removes all options of a code.
    pub(super) fn remove(&mut self, code: u16) {
        let mut at = 0;
        while let Some(&[a, b, c, d]) = self.options.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            let bytes = 4 + usize::from(u16::from_be_bytes([c, d]));
            if u16::from_be_bytes([a, b]) == code {
                self.options.drain(at..(at + bytes).min(self.options.len()));
            } else {
                at += bytes;
            }
        }
    }

    pub(super) fn add(&mut self, code: u16, bytes: &[u8]) {
        self.options.extend_from_slice(&code.to_be_bytes());
        self.options.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        self.options.extend_from_slice(bytes);
    }
}

impl Query {
    /// Parses a message. `None` if it is malformed, does not have one question, or has several OPT records.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (message, extra) = extent::parse(bytes)?;
        let mut questions = message.questions();
        let (question, None) = (questions.next()?, questions.next()) else { return None };
        let [a, b] = question.qtype.0.to_be_bytes();
        let [c, d] = question.qclass.0.to_be_bytes();
        let mut query = Self {
            header: *message.header(),
            qname: question.qname.as_bytes().to_vec(),
            numbers: [a, b, c, d],
            before: Vec::new(),
            trailing: Vec::new(),
            edns: None,
            extra: extra.to_vec(),
        };
        for section in Section::ALL {
            for record in message.records(section) {
                let record = record.ok()?;
                if record.rtype == Rtype::OPT && section == Section::Additional {
                    let edns = record.edns().filter(|_| query.edns.is_none())?;
                    query.edns = Some(Edns { payload: edns.payload, ttl: record.ttl, options: edns.options.to_vec() });
                    continue;
                }
                // RFC 8945 5.1, RFC 2931 3.1: signatures come last, also after an added OPT.
                let is_last = matches!(record.rtype, Rtype::TSIG | Rtype::SIG) && section == Section::Additional;
                let out = if query.edns.is_some() || is_last { &mut query.trailing } else { &mut query.before };
                push(&record, out)?;
            }
        }
        Some(query)
    }

    /// Current size.
    pub(super) fn byte_count(&self) -> usize {
        let edns = self.edns.as_ref().map_or(0, |edns| 11 + edns.options.len());
        12 + self.qname.len() + 4 + self.before.len() + self.trailing.len() + edns + self.extra.len()
    }

    /// Composes the message. Returns false and writes nothing if it is too long.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> bool {
        if self.byte_count() > MESSAGE_BYTES_MAX {
            return false;
        }
        out.clear();
        out.extend_from_slice(&self.header.to_bytes());
        out.extend_from_slice(&self.qname);
        out.extend_from_slice(&self.numbers);
        out.extend_from_slice(&self.before);
        if let Some(edns) = &self.edns {
            // RFC 6891 6.1.2: root name, payload size in the class, flags in the TTL.
            out.push(0);
            out.extend_from_slice(&Rtype::OPT.0.to_be_bytes());
            out.extend_from_slice(&edns.payload.to_be_bytes());
            out.extend_from_slice(&edns.ttl.to_be_bytes());
            out.extend_from_slice(&(edns.options.len() as u16).to_be_bytes());
            out.extend_from_slice(&edns.options);
        }
        out.extend_from_slice(&self.trailing);
        out.extend_from_slice(&self.extra);
        true
    }

    /// Adds EDNS if it is missing.
    pub(super) fn edns_mut(&mut self) -> &mut Edns {
        if self.edns.is_none() {
            self.header.counts[Section::Additional as usize] += 1;
        }
        self.edns.get_or_insert_default()
    }

    /// Removes EDNS.
    pub(super) fn remove_edns(&mut self) {
        if self.edns.take().is_some() {
            self.header.counts[Section::Additional as usize] -= 1;
        }
    }

    /// Replaces the end of the name. Other names stay. `None` if the result is too long.
    pub(super) fn replace_suffix(&self, from: &Name, to: &Name) -> Option<Vec<u8>> {
        let qname = wire::NameRef::from_checked(&self.qname);
        if !qname.is_at_or_below(from.as_ref()) {
            return Some(self.qname.clone());
        }
        // Equal names have the same length.
        let prefix = &self.qname[..self.qname.len() - from.as_bytes().len()];
        let name = [prefix, to.as_bytes()].concat();
        (name.len() <= wire::limits::NAME_BYTES_MAX).then_some(name)
    }
}

/// Writes a record with decompressed names.
fn push(record: &RecordView<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(record.owner.as_bytes());
    out.extend_from_slice(&record.rtype.0.to_be_bytes());
    out.extend_from_slice(&record.class.0.to_be_bytes());
    out.extend_from_slice(&record.ttl.to_be_bytes());
    let length_at = out.len();
    out.extend_from_slice(&[0; 2]);
    // RFC 2136 2.4, 2.5: in an UPDATE, rdata may be empty.
    if !record.rdata().is_empty() {
        record.rdata_canonical(out).ok()?;
    }
    let bytes = u16::try_from(out.len() - length_at - 2).ok()?;
    out[length_at..length_at + 2].copy_from_slice(&bytes.to_be_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::parse::Message;
    use wire::{Class, MessageBuilder};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    #[test]
    fn unchanged_queries_are_identical() {
        let plain = MessageBuilder::query(7, name("www.example.").as_ref(), Rtype::A);
        let signed = plain.clone().option(3, &[]).option(10, &[1; 8]);
        for built in [plain.clone(), signed, plain.edns(4096, true)] {
            let bytes = built.build();
            let mut out = Vec::new();
            let query = Query::read(&bytes).unwrap();
            assert_eq!(query.byte_count(), bytes.len());
            assert!(query.write(&mut out));
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn bytes_after_the_last_record_are_kept() {
        let mut bytes = MessageBuilder::query(7, name("example.").as_ref(), Rtype::AXFR).build();
        bytes.extend_from_slice(b"MS");
        let mut query = Query::read(&bytes).unwrap();
        let mut out = Vec::new();
        assert!(query.write(&mut out) && out == bytes);
        query.edns_mut();
        assert!(query.write(&mut out) && out.len() == bytes.len() + 11 && out.ends_with(b"MS"));
    }

    #[test]
    fn names_are_decompressed_and_a_signature_stays_last() {
        // A signed IXFR whose SOA points to the question (RFC 1995 3). The key is at the same name.
        let mut bytes = MessageBuilder::query(7, name("example.").as_ref(), Rtype::IXFR).build();
        bytes[9] = 1;
        bytes[11] = 1;
        bytes.extend_from_slice(&[0xC0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 24, 0xC0, 12, 0xC0, 12]);
        bytes.extend_from_slice(&[0; 20]);
        bytes.extend_from_slice(&[0xC0, 12, 0, 250, 0, 255, 0, 0, 0, 0, 0, 1, 0]);
        let mut query = Query::read(&bytes).unwrap();
        query.edns_mut().add(3, &[]);
        query.qname = name("a.b.").as_bytes().to_vec();
        let mut out = Vec::new();
        assert!(query.write(&mut out));
        let message = Message::parse(&out).unwrap();
        assert_eq!(message.question().unwrap().qname.to_string(), "a.b.");
        let authority: Vec<_> = message.records(Section::Authority).map(Result::unwrap).collect();
        assert_eq!(authority[0].owner.to_string(), "example.");
        let types: Vec<_> = message.records(Section::Additional).map(|record| record.unwrap().rtype).collect();
        assert_eq!(types, [Rtype::OPT, Rtype::TSIG]);
    }

    #[test]
    fn options_are_removed_and_added() {
        let bytes = MessageBuilder::query(7, name(".").as_ref(), Rtype::NS).option(10, &[1; 8]).option(3, &[]);
        let mut query = Query::read(&bytes.option(10, &[2; 8]).build()).unwrap();
        let edns = query.edns_mut();
        edns.remove(10);
        edns.set_dnssec_ok(true);
        edns.add(12, &[0; 4]);
        let mut out = Vec::new();
        assert!(query.write(&mut out));
        let found = Message::parse(&out).unwrap().edns().unwrap();
        assert_eq!(found.options().map(|(code, bytes)| (code, bytes.len())).collect::<Vec<_>>(), [(3, 0), (12, 4)]);
        assert!(found.dnssec_ok);
        query.remove_edns();
        assert!(query.write(&mut out) && Message::parse(&out).unwrap().edns().is_none());
    }

    #[test]
    fn unusual_queries_are_not_changed() {
        let built = MessageBuilder::query(7, name("a.").as_ref(), Rtype::A);
        let two = built.clone().question(name("b.").as_ref(), Rtype::A, Class::IN).build();
        assert!(Query::read(&two).is_none() && Query::read(&[0; 12]).is_none());
        let mut cut = built.build();
        cut.pop();
        assert!(Query::read(&cut).is_none());
    }
}
