//! Builds owned messages, for clients, tests and the laboratory. It allocates and checks nothing, so it can build
//! malformed messages too.

use crate::limits::MESSAGE_BYTES_MAX;
use crate::name::NameRef;
use crate::number::{Class, Opcode, Rcode, Rtype};
use crate::parse::{Header, Section};

/// Builds a message with uncompressed names. Add records section by section.
#[derive(Clone, Debug)]
pub struct MessageBuilder {
    header: Header,
    body: Vec<u8>,
    /// EDNS, which [`MessageBuilder::build`] appends after all records.
    edns: Option<Edns>,
}

#[derive(Clone, Debug)]
struct Edns {
    payload: u16,
    ttl: [u8; 4],
    options: Vec<u8>,
}

impl MessageBuilder {
    /// An empty message with this header. Its counts are updated as the message grows.
    #[must_use]
    pub fn new(header: Header) -> Self {
        Self { header: Header { counts: [0; 4], ..header }, body: Vec::new(), edns: None }
    }

    /// A query of one question, class IN.
    #[must_use]
    pub fn query(id: u16, qname: NameRef<'_>, qtype: Rtype) -> Self {
        Self::new(Header { id, ..Header::default() }).question(qname, qtype, Class::IN)
    }

    /// An UPDATE of a zone of class IN (RFC 2136 2.3).
    #[must_use]
    pub fn update(id: u16, apex: NameRef<'_>) -> Self {
        let header = Header { id, opcode: Opcode::UPDATE, ..Header::default() };
        Self::new(header).question(apex, Rtype::SOA, Class::IN)
    }

    /// Changes the header, except its counts.
    #[must_use]
    pub fn header(mut self, change: impl FnOnce(&mut Header)) -> Self {
        let counts = self.header.counts;
        change(&mut self.header);
        self.header.counts = counts;
        self
    }

    /// Adds a question.
    #[must_use]
    pub fn question(mut self, qname: NameRef<'_>, qtype: Rtype, qclass: Class) -> Self {
        self.body.extend_from_slice(qname.as_bytes());
        self.body.extend_from_slice(&qtype.0.to_be_bytes());
        self.body.extend_from_slice(&qclass.0.to_be_bytes());
        self.header.counts[0] += 1;
        self
    }

    /// Adds a record.
    #[must_use]
    pub fn record(
        mut self,
        section: Section,
        owner: NameRef<'_>,
        rtype: Rtype,
        class: Class,
        ttl: u32,
        rdata: &[u8],
    ) -> Self {
        push_record(&mut self.body, owner, rtype, class, &ttl.to_be_bytes(), rdata);
        self.header.counts[section as usize] += 1;
        self
    }

    /// Prerequisite: an RRset exists, with any value (RFC 2136 2.4.1).
    #[must_use]
    pub fn rrset_exists(self, owner: NameRef<'_>, rtype: Rtype) -> Self {
        self.record(Section::PREREQUISITE, owner, rtype, Class::ANY, 0, &[])
    }

    /// Prerequisite: the RRset consists of exactly the records required in this way (RFC 2136 2.4.2).
    #[must_use]
    pub fn rrset_exists_value(self, owner: NameRef<'_>, rtype: Rtype, rdata: &[u8]) -> Self {
        self.record(Section::PREREQUISITE, owner, rtype, Class::IN, 0, rdata)
    }

    /// Prerequisite: there is no such RRset (RFC 2136 2.4.3).
    #[must_use]
    pub fn rrset_does_not_exist(self, owner: NameRef<'_>, rtype: Rtype) -> Self {
        self.record(Section::PREREQUISITE, owner, rtype, Class::NONE, 0, &[])
    }

    /// Prerequisite: the name has records (RFC 2136 2.4.4).
    #[must_use]
    pub fn name_in_use(self, owner: NameRef<'_>) -> Self {
        self.record(Section::PREREQUISITE, owner, Rtype::ANY, Class::ANY, 0, &[])
    }

    /// Prerequisite: the name has no records (RFC 2136 2.4.5).
    #[must_use]
    pub fn name_not_in_use(self, owner: NameRef<'_>) -> Self {
        self.record(Section::PREREQUISITE, owner, Rtype::ANY, Class::NONE, 0, &[])
    }

    /// Update: add a record (RFC 2136 2.5.1).
    #[must_use]
    pub fn add(self, owner: NameRef<'_>, rtype: Rtype, ttl: u32, rdata: &[u8]) -> Self {
        self.record(Section::UPDATE, owner, rtype, Class::IN, ttl, rdata)
    }

    /// Update: delete an RRset (RFC 2136 2.5.2).
    #[must_use]
    pub fn delete_rrset(self, owner: NameRef<'_>, rtype: Rtype) -> Self {
        self.record(Section::UPDATE, owner, rtype, Class::ANY, 0, &[])
    }

    /// Update: delete all RRsets of a name (RFC 2136 2.5.3).
    #[must_use]
    pub fn delete_name(self, owner: NameRef<'_>) -> Self {
        self.record(Section::UPDATE, owner, Rtype::ANY, Class::ANY, 0, &[])
    }

    /// Update: delete one record (RFC 2136 2.5.4).
    #[must_use]
    pub fn delete(self, owner: NameRef<'_>, rtype: Rtype, rdata: &[u8]) -> Self {
        self.record(Section::UPDATE, owner, rtype, Class::NONE, 0, rdata)
    }

    /// Adds EDNS, version 0, without options.
    #[must_use]
    pub fn edns(mut self, payload: u16, dnssec_ok: bool) -> Self {
        self.edns = Some(Edns { payload, ttl: [0, 0, u8::from(dnssec_ok) << 7, 0], options: Vec::new() });
        self
    }

    /// Sets the EDNS version.
    #[must_use]
    pub fn edns_version(mut self, version: u8) -> Self {
        self.edns.get_or_insert_with(Edns::default).ttl[1] = version;
        self
    }

    /// Sets the RCODE; its upper eight bits need EDNS (RFC 6891 6.1.3).
    #[must_use]
    pub fn rcode(mut self, rcode: Rcode) -> Self {
        self.header.rcode = (rcode.0 & 0x0F) as u8;
        if rcode.0 > 0x0F {
            self.edns.get_or_insert_with(Edns::default).ttl[0] = (rcode.0 >> 4) as u8;
        }
        self
    }

    /// Adds an EDNS option of at most 65,535 bytes.
    #[must_use]
    pub fn option(mut self, code: u16, data: &[u8]) -> Self {
        let options = &mut self.edns.get_or_insert_with(Edns::default).options;
        options.extend_from_slice(&code.to_be_bytes());
        options.extend_from_slice(&(data.len() as u16).to_be_bytes());
        options.extend_from_slice(data);
        self
    }

    /// Bytes so far.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        let opt = self.edns.as_ref().map_or(0, |edns| 11 + edns.options.len());
        crate::limits::HEADER_BYTES + self.body.len() + opt
    }

    /// Whether the message still fits TCP's length field.
    #[must_use]
    pub fn is_sendable(&self) -> bool {
        self.byte_count() <= MESSAGE_BYTES_MAX
    }

    /// The bytes.
    #[must_use]
    pub fn build(mut self) -> Vec<u8> {
        if let Some(edns) = self.edns.take() {
            push_record(&mut self.body, NameRef::ROOT, Rtype::OPT, Class(edns.payload), &edns.ttl, &edns.options);
            self.header.counts[Section::Additional as usize] += 1;
        }
        let mut bytes = self.header.to_bytes().to_vec();
        bytes.append(&mut self.body);
        bytes
    }
}

impl Default for Edns {
    fn default() -> Self {
        Self { payload: 1232, ttl: [0; 4], options: Vec::new() }
    }
}

fn push_record(body: &mut Vec<u8>, owner: NameRef<'_>, rtype: Rtype, class: Class, ttl: &[u8; 4], rdata: &[u8]) {
    body.extend_from_slice(owner.as_bytes());
    body.extend_from_slice(&rtype.0.to_be_bytes());
    body.extend_from_slice(&class.0.to_be_bytes());
    body.extend_from_slice(ttl);
    body.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
    body.extend_from_slice(rdata);
}
