//! A composer of responses that looks for names to point to no further than the server that it stands for: owners to
//! the name of the question and to whole names, names in rdata to the one before, the first of them to the question's.
//! Which addresses still fit a datagram depends on it.

use wire::compose::{Composer, EdnsOut, Full};
use wire::limits::{HEADER_BYTES, POINTER_TARGET_MAX};
use wire::name::{Name, NameRef};
use wire::number::{Class, Rcode, Rtype};
use wire::parse::{Request, Section};

/// Writes one response, as [`Composer`] does.
pub(super) struct Near<'b> {
    bytes: &'b mut [u8],
    limit: usize,
    at: usize,
    records_at: usize,
    counts: [u16; 3],
    truncated: bool,
    /// What owners may point to, and where it stands; the ends of the question's name are first.
    known: Places,
    question_count: usize,
}

/// Names in lower case, with where they stand.
type Places = Vec<(Name, usize)>;

impl<'b> Near<'b> {
    /// A response of no more than `limit` bytes; `reserved` are for OPT.
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
        let mut known = Places::new();
        if let Some(question) = &request.question {
            known.extend(places(question.qname, HEADER_BYTES, &[], 0));
        }
        let question_count = known.len();
        Self { bytes, limit, at, records_at: at, counts: [0; 3], truncated: false, known, question_count }
    }

    /// Puts an RRset in, or nothing of it.
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
        let mut before: Option<Places> = None;
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
            match NameRef::from_octets(rdata) {
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

    /// Writes a name, with a pointer to the longest end of it that is among `near`; gives where its ends stand.
    fn put_name(&mut self, name: NameRef<'_>, near: &[(Name, usize)]) -> Result<Places, Full> {
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

    /// Ends it; gives its bytes.
    pub(super) fn finish(mut self, edns: Option<&EdnsOut<'_>>) -> usize {
        if let Some(edns) = edns {
            self.limit = self.bytes.len();
            let [high, low] = edns.payload.to_be_bytes();
            let opt = [0, 0, Rtype::OPT.0 as u8, high, low, 0, 0, u8::from(edns.dnssec_ok) << 7, 0, 0, 0];
            self.counts[2] += u16::from(self.put(&opt).is_ok());
        }
        if let Some(header) = self.bytes.get_mut(..HEADER_BYTES) {
            // RFC 1035 4.1.1: TC is bit 6 of the flags; the counts follow that of questions.
            header[2] |= u8::from(self.truncated) << 1;
            for (place, count) in header[6..].chunks_exact_mut(2).zip(self.counts) {
                place.copy_from_slice(&count.to_be_bytes());
            }
        }
        self.at
    }
}

/// Where the ends of a name stand: those that were written out from `at` on, and, of the last `pointed` bytes, those
/// that stand elsewhere.
fn places(name: NameRef<'_>, at: usize, elsewhere: &[(Name, usize)], pointed: usize) -> Places {
    let all = name.as_bytes().len();
    let ends = std::iter::successors(Some(name), |end| end.parent()).take_while(|end| !end.is_root());
    let place = |end: NameRef<'_>| {
        let is_written = end.as_bytes().len() > pointed || end.as_bytes().len() == all;
        let there = elsewhere.iter().find(|(known, _)| known.as_ref() == end).map(|(_, to)| *to);
        let to = if is_written { Some(at + all - end.as_bytes().len()) } else { there };
        to.map(|to| (end.to_canonical(), to))
    };
    ends.filter_map(place).collect()
}
