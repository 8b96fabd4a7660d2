//! Data to bytes: a response over a buffer of the caller's. Nothing here allocates.
//!
//! An RRset goes in whole or not at all; what did not fit leaves no trace. Space for OPT is reserved first and filled
//! in by [`Composer::finish`]; TSIG is put behind what `finish` returns, so the limit given to [`Composer::new`] is
//! what is left without it.

// Names sent before, and pointers to them.
mod compress;
// OPT of a response.
mod edns_out;
// The SOA of negative responses, made ready.
mod soa;
pub use edns_out::{EdnsOut, ZoneVersionOut, ede};
pub use soa::SoaForm;

use crate::limits::{HEADER_BYTES, MESSAGE_BYTES_MAX, POINTER_TARGET_MAX};
use crate::name::NameRef;
use crate::number::{Class, Rcode, Rtype};
use crate::parse::{Header, Reject, Request, Section};
use crate::rdata::{Field, layout, rdata_fields};
use compress::{Case, SentNames};

/// What was to be written does not fit; nothing of it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Writes one response. [`Composer::start_response`], then records section by section, then [`Composer::finish`].
pub struct Composer<'b> {
    bytes: &'b mut [u8],
    limit: usize,
    reserved: usize,
    at: usize,
    header: Header,
    rcode: Rcode,
    /// Where the records start.
    records_at: Mark,
    names: SentNames,
}

/// A place to return to; made by [`Composer::mark`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    at: usize,
    counts: [u16; 4],
    names: usize,
}

impl<'b> Composer<'b> {
    /// A composer over `bytes` that keeps to `limit` bytes, or to as many as there are.
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

    /// Starts the response to what was no request; OPT goes in when `reject.edns` is there.
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
            // QTYPE and QCLASS stand behind the name.
            self.names.restart(question.len().saturating_sub(4));
        }
        self.records_at = self.mark();
    }

    /// Keeps `bytes` free for what [`Composer::finish`] writes: see [`EdnsOut::byte_count`].
    pub const fn reserve(&mut self, bytes: usize) {
        self.reserved = bytes;
    }

    /// Puts an RRset in, the same owner and type for each rdata, which is uncompressed. Sections are filled in their
    /// order.
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

    /// Where things stand, to return to when what belongs together does not fit together.
    #[must_use]
    pub const fn mark(&self) -> Mark {
        Mark { at: self.at, counts: self.header.counts, names: self.names.count() }
    }

    /// Takes back all that was put in since.
    pub fn rollback(&mut self, to: Mark) {
        self.at = to.at;
        self.header.counts = to.counts;
        self.names.truncate(to.names);
    }

    /// Sets TC: something that the answer needs is missing (RFC 2181 9).
    pub const fn set_tc(&mut self) {
        self.header.tc = true;
    }

    /// Takes all records back and sets TC.
    pub fn truncate_all(&mut self) {
        self.rollback(self.records_at);
        self.set_tc();
    }

    /// Changes the RCODE.
    pub const fn set_rcode(&mut self, rcode: Rcode) {
        self.rcode = rcode;
    }

    /// Changes AA.
    pub const fn set_aa(&mut self, aa: bool) {
        self.header.aa = aa;
    }

    /// The RCODE as it stands.
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

    /// Bytes so far, without what is reserved.
    #[must_use]
    pub const fn byte_count(&self) -> usize {
        self.at
    }

    /// Bytes that still fit.
    #[must_use]
    pub const fn bytes_left(&self) -> usize {
        self.limit.saturating_sub(self.reserved).saturating_sub(self.at)
    }

    /// Puts OPT in and the header, and returns the length of the message: 0 when not even a header fits the buffer.
    ///
    /// OPT always fits where it was reserved; where it was not, and does not, records give way to it.
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
        // Without OPT four bits are all there is, and those of BADVERS would say NOERROR.
        let rcode = if self.rcode.0 > 0x0F && !has_opt { Rcode::SERVFAIL } else { self.rcode };
        self.header.rcode = (rcode.0 & 0x0F) as u8;
        let Some(place) = self.bytes[..self.limit].first_chunk_mut() else { return 0 };
        *place = self.header.to_bytes();
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
        // The bytes behind the owner: type, class, TTL and the length of the rdata.
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

    /// A pointer to the owner that was written at `owner_at`, or the pointer that stands there itself.
    fn pointer_to(&self, owner_at: usize) -> Option<[u8; 2]> {
        match self.bytes.get(owner_at..)? {
            [high, low, ..] if *high >= 0xC0 => Some([*high, *low]),
            _ if owner_at <= POINTER_TARGET_MAX => Some((0xC000 | owner_at as u16).to_be_bytes()),
            _ => None,
        }
    }

    /// Rdata of a type whose names may be compressed (RFC 3597 4), all of them within so many of its fields. It reaches
    /// the receiver with the bytes it has in the zone: a query for `eXaMpLe.` must not change the names that a cache
    /// or a secondary keeps (RFC 1034 3.1).
    fn put_compressed(&mut self, rtype: Rtype, fields_compressed: usize, rdata: &[u8]) -> Result<(), Full> {
        let mut at = 0;
        for (field, bytes) in rdata_fields(rtype, rdata).take(fields_compressed).map_while(Result::ok) {
            match (field, NameRef::from_octets(bytes)) {
                (Field::Name(_), Ok(name)) => self.put_name(name, Case::Kept)?,
                _ => self.put(bytes)?,
            }
            at += bytes.len();
        }
        // What is behind the names; and rdata that is not what its type has is sent as it is.
        self.put(&rdata[at..])
    }

    /// A name, the longest end of it that was sent before as a pointer.
    fn put_name(&mut self, name: NameRef<'_>, case: Case) -> Result<(), Full> {
        let bytes = name.as_bytes();
        let (literal, target) = self.names.find(&self.bytes[..self.at], name, case);
        let at = self.at;
        match target {
            // Nothing to remember: the name stands elsewhere.
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

    /// The place of the next bytes, which are to be written.
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

/// How many fields of a type's rdata there are up to its last name that may be compressed (RFC 3597 4); 0 without one.
fn fields_compressed(rtype: Rtype) -> usize {
    let is_compressible = |field: &Field| matches!(field, Field::Name(rule) if rule.compress);
    let fields = layout(rtype).unwrap_or_default();
    fields.iter().rposition(is_compressible).map_or(0, |last| last + 1)
}
