//! Composes responses in a buffer of the caller, without allocation.
//!
//! An RRset is written completely or not at all. Space for OPT is reserved first and filled by [`Composer::finish`].
//! TSIG is appended after `finish`, so the limit for [`Composer::new`] must exclude it.

// Compression of names.
mod compress;
// OPT of a response.
mod edns_out;
// The prepared SOA of negative responses.
mod soa;
pub use edns_out::{EdnsOut, ZoneVersionOut, ede};
pub use soa::SoaForm;

use crate::limits::{HEADER_BYTES, MESSAGE_BYTES_MAX, POINTER_TARGET_MAX};
use crate::name::NameRef;
use crate::number::{Class, Rcode, Rtype};
use crate::parse::{Header, Reject, Request, Section};
use crate::rdata::{Field, layout, rdata_fields};
use compress::{Case, SentNames};

/// There is no room. Nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Writes one response: call [`Composer::start_response`], then add records section by section, then
/// [`Composer::finish`].
pub struct Composer<'b> {
    bytes: &'b mut [u8],
    limit: usize,
    reserved: usize,
    at: usize,
    header: Header,
    rcode: Rcode,
    /// Offset of the first record.
    records_at: Mark,
    names: SentNames,
}

/// A position to roll back to; made by [`Composer::mark`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    at: usize,
    counts: [u16; 4],
    names: usize,
}

impl<'b> Composer<'b> {
    /// A composer that writes at most `limit` bytes to `bytes`.
    #[must_use]
    pub fn new(bytes: &'b mut [u8], limit: usize) -> Self {
        let limit = limit.min(bytes.len()).min(MESSAGE_BYTES_MAX);
        Self {
            bytes,
            limit,
            reserved: 0,
            at: 0,
            header: Header::default(),
            rcode: Rcode::NOERROR,
            records_at: Mark::default(),
            names: SentNames::new(),
        }
    }

    /// Starts the response to a request, its question as sent.
    pub fn start_response(&mut self, request: &Request<'_>, rcode: Rcode, aa: bool) {
        let question = request.question.as_ref().map(|question| question.bytes);
        self.start(&request.header, question, rcode, aa);
    }

    /// Starts the response to a rejected message. It will have an OPT if `reject.edns` is set.
    pub fn start_reject(&mut self, reject: &Reject<'_>) {
        self.start(&reject.header, reject.question, reject.rcode, false);
    }

    /// Starts the response to a message with this header. ID, opcode and RD are copied, QR is set; RA, AD, CD and Z are
    /// not: this server neither recurses nor validates (RFC 1035 4.1.1, RFC 4035 3.1.6).
    pub fn start(&mut self, to: &Header, question: Option<&[u8]>, rcode: Rcode, aa: bool) {
        self.header = Header { id: to.id, qr: true, opcode: to.opcode, aa, rd: to.rd, ..Header::default() };
        self.rcode = rcode;
        self.names.restart(0);
        self.at = HEADER_BYTES.min(self.limit);
        if let Some(question) = question
            && self.put(question).is_ok()
        {
            self.header.counts[0] = 1;
            // QTYPE and QCLASS follow the name.
            self.names.restart(question.len().saturating_sub(4));
        }
        self.records_at = self.mark();
    }

    /// Reserves `bytes` for [`Composer::finish`]; see [`EdnsOut::byte_count`].
    pub const fn reserve(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// Adds an RRset: a record for each rdata, which must be uncompressed. Fill sections in order.
    ///
    /// # Errors
    /// [`Full`] when it does not fit; then nothing of it is in.
    pub fn push_rrset<'r>(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        rtype: Rtype,
        class: Class,
        ttl: u32,
        rdatas: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), Full> {
        let mark = self.mark();
        let result = self.put_rrset(section, owner, rtype, class, ttl, rdatas);
        if result.is_err() {
            self.rollback(mark);
        }
        result
    }

    /// The current position, to roll back to if a group of records does not fit.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { at: self.at, counts: self.header.counts, names: self.names.count() }
    }

    /// Removes everything added since the mark.
    pub fn rollback(&mut self, to: Mark) {
        self.at = to.at;
        self.header.counts = to.counts;
        self.names.truncate(to.names);
    }

    /// Sets TC: required data is missing (RFC 2181 9).
    pub const fn set_tc(&mut self) {
        self.header.tc = true;
    }

    /// Removes all records and sets TC.
    pub fn truncate_all(&mut self) {
        self.rollback(self.records_at);
        self.set_tc();
    }

    /// Sets the RCODE.
    pub const fn set_rcode(&mut self, rcode: Rcode) {
        self.rcode = rcode;
    }

    /// Sets AA.
    pub const fn set_aa(&mut self, aa: bool) {
        self.header.aa = aa;
    }

    /// The current RCODE.
    #[must_use]
    pub const fn rcode(&self) -> Rcode {
        self.rcode
    }

    /// Whether TC is set.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.header.tc
    }

    /// Records in a section so far.
    #[must_use]
    pub const fn record_count(&self, section: Section) -> u16 {
        self.header.counts[section as usize]
    }

    /// Bytes written so far, without the reserved ones.
    #[must_use]
    pub const fn byte_count(&self) -> usize {
        self.at
    }

    /// Bytes that still fit.
    #[must_use]
    pub const fn bytes_left(&self) -> usize {
        self.limit.saturating_sub(self.reserved).saturating_sub(self.at)
    }

    /// Writes OPT and the header, and returns the length of the message: 0 if the buffer has no room for a header.
    ///
    /// A reserved OPT always fits. If an OPT that was not reserved does not fit, records are removed for it.
    pub fn finish(mut self, edns: Option<&EdnsOut<'_>>) -> usize {
        self.reserved = 0;
        let mut has_opt = false;
        if let Some(edns) = edns {
            if self.bytes_left() < EdnsOut::FIXED_BYTES {
                self.truncate_all();
            }
            has_opt = self.bytes_left() >= EdnsOut::FIXED_BYTES;
            if has_opt {
                self.at += edns.compose(self.rcode, self.at, &mut self.bytes[self.at..self.limit]);
                self.header.counts[Section::Additional as usize] += 1;
            }
        }
        // Without OPT the RCODE has four bits, and those of BADVERS would mean NOERROR.
        let rcode = if self.rcode.0 > 0x0F && !has_opt { Rcode::SERVFAIL } else { self.rcode };
        self.header.rcode = (rcode.0 & 0x0F) as u8;
        let Some(header) = self.bytes[..self.limit].first_chunk_mut() else { return 0 };
        *header = self.header.to_bytes();
        self.at
    }

    fn put_rrset<'r>(
        &mut self,
        section: Section,
        owner: NameRef<'_>,
        rtype: Rtype,
        class: Class,
        ttl: u32,
        rdatas: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), Full> {
        debug_assert!(self.header.counts[section as usize + 1..].iter().all(|&count| count == 0), "sections in order");
        let fields_compressed = fields_compressed(rtype);
        // The bytes after the owner: type, class, TTL and the length of the rdata.
        let mut fixed = [0; 10];
        fixed[..2].copy_from_slice(&rtype.0.to_be_bytes());
        fixed[2..4].copy_from_slice(&class.0.to_be_bytes());
        fixed[4..8].copy_from_slice(&ttl.to_be_bytes());
        let owner_at = self.at;
        let mut is_first = true;
        for rdata in rdatas {
            match self.pointer_to(owner_at) {
                Some(pointer) if !is_first && !owner.is_root() => self.put(&pointer)?,
                _ => self.put_name(owner, Case::Ignored)?,
            }
            is_first = false;
            if fields_compressed > 0 {
                let fixed_at = self.at;
                self.put(&fixed)?;
                self.put_compressed(rtype, fields_compressed, rdata)?;
                let len = u16::try_from(self.at - fixed_at - fixed.len()).map_err(|_| Full)?;
                self.bytes[fixed_at + 8..fixed_at + 10].copy_from_slice(&len.to_be_bytes());
            } else {
                let len = u16::try_from(rdata.len()).map_err(|_| Full)?;
                fixed[8..].copy_from_slice(&len.to_be_bytes());
                let (head, tail) = self.claim(fixed.len() + rdata.len())?.split_at_mut(fixed.len());
                head.copy_from_slice(&fixed);
                tail.copy_from_slice(rdata);
            }
            let count = &mut self.header.counts[section as usize];
            *count = count.checked_add(1).ok_or(Full)?;
        }
        Ok(())
    }

    /// A pointer to the owner at `owner_at`, or the pointer that is there already.
    fn pointer_to(&self, owner_at: usize) -> Option<[u8; 2]> {
        match self.bytes.get(owner_at..)? {
            [high, low, ..] if *high >= 0xC0 => Some([*high, *low]),
            _ if owner_at <= POINTER_TARGET_MAX => Some((0xC000 | owner_at as u16).to_be_bytes()),
            _ => None,
        }
    }

    /// Writes rdata whose names may be compressed (RFC 3597 4). All its names are in the first `fields_compressed`
    /// fields. The receiver gets the exact bytes of the zone: a query for `eXaMpLe.` must not change the names that a
    /// cache or a secondary keeps (RFC 1034 3.1).
    fn put_compressed(&mut self, rtype: Rtype, fields_compressed: usize, rdata: &[u8]) -> Result<(), Full> {
        let mut at = 0;
        for (field, bytes) in rdata_fields(rtype, rdata).take(fields_compressed).map_while(Result::ok) {
            match (field, NameRef::from_bytes(bytes)) {
                (Field::Name(_), Ok(name)) => self.put_name(name, Case::Kept)?,
                _ => self.put(bytes)?,
            }
            at += bytes.len();
        }
        // The bytes after the names. Malformed rdata is sent unchanged.
        self.put(&rdata[at..])
    }

    /// Writes a name, with a pointer for its longest suffix in the message.
    fn put_name(&mut self, name: NameRef<'_>, case: Case) -> Result<(), Full> {
        let bytes = name.as_bytes();
        let (literal, target) = self.names.find(&self.bytes[..self.at], name, case);
        let at = self.at;
        match target {
            // Nothing to add: the whole name is in the message already.
            Some(target) if literal == 0 => return self.put(&(0xC000 | target).to_be_bytes()),
            Some(target) => {
                self.put(&bytes[..literal])?;
                self.put(&(0xC000 | target).to_be_bytes())?;
            }
            None => self.put(bytes)?,
        }
        self.names.remember(name, literal, at);
        Ok(())
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.claim(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    /// The buffer for the next bytes.
    #[inline]
    fn claim(&mut self, byte_count: usize) -> Result<&mut [u8], Full> {
        if byte_count > self.bytes_left() {
            return Err(Full);
        }
        let at = self.at;
        self.at += byte_count;
        Ok(&mut self.bytes[at..self.at])
    }
}

/// The number of fields up to the last name that may be compressed (RFC 3597 4); 0 without one.
fn fields_compressed(rtype: Rtype) -> usize {
    let is_compressible = |field: &Field| matches!(field, Field::Name(rule) if rule.compress);
    let fields = layout(rtype).unwrap_or_default();
    fields.iter().rposition(is_compressible).map_or(0, |last| last + 1)
}
