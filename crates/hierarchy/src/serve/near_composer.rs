//! A composer with limited name compression, like that of some servers. Owners point to the question and to whole
//! names. A name in rdata points to the one before it, the first one to the question. This decides which addresses fit
//! into a datagram.

use wire::compose::{Composer, EdnsOut, Full};
use wire::limits::{HEADER_BYTES, POINTER_TARGET_MAX};
use wire::name::{Name, NameRef};
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{Request, Section};

/// Writes one response, like [`Composer`].
pub(super) struct NearComposer<'b> {
    bytes: &'b mut [u8],
    limit: usize,
    at: usize,
    records_at: usize,
    counts: [u16; 3],
    truncated: bool,
    /// Names that owners may point to, with their positions. The suffixes of the question come first.
    known: NamePositions,
    question_count: usize,
}

/// Names in lower case, and their positions.
type NamePositions = Vec<(Name, usize)>;

impl<'b> NearComposer<'b> {
    /// A response of at most `limit` bytes, with `reserved` bytes for OPT.
    pub(super) fn new(
        bytes: &'b mut [u8],
        limit: usize,
        reserved: usize,
        request: &Request<'_>,
        (rcode, aa): (Rcode, bool),
    ) -> Self {
        let limit = limit.min(bytes.len()).saturating_sub(reserved);
        let mut start = Composer::new(bytes, limit);
        start.start_response(request, rcode, aa);
        let at = start.finish(None);
        let mut known = NamePositions::new();
        if let Some(question) = &request.question {
            known.extend(places(question.qname, HEADER_BYTES, &[], 0));
        }
        let question_count = known.len();
        Self { bytes, limit, at, records_at: at, counts: [0; 3], truncated: false, known, question_count }
    }

    /// Adds a whole RRset, or nothing.
    pub(super) fn push_rrset<'r>(
        &mut self,
        section: Section,
        (owner, rtype, ttl): (NameRef<'_>, Rtype, u32),
        rdatas: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<(), Full> {
        let (at, known) = (self.at, self.known.len());
        let put = self.put_rrset((owner, rtype, ttl), rdatas);
        match put {
            Ok(count) => self.counts[section as usize - 1] += count,
            Err(Full) => {
                self.at = at;
                self.known.truncate(known);
            }
        }
        put.map(|_| ())
    }

    fn put_rrset<'r>(
        &mut self,
        (owner, rtype, ttl): (NameRef<'_>, Rtype, u32),
        rdatas: impl IntoIterator<Item = &'r [u8]>,
    ) -> Result<u16, Full> {
        let mut count = 0;
        let mut before: Option<NamePositions> = None;
        for rdata in rdatas {
            let known = std::mem::take(&mut self.known);
            let owner_places = self.put_name(owner, &known);
            self.known = known;
            let owner_places = owner_places?;
            if !self.known.iter().any(|(name, _)| name.as_ref() == owner) {
                self.known.extend(owner_places.first().cloned());
            }
            self.put(&rtype.0.to_be_bytes())?;
            self.put(&Class::IN.0.to_be_bytes())?;
            self.put(&ttl.to_be_bytes())?;
            let length_at = self.at;
            self.put(&[0; 2])?;
            match NameRef::from_bytes(rdata) {
                Ok(name) if matches!(rtype, Rtype::NS | Rtype::CNAME | Rtype::PTR) => {
                    let first = || [&owner_places[..], &self.known[..self.question_count]].concat();
                    let near = before.take().unwrap_or_else(first);
                    let places = self.put_name(name, &near)?;
                    self.known.extend(places.first().cloned());
                    before = Some(places);
                }
                _ => self.put(rdata)?,
            }
            let length = (self.at - length_at - 2) as u16;
            self.bytes[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
            count += 1;
        }
        Ok(count)
    }

    /// Writes a name with a pointer to its longest suffix in `near`. Returns the positions of its suffixes.
    fn put_name(&mut self, name: NameRef<'_>, near: &[(Name, usize)]) -> Result<NamePositions, Full> {
        let start = self.at;
        let mut end = Some(name);
        while let Some(left) = end.filter(|left| !left.is_root()) {
            let is_it = |(known, at): &&(Name, usize)| known.as_ref() == left && *at <= POINTER_TARGET_MAX;
            if let Some((_, to)) = near.iter().find(is_it) {
                let literal = name.as_bytes().len() - left.as_bytes().len();
                self.put(&name.as_bytes()[..literal])?;
                self.put(&(0xC000 | *to as u16).to_be_bytes())?;
                let at = if literal == 0 { *to } else { start };
                return Ok(places(name, at, near, left.as_bytes().len()));
            }
            end = left.parent();
        }
        self.put(name.as_bytes())?;
        Ok(places(name, start, &[], 0))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        self.bytes[self.at..end].copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    pub(super) const fn set_tc(&mut self) {
        self.truncated = true;
    }

    pub(super) const fn bytes_left(&self) -> usize {
        self.limit - self.at
    }

    pub(super) const fn is_truncated(&self) -> bool {
        self.truncated
    }

    pub(super) fn truncate_all(&mut self) {
        (self.at, self.counts, self.truncated) = (self.records_at, [0; 3], true);
    }

    /// Completes the response. Returns its length.
    pub(super) fn finish(mut self, edns: Option<&EdnsOut<'_>>) -> usize {
        if let Some(edns) = edns {
            self.limit = self.bytes.len();
            let [high, low] = edns.payload.to_be_bytes();
            let opt = [0, 0, Rtype::OPT.0 as u8, high, low, 0, 0, u8::from(edns.dnssec_ok) << 7, 0, 0, 0];
            self.counts[2] += u16::from(self.put(&opt).is_ok());
        }
        if let Some(header) = self.bytes.get_mut(..HEADER_BYTES) {
            // RFC 1035 4.1.1: TC is bit 6 of the flags. The counts come after that of questions.
            header[2] |= u8::from(self.truncated) << 1;
            for (field, count) in header[6..].chunks_exact_mut(2).zip(self.counts) {
                field.copy_from_slice(&count.to_be_bytes());
            }
        }
        self.at
    }
}

/// Positions of the suffixes of a name: those written from `at` on, and those in the last `pointed` bytes, which are
/// elsewhere.
fn places(name: NameRef<'_>, at: usize, elsewhere: &[(Name, usize)], pointed: usize) -> NamePositions {
    let all = name.as_bytes().len();
    let ends = std::iter::successors(Some(name), |end| end.parent()).take_while(|end| !end.is_root());
    let position = |end: NameRef<'_>| {
        let is_written = end.as_bytes().len() > pointed || end.as_bytes().len() == all;
        let known_at = elsewhere.iter().find(|(known, _)| known.as_ref() == end).map(|(_, to)| *to);
        let to = if is_written { Some(at + all - end.as_bytes().len()) } else { known_at };
        to.map(|to| (end.to_canonical(), to))
    };
    ends.filter_map(position).collect()
}
