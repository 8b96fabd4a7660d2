//! Any message: checked once, then its questions and records are read in place.

use super::{EdnsIn, Header, edns};
use crate::integers::{u16_at, u32_at};
use crate::limits::HEADER_BYTES;
use crate::name::{NameError, NameRef};
use crate::name_buf::{NameBuf, Steps, read_name};
use crate::number::{Class, Rtype};
use crate::rdata::{RdataError, rdata_canonical};
use core::ops::Range;

/// Why bytes are not a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// There are fewer bytes than the counts or a length require.
    Short,
    /// A name is malformed.
    Name(NameError),
    /// There are bytes after the last record.
    LeftOver,
}

impl From<NameError> for ParseError {
    fn from(error: NameError) -> Self {
        match error {
            NameError::Short => Self::Short,
            error => Self::Name(error),
        }
    }
}

/// A section of records, not the question section.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// Answer; the prerequisites of an UPDATE.
    Answer = 1,
    /// Authority; the update section of an UPDATE.
    Authority = 2,
    /// Additional.
    Additional = 3,
}

impl Section {
    /// The prerequisites of an UPDATE (RFC 2136 2).
    pub const PREREQUISITE: Self = Self::Answer;
    /// The update section of an UPDATE (RFC 2136 2).
    pub const UPDATE: Self = Self::Authority;
    /// All sections in order.
    pub const ALL: [Self; 3] = [Self::Answer, Self::Authority, Self::Additional];
}

/// A question of any message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// QNAME, decompressed, case kept.
    pub qname: NameBuf,
    /// QTYPE.
    pub qtype: Rtype,
    /// QCLASS.
    pub qclass: Class,
    /// The range of the question in the message.
    pub bytes_at: Range<usize>,
}

impl Question {
    /// Reads the question at `at`. The result's `bytes_at` gives its end.
    pub(crate) fn read(message: &[u8], at: usize, steps: &mut Steps) -> Result<Self, ParseError> {
        let mut qname = NameBuf::root();
        let end = read_name(message, at, steps, &mut qname)?;
        let (Some(qtype), Some(qclass)) = (u16_at(message, end), u16_at(message, end + 2)) else {
            return Err(ParseError::Short);
        };
        Ok(Self { qname, qtype: Rtype(qtype), qclass: Class(qclass), bytes_at: at..end + 4 })
    }
}

/// The first question of a message, read in place: that of a query, or the zone section of an UPDATE (RFC 2136 2.3).
/// No name precedes it, so its name is never compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstQuestion<'m> {
    /// QNAME, case kept.
    pub qname: NameRef<'m>,
    /// QTYPE, or ZTYPE.
    pub qtype: Rtype,
    /// QCLASS, or ZCLASS.
    pub qclass: Class,
    /// The whole question, to be echoed as sent.
    pub bytes: &'m [u8],
}

impl<'m> FirstQuestion<'m> {
    /// Reads the question after the header of `message`.
    ///
    /// # Errors
    /// [`ParseError`] when there is no well-formed question.
    #[inline]
    pub fn read(message: &'m [u8]) -> Result<Self, ParseError> {
        let body = message.get(HEADER_BYTES..).ok_or(ParseError::Short)?;
        let (qname, rest) = NameRef::split_from(body)?;
        let fixed: &[u8; 4] = rest.first_chunk().ok_or(ParseError::Short)?;
        let bytes = &body[..qname.as_bytes().len() + fixed.len()];
        let [qtype, qclass] = [[fixed[0], fixed[1]], [fixed[2], fixed[3]]].map(u16::from_be_bytes);
        Ok(Self { qname, qtype: Rtype(qtype), qclass: Class(qclass), bytes })
    }

    /// The end of the question in its message.
    #[must_use]
    pub const fn end(&self) -> usize {
        HEADER_BYTES + self.bytes.len()
    }
}

/// A record, read in place.
#[derive(Clone, Debug)]
pub struct RecordView<'m> {
    /// The message with the record.
    pub message: &'m [u8],
    /// Offset of the record in the message.
    pub at: usize,
    /// The owner, decompressed, case kept.
    pub owner: NameBuf,
    /// TYPE.
    pub rtype: Rtype,
    /// CLASS.
    pub class: Class,
    /// TTL as sent, in seconds.
    pub ttl: u32,
    /// The range of the rdata in the message. Names in it may be compressed.
    pub rdata_at: Range<usize>,
}

impl<'m> RecordView<'m> {
    /// The rdata as sent.
    #[must_use]
    pub fn rdata(&self) -> &'m [u8] {
        &self.message[self.rdata_at.clone()]
    }

    /// Appends the rdata to `out`: names decompressed, case kept, layout checked. The empty rdata in an UPDATE that
    /// refers to a name or type only (RFC 2136 2.4, 2.5) is malformed for most types, so the caller must handle it.
    ///
    /// # Errors
    /// [`RdataError`] when it is not well formed. `out` is unchanged then.
    pub fn rdata_canonical(&self, out: &mut Vec<u8>) -> Result<(), RdataError> {
        rdata_canonical(self.message, self.rdata_at.clone(), self.rtype, out)
    }

    /// The EDNS in this record, if it is a well-formed OPT.
    #[must_use]
    pub fn edns(&self) -> Option<EdnsIn<'m>> {
        (self.rtype == Rtype::OPT).then(|| EdnsIn::new(self.class, self.ttl, self.rdata())).flatten()
    }
}

/// The part of a record after its owner.
pub(crate) struct RecordHead {
    pub(crate) rtype: Rtype,
    pub(crate) class: Class,
    pub(crate) ttl: u32,
    pub(crate) rdata_at: Range<usize>,
}

impl RecordHead {
    /// Reads the record at `at`, its owner into `owner`.
    pub(crate) fn read(message: &[u8], at: usize, steps: &mut Steps, owner: &mut NameBuf) -> Result<Self, ParseError> {
        let at = read_name(message, at, steps, owner)?;
        let fixed: &[u8; 10] = message.get(at..).and_then(<[u8]>::first_chunk).ok_or(ParseError::Short)?;
        let rdata_start = at + fixed.len();
        let rdata_end = rdata_start + u16::from_be_bytes([fixed[8], fixed[9]]) as usize;
        // RFC 9267 5: RDLENGTH is checked against the message before rdata is read.
        if rdata_end > message.len() {
            return Err(ParseError::Short);
        }
        Ok(Self {
            rtype: Rtype(u16::from_be_bytes([fixed[0], fixed[1]])),
            class: Class(u16::from_be_bytes([fixed[2], fixed[3]])),
            ttl: u32_at(fixed, 4).unwrap_or_default(),
            rdata_at: rdata_start..rdata_end,
        })
    }
}

/// A message whose names, counts and lengths were checked.
#[derive(Clone, Copy, Debug)]
pub struct Message<'m> {
    bytes: &'m [u8],
    header: Header,
    /// Offsets of question, answer, authority and additional.
    starts: [usize; 4],
}

impl<'m> Message<'m> {
    /// Checks the whole message.
    ///
    /// # Errors
    /// [`ParseError`] when names, counts or lengths do not fit the bytes.
    pub fn parse(bytes: &'m [u8]) -> Result<Self, ParseError> {
        let header = Header::parse(bytes).ok_or(ParseError::Short)?;
        let mut steps = Steps::new();
        let mut at = HEADER_BYTES;
        for _ in 0..header.counts[0] {
            at = Question::read(bytes, at, &mut steps)?.bytes_at.end;
        }
        Self::walk(bytes, header, at, &mut steps, |_, _, _, _| ())
    }

    /// Walks the records from `at` on, and calls `visit` for each with its section, offset and owner.
    pub(crate) fn walk(
        bytes: &'m [u8],
        header: Header,
        mut at: usize,
        steps: &mut Steps,
        mut visit: impl FnMut(Section, usize, &NameBuf, RecordHead),
    ) -> Result<Self, ParseError> {
        let mut starts = [HEADER_BYTES, at, at, at];
        let mut owner = NameBuf::root();
        for section in Section::ALL {
            starts[section as usize] = at;
            for _ in 0..header.counts[section as usize] {
                let head = RecordHead::read(bytes, at, steps, &mut owner)?;
                let end = head.rdata_at.end;
                visit(section, at, &owner, head);
                at = end;
            }
        }
        if at == bytes.len() { Ok(Self { bytes, header, starts }) } else { Err(ParseError::LeftOver) }
    }

    /// The bytes of the message.
    #[must_use]
    pub const fn as_bytes(&self) -> &'m [u8] {
        self.bytes
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The first question, if there is one.
    #[must_use]
    pub fn question(&self) -> Option<Question> {
        self.questions().next()
    }

    /// All questions.
    pub fn questions(&self) -> impl Iterator<Item = Question> + use<'m> {
        let (bytes, mut at, mut steps) = (self.bytes, HEADER_BYTES, Steps::new());
        (0..self.header.counts[0]).map_while(move |_| {
            let question = Question::read(bytes, at, &mut steps).ok()?;
            at = question.bytes_at.end;
            Some(question)
        })
    }

    /// The records of one section, in order.
    #[must_use]
    pub const fn records(&self, section: Section) -> Records<'m> {
        Records {
            message: self.bytes,
            at: self.starts[section as usize],
            remaining: self.header.counts[section as usize],
            steps: Steps::new(),
        }
    }

    /// The EDNS of the message; `None` when there is no OPT or a malformed one.
    #[must_use]
    pub fn edns(&self) -> Option<EdnsIn<'m>> {
        self.records(Section::Additional).flatten().find_map(|record| record.edns())
    }

    /// The RCODE, with its upper eight bits from EDNS (RFC 6891 6.1.3).
    #[must_use]
    pub fn rcode(&self) -> crate::number::Rcode {
        let high = self.edns().map_or(0, |edns| edns.rcode_high);
        edns::rcode_of(high, self.header.rcode)
    }
}

/// Iterator over the records of one section; made by [`Message::records`]. It ends after the first error.
pub struct Records<'m> {
    message: &'m [u8],
    at: usize,
    remaining: u16,
    steps: Steps,
}

impl<'m> Iterator for Records<'m> {
    type Item = Result<RecordView<'m>, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.remaining = self.remaining.checked_sub(1)?;
        let (message, at) = (self.message, self.at);
        let mut owner = NameBuf::root();
        match RecordHead::read(message, at, &mut self.steps, &mut owner) {
            Ok(RecordHead { rtype, class, ttl, rdata_at }) => {
                self.at = rdata_at.end;
                Some(Ok(RecordView { message, at, owner, rtype, class, ttl, rdata_at }))
            }
            Err(error) => {
                self.remaining = 0;
                Some(Err(error))
            }
        }
    }
}
