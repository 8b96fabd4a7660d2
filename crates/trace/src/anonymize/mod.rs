//! Anonymizes a trace: a key decides the pseudonyms of addresses and names, and other identifying contents become
//! blank.
//!
//! ```text
//!   Message --> addresses (prefixes kept) -----------------------------+--> Message
//!          \--> questions, records, OPT --> names, by label -----------+
//!                                      \--> rdata, field by field -----+--> the rest: left out and counted
//! ```
//!
//! Messages are composed again from their parsed contents. Contents that cannot be parsed are never copied. Times,
//! ports, IDs, flags, types, TTLs, sizes of messages and numbers of zones stay.

// Key.
mod key;
pub use key::Key;

// Pseudonyms.
mod addresses;
mod labels;
mod names;
mod pseudonyms;
mod registered;
pub use labels::LabelLengths;

// Counts, and messages that are left out.
mod drop_reason;
mod tally;
pub use tally::AnonymizationTally;

// Parts of a message.
mod compose;
mod dso;
mod options;
mod rdata;
pub use options::Options;

use crate::extent;
use crate::message::Message;
use addresses::Addresses;
use compose::Composer;
use drop_reason::DropReason;
use names::Names;
use pseudonyms::Pseudonyms;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use wire::parse::{Header, RecordView, Section};
use wire::{EdnsIn, Name, Rtype};

/// Settings of an anonymization.
#[derive(Clone, Debug, Default)]
pub struct Anonymization {
    /// Suffixes to keep: top-level domains, and names below them with the same owner.
    pub kept_suffixes: BTreeSet<Name>,
    /// Lengths of labels.
    pub lengths: LabelLengths,
    /// EDNS options.
    pub options: Options,
}

/// Anonymizes a trace, message by message.
#[derive(Debug)]
pub struct Anonymizer {
    pseudonyms: Pseudonyms,
    options: Options,
    composer: Composer,
    /// Rdata of one record, with decompressed names.
    rdata: Vec<u8>,
    tally: AnonymizationTally,
}

impl Anonymizer {
    /// Creates an anonymizer with a key.
    #[must_use]
    pub fn new(key: &Key, how: Anonymization) -> Self {
        let Anonymization { kept_suffixes, lengths, options } = how;
        let pseudonyms = Pseudonyms { addresses: Addresses::new(key), names: Names::new(key, lengths, kept_suffixes) };
        let (composer, tally) = (Composer::default(), AnonymizationTally::default());
        Self { pseudonyms, options, composer, rdata: Vec::new(), tally }
    }

    /// Returns the anonymized message. `None` if it is left out, which is counted.
    pub fn apply(&mut self, message: &Message<'_>) -> Option<Message<'_>> {
        self.tally.messages += 1;
        let [source, destination] = [message.source, message.destination]
            .map(|endpoint| SocketAddr::new(self.pseudonyms.addresses.address(endpoint.ip()), endpoint.port()));
        let result = match extent::parse(message.bytes) {
            Some((parsed, extra)) => self.write(&parsed).and_then(|()| self.write_extra(parsed.header(), extra)),
            None => Err(DropReason::Malformed),
        };
        match result {
            Err(DropReason::Malformed) => self.tally.malformed += 1,
            Err(DropReason::TooLong) => self.tally.too_long += 1,
            Ok(()) => self.tally.given += 1,
        }
        let bytes = self.composer.message().filter(|_| result.is_ok())?;
        Some(Message { at_ns: message.at_ns, source, destination, transport: message.transport, bytes })
    }

    /// The counts so far.
    #[must_use]
    pub const fn tally(&self) -> AnonymizationTally {
        self.tally
    }

    fn write(&mut self, message: &wire::parse::Message<'_>) -> Result<(), DropReason> {
        self.composer.clear();
        let mut header = *message.header();
        self.composer.bytes(&header.to_bytes());
        for question in message.questions() {
            let name = self.pseudonyms.name(question.qname.as_ref())?;
            let is_compressed = question.bytes_at.len() < question.qname.as_bytes().len() + 4;
            self.composer.name(&name, is_compressed);
            self.composer.bytes(&question.qtype.0.to_be_bytes());
            self.composer.bytes(&question.qclass.0.to_be_bytes());
        }
        for section in Section::ALL {
            for record in message.records(section) {
                let start = self.composer.len();
                if !self.record(&record.map_err(|_| DropReason::Malformed)?)? {
                    self.composer.truncate(start);
                    header.counts[section as usize] -= 1;
                    self.tally.records_dropped += 1;
                }
            }
        }
        self.composer.overwrite(0, &header.to_bytes());
        self.composer.message().map(|_| ()).ok_or(DropReason::TooLong)
    }

    /// Writes data after the last record, if its layout is known.
    fn write_extra(&mut self, header: &Header, bytes: &[u8]) -> Result<(), DropReason> {
        let unknown =
            if dso::has_tlvs(header) { dso::write(bytes, &mut self.pseudonyms, &mut self.composer)? } else { bytes };
        self.tally.extra_dropped += u64::from(!unknown.is_empty());
        self.composer.message().map(|_| ()).ok_or(DropReason::TooLong)
    }

    /// Writes a record. Returns false if it cannot be anonymized.
    fn record(&mut self, record: &RecordView<'_>) -> Result<bool, DropReason> {
        // RFC 2930 2.1: TKEY has keys and host names, in a layout that depends on the mode.
        if record.rtype == Rtype::TKEY {
            return Ok(false);
        }
        let Self { pseudonyms, options, composer, rdata, tally } = self;
        let owner = pseudonyms.name(record.owner.as_ref())?;
        let owner_bytes = record.rdata_at.start - record.at - 10;
        composer.name(&owner, owner_bytes < record.owner.as_bytes().len());
        composer.bytes(&record.rtype.0.to_be_bytes());
        composer.bytes(&record.class.0.to_be_bytes());
        composer.bytes(&record.ttl.to_be_bytes());
        let data = composer.open();
        match record.rtype {
            Rtype::OPT => {
                let edns = EdnsIn::new(record.class, record.ttl, record.rdata());
                let Some(edns) = edns else { return Ok(false) };
                options::write(edns.options(), *options, pseudonyms, composer, tally)?;
            }
            Rtype::TSIG => {
                if !rdata::write_tsig(record, pseudonyms, composer)? {
                    return Ok(false);
                }
            }
            _ => tally.records_blank += u64::from(!rdata::write(record, pseudonyms, composer, rdata)?),
        }
        if composer.close(data) { Ok(true) } else { Err(DropReason::TooLong) }
    }
}

#[cfg(test)]
mod tests;
