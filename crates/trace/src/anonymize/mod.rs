//! Makes a trace that can be shown: addresses and names are replaced by pseudonyms that a key decides, and whatever
//! else tells of somebody is blank.
//!
//! ```text
//!   Message --> addresses (prefixes kept) -----------------------------+--> Message
//!          \--> questions, records, OPT --> names, by label -----------+
//!                                      \--> rdata, field by field -----+--> what cannot be: left out, and counted
//! ```
//!
//! What comes out is written anew from what was understood of a message: nothing is passed through that was not. Times,
//! ports, IDs, flags, types, TTLs, sizes of messages and numbers of zones stay.

// What pseudonyms depend on.
mod key;
pub use key::Key;

// Of what there are some.
mod addresses;
mod labels;
mod names;
mod registered;
pub use labels::Lengths;

// What stands in a message.
mod compose;
mod dso;
mod options;
mod rdata;
pub use options::Options;

use crate::extent;
use crate::message::Message;
use addresses::Addresses;
use compose::Composer;
use names::Names;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use wire::parse::{Header, RecordView, Section};
use wire::{EdnsIn, Name, NameRef, Rtype};

/// How a trace is anonymized.
#[derive(Clone, Debug, Default)]
pub struct Anonymization {
    /// Names that stay at the end of others: top-level domains, and what is below them in the same hands.
    pub kept_suffixes: BTreeSet<Name>,
    /// Lengths of labels.
    pub lengths: Lengths,
    /// EDNS options.
    pub options: Options,
}

/// Anonymizes a trace, message after message.
#[derive(Debug)]
pub struct Anonymizer {
    pseudonyms: Pseudonyms,
    options: Options,
    composer: Composer,
    /// Rdata of one record, its names whole.
    whole: Vec<u8>,
    tally: AnonymizationTally,
}

/// Pseudonyms of all kinds.
#[derive(Debug)]
struct Pseudonyms {
    addresses: Addresses,
    names: Names,
}

impl Pseudonyms {
    fn name(&mut self, name: NameRef<'_>) -> Result<Vec<u8>, Dropped> {
        self.names.name(name, &mut self.addresses)
    }
}

/// Why a message cannot be anonymized.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dropped {
    /// It is malformed: nobody can say what is in it.
    Malformed,
    /// A name or the whole would be too long.
    TooLong,
}

/// What became of the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AnonymizationTally {
    /// Messages that were looked at.
    pub messages: u64,
    /// Those that there are still.
    pub given: u64,
    /// Those that are left out: malformed.
    pub malformed: u64,
    /// Those that are left out: a name or the message would be too long.
    pub too_long: u64,
    /// Records that are left out: nobody knows what is in them.
    pub records_dropped: u64,
    /// Records whose rdata is malformed, and so is zeros.
    pub records_blank: u64,
    /// EDNS options that are left out.
    pub options_dropped: u64,
    /// Messages of which bytes behind the last record are left out.
    pub extra_dropped: u64,
}

impl Anonymizer {
    /// Makes a key ready.
    #[must_use]
    pub fn new(key: &Key, how: Anonymization) -> Self {
        let Anonymization { kept_suffixes, lengths, options } = how;
        let pseudonyms = Pseudonyms { addresses: Addresses::new(key), names: Names::new(key, lengths, kept_suffixes) };
        let (composer, tally) = (Composer::default(), AnonymizationTally::default());
        Self { pseudonyms, options, composer, whole: Vec::new(), tally }
    }

    /// What a message becomes; `None` when it is left out, which is counted.
    pub fn apply(&mut self, message: &Message<'_>) -> Option<Message<'_>> {
        self.tally.messages += 1;
        let [source, destination] = [message.source, message.destination]
            .map(|place| SocketAddr::new(self.pseudonyms.addresses.address(place.ip()), place.port()));
        let written = match extent::parse(message.bytes) {
            Some((parsed, extra)) => self.write(&parsed).and_then(|()| self.write_behind(parsed.header(), extra)),
            None => Err(Dropped::Malformed),
        };
        match written {
            Err(Dropped::Malformed) => self.tally.malformed += 1,
            Err(Dropped::TooLong) => self.tally.too_long += 1,
            Ok(()) => self.tally.given += 1,
        }
        let bytes = self.composer.message().filter(|_| written.is_ok())?;
        Some(Message { at_ns: message.at_ns, source, destination, transport: message.transport, bytes })
    }

    /// What became of the messages so far.
    #[must_use]
    pub const fn tally(&self) -> AnonymizationTally {
        self.tally
    }

    fn write(&mut self, message: &wire::parse::Message<'_>) -> Result<(), Dropped> {
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
                if !self.record(&record.map_err(|_| Dropped::Malformed)?)? {
                    self.composer.cut(start);
                    header.counts[section as usize] -= 1;
                    self.tally.records_dropped += 1;
                }
            }
        }
        self.composer.overwrite(0, &header.to_bytes());
        self.composer.message().map(|_| ()).ok_or(Dropped::TooLong)
    }

    /// Writes what stands behind the last record, where anybody knows what that is.
    fn write_behind(&mut self, header: &Header, bytes: &[u8]) -> Result<(), Dropped> {
        let unknown =
            if dso::has_tlvs(header) { dso::write(bytes, &mut self.pseudonyms, &mut self.composer)? } else { bytes };
        self.tally.extra_dropped += u64::from(!unknown.is_empty());
        self.composer.message().map(|_| ()).ok_or(Dropped::TooLong)
    }

    /// Writes a record; false when it cannot be anonymized.
    fn record(&mut self, record: &RecordView<'_>) -> Result<bool, Dropped> {
        // RFC 2930 2.1: keys and names of machines, in a layout of each mode's own.
        if record.rtype == Rtype::TKEY {
            return Ok(false);
        }
        let Self { pseudonyms, options, composer, whole, tally } = self;
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
            _ => tally.records_blank += u64::from(!rdata::write(record, pseudonyms, composer, whole)?),
        }
        if composer.close(data) { Ok(true) } else { Err(Dropped::TooLong) }
    }
}

#[cfg(test)]
mod tests;
