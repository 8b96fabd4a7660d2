//! UPDATE messages, well formed or not.

use std::fmt;
use wire::name::Name;
use wire::number::{Class, Rtype};
use zone::text::{print_rdata, print_rtype};

/// A record as written in a message.
#[derive(Clone, PartialEq, Eq)]
pub struct WireRecord {
    /// Its owner.
    pub owner: Name,
    /// Its type.
    pub rtype: Rtype,
    /// Its class.
    pub class: Class,
    /// Its TTL.
    pub ttl: u32,
    /// Uncompressed rdata. It may be empty or malformed.
    pub rdata: Vec<u8>,
}

/// An UPDATE of a zone of class IN.
#[derive(Clone, PartialEq, Eq)]
pub struct Update {
    /// The zone.
    pub apex: Name,
    /// The prerequisite section.
    pub prerequisites: Vec<WireRecord>,
    /// The update section.
    pub steps: Vec<WireRecord>,
}

/// Maximum size of a message over TCP, without TSIG.
pub const BYTES_MAX: usize = 65_000;

impl Update {
    /// An empty UPDATE.
    #[must_use]
    pub fn new(apex: &Name) -> Self {
        Self { apex: apex.clone(), prerequisites: Vec::new(), steps: Vec::new() }
    }

    /// Size of the message before signing.
    #[must_use]
    pub fn bytes_len(&self) -> usize {
        let record = |raw: &WireRecord| raw.owner.as_bytes().len() + 10 + raw.rdata.len();
        let records = self.prerequisites.iter().chain(&self.steps).map(record).sum::<usize>();
        12 + self.apex.as_bytes().len() + 4 + records
    }

    /// Adds a record (RFC 2136 2.5.1).
    pub fn add(&mut self, owner: &Name, rtype: Rtype, ttl: u32, rdata: &[u8]) {
        self.step(owner, rtype, Class::IN, ttl, rdata);
    }

    /// Deletes an RRset, or with type ANY all RRsets of the owner (RFC 2136 2.5.2, 2.5.3).
    pub fn delete_rrset(&mut self, owner: &Name, rtype: Rtype) {
        self.step(owner, rtype, Class::ANY, 0, &[]);
    }

    /// Deletes a record (RFC 2136 2.5.4).
    pub fn delete_record(&mut self, owner: &Name, rtype: Rtype, rdata: &[u8]) {
        self.step(owner, rtype, Class::NONE, 0, rdata);
    }

    fn step(&mut self, owner: &Name, rtype: Rtype, class: Class, ttl: u32, rdata: &[u8]) {
        self.steps.push(WireRecord { owner: owner.clone(), rtype, class, ttl, rdata: rdata.to_vec() });
    }
}

impl fmt::Debug for WireRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        print_rtype(self.rtype, &mut text);
        if !self.rdata.is_empty() {
            text.push(' ');
            print_rdata(self.rtype, &self.rdata, &mut text);
        }
        write!(f, "{} {} {:?} {text}", self.owner, self.ttl, self.class)
    }
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone {}", self.apex)?;
        self.prerequisites.iter().try_for_each(|raw| write!(f, "\n  prerequisite {raw:?}"))?;
        self.steps.iter().try_for_each(|raw| write!(f, "\n  step         {raw:?}"))
    }
}
