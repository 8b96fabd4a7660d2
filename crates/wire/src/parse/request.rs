//! Parses a request, or decides on an error that needs neither zone nor key.

use super::edns::{EdnsIn, code, is_cookie_length};
use super::message::RecordHead;
use super::tsig::{TsigAt, TsigView};
use super::{DropReason, FirstQuestion, Header, Message, ParseError, Question, Records, RejectReason, Section};
use crate::limits::HEADER_BYTES;
use crate::name_buf::{NameBuf, Steps};
use crate::number::{Class, Opcode, Rcode, Rtype};
use core::ops::Range;

/// The kind of a received message.
#[derive(Clone, Debug)]
pub enum Parsed<'m> {
    /// It gets no response.
    Drop(DropReason),
    /// It gets an immediate error.
    Reject(Reject<'m>),
    /// A QUERY or an UPDATE, well formed so far.
    Request(Request<'m>),
}

/// An error that needs no zone and no key.
#[derive(Clone, Debug)]
pub struct Reject<'m> {
    /// The whole message.
    pub bytes: &'m [u8],
    /// Its header.
    pub header: Header,
    /// The RCODE of the response, which may need EDNS.
    pub rcode: Rcode,
    /// The reason.
    pub reason: RejectReason,
    /// The question to echo as sent; `None` for a response that is only a header.
    pub question: Option<&'m [u8]>,
    /// The EDNS of the message, if well formed. Then the response has an OPT (RFC 6891 6.1.1).
    pub edns: Option<EdnsIn<'m>>,
    /// The TSIG record, if the message can be read to its end and the record is well-formed. The key is checked first
    /// (RFC 8945 5.2). So the response is either a TSIG error, or this error, signed.
    pub tsig: Option<TsigAt>,
}

/// A QUERY or an UPDATE.
#[derive(Clone, Debug)]
pub struct Request<'m> {
    /// The whole message.
    pub bytes: &'m [u8],
    /// Its header.
    pub header: Header,
    /// The question, or the zone section. `None` only for a QUERY that asks for a COOKIE alone (RFC 7873 5.4).
    pub question: Option<FirstQuestion<'m>>,
    /// The EDNS, of version 0.
    pub edns: Option<EdnsIn<'m>>,
    /// The TSIG record: the last one, of class ANY, its layout checked.
    pub tsig: Option<TsigAt>,
    message: Message<'m>,
}

impl<'m> Request<'m> {
    /// The records of a section. The additional section includes OPT and TSIG.
    #[must_use]
    pub const fn records(&self, section: Section) -> Records<'m> {
        self.message.records(section)
    }

    /// Number of records in a section.
    #[must_use]
    pub const fn record_count(&self, section: Section) -> u16 {
        self.header.counts[section as usize]
    }

    /// The fields of the TSIG record.
    #[must_use]
    pub fn tsig_view(&self) -> Option<TsigView<'m>> {
        TsigView::read(self.bytes, self.tsig.as_ref()?)
    }

    /// Whether the client asks for DNSSEC records (RFC 4035 3.1).
    #[must_use]
    pub fn dnssec_ok(&self) -> bool {
        self.edns.is_some_and(|edns| edns.dnssec_ok)
    }
}

/// Reads a received message and decides, in this order: no response, NOTIMP, FORMERR, BADVERS, or a request. An error
/// with TSIG is sent after its key was checked.
#[must_use]
pub fn parse_request(bytes: &[u8]) -> Parsed<'_> {
    let Some(header) = Header::parse(bytes) else { return Parsed::Drop(DropReason::Short) };
    // Responding to a response could loop forever.
    if header.qr {
        return Parsed::Drop(DropReason::Response);
    }
    let mut echo = Echo::default();
    let parsed = match header.opcode {
        Opcode::QUERY | Opcode::UPDATE => parse_body(bytes, header, &mut echo),
        // Before the check of counts: DSO and IQUERY have QDCOUNT 0 (RFC 8490 5.4).
        _ => Err((Rcode::NOTIMP, RejectReason::Opcode)),
    };
    match parsed {
        Ok(request) => Parsed::Request(request),
        Err(refusal) => Parsed::Reject(reject(bytes, header, refusal, echo)),
    }
}

#[cold]
fn reject<'m>(bytes: &'m [u8], header: Header, (rcode, reason): Refusal, echo: Echo<'m>) -> Reject<'m> {
    let Echo { question, edns } = echo;
    let (seen_edns, tsig) = read_opt_and_tsig(bytes, header, reason);
    Reject { bytes, header, rcode, reason, question, edns: edns.or(seen_edns), tsig }
}

/// The parts of a message that an error response repeats, as far as they were read.
#[derive(Default)]
struct Echo<'m> {
    question: Option<&'m [u8]>,
    edns: Option<EdnsIn<'m>>,
}

/// Returns EDNS and TSIG of a message that was refused because of an earlier error. The rest of the message must be
/// well-formed. If the message cannot be read to its end, the response is only a header.
fn read_opt_and_tsig(bytes: &[u8], header: Header, reason: RejectReason) -> (Option<EdnsIn<'_>>, Option<TsigAt>) {
    let Some(found) = pseudo_records(bytes, header, reason) else { return (None, None) };
    // RFC 6891 6.1.1: "if an OPT record is present in a received request, compliant responders MUST include an OPT
    // record in their respective responses".
    let edns = found.well_formed_opt(bytes).ok().flatten();
    (edns, found.check_tsig(bytes).ok().flatten())
}

/// The pseudo-records of a refused message. `None` if it cannot be read to its end or its TSIG is malformed.
fn pseudo_records(bytes: &[u8], header: Header, reason: RejectReason) -> Option<PseudoRecords> {
    use RejectReason as Reason;
    match reason {
        Reason::Opcode
        | Reason::QuestionCountMany
        | Reason::QuestionCountZero
        | Reason::ZoneCount
        | Reason::ZoneType
        | Reason::OptTwice
        | Reason::OptOwner
        | Reason::OptSection
        | Reason::OptOptions
        | Reason::CookieLength
        | Reason::EdnsVersion => {}
        Reason::PastEnd
        | Reason::NameMalformed
        | Reason::LeftOver
        | Reason::TsigNotLast
        | Reason::TsigTwice
        | Reason::TsigClass
        | Reason::TsigMalformed => return None,
    }
    let (mut steps, mut at) = (Steps::new(), HEADER_BYTES);
    for _ in 0..header.counts[0] {
        at = Question::read(bytes, at, &mut steps).ok()?.bytes_at.end;
    }
    let mut found = PseudoRecords::default();
    Message::walk(bytes, header, at, &mut steps, |section, at, owner, head| found.visit(section, at, owner, head))
        .ok()?;
    Some(found)
}

/// The bits of an OPT's TTL that hold the EDNS version (RFC 6891 6.1.3).
const VERSION_BITS: u32 = 0x00FF_0000;

type Refusal = (Rcode, RejectReason);

const fn formerr(reason: RejectReason) -> Refusal {
    (Rcode::FORMERR, reason)
}

impl From<ParseError> for Refusal {
    fn from(error: ParseError) -> Self {
        formerr(match error {
            ParseError::Short => RejectReason::PastEnd,
            ParseError::Name(_) => RejectReason::NameMalformed,
            ParseError::LeftOver => RejectReason::LeftOver,
        })
    }
}

/// Reads the body of a QUERY or an UPDATE, and notes the parts that an error response repeats.
// Inlined so that the request is built in place.
#[inline]
fn parse_body<'m>(bytes: &'m [u8], header: Header, echo: &mut Echo<'m>) -> Result<Request<'m>, Refusal> {
    let question = parse_question(bytes, &header, echo)?;
    let start = question.as_ref().map_or(HEADER_BYTES, FirstQuestion::end);

    let (mut found, mut steps) = (PseudoRecords::default(), Steps::new());
    let walked = Message::walk(bytes, header, start, &mut steps, |section, at, owner, head| {
        found.visit(section, at, owner, head);
    });
    if question.is_none() && !walked.is_ok_and(|_| found.has_cookie(bytes)) {
        return Err(formerr(RejectReason::QuestionCountZero));
    }
    let message = walked?;

    echo.question = question.map(|question| question.bytes);
    let edns = found.check_opt(bytes, echo)?;
    echo.edns = edns;
    let tsig = found.check_tsig(bytes)?;
    Ok(Request { bytes, header, question, edns, tsig, message })
}

/// Reads the question of a QUERY or the zone section of an UPDATE.
#[inline]
fn parse_question<'m>(
    bytes: &'m [u8],
    header: &Header,
    echo: &mut Echo<'m>,
) -> Result<Option<FirstQuestion<'m>>, Refusal> {
    match (header.opcode, header.counts[0]) {
        (_, 1) => {}
        (Opcode::UPDATE, _) => return Err(formerr(RejectReason::ZoneCount)),
        (_, 0) => return Ok(None),
        // RFC 9619 4: a QUERY with QDCOUNT above 1 is malformed.
        _ => return Err(formerr(RejectReason::QuestionCountMany)),
    }
    let question = FirstQuestion::read(bytes)?;
    if header.opcode == Opcode::UPDATE && question.qtype != Rtype::SOA {
        echo.question = Some(question.bytes);
        return Err(formerr(RejectReason::ZoneType));
    }
    Ok(Some(question))
}

/// The OPT and TSIG records found by a walk.
#[derive(Default)]
struct PseudoRecords {
    opt: Option<Opt>,
    opt_twice: bool,
    tsig: Option<(TsigAt, Class)>,
    tsig_twice: bool,
    /// Offset of the last record of the message, and whether it is in the additional section.
    last: (usize, bool),
}

struct Opt {
    class: Class,
    ttl: u32,
    rdata_at: Range<usize>,
    additional: bool,
    at_root: bool,
}

impl PseudoRecords {
    fn visit(&mut self, section: Section, at: usize, owner: &NameBuf, head: RecordHead) {
        let additional = section == Section::Additional;
        self.last = (at, additional);
        let RecordHead { rtype, class, ttl, rdata_at } = head;
        match rtype {
            Rtype::OPT => {
                self.opt_twice |= self.opt.is_some();
                let at_root = owner.as_ref().is_root();
                self.opt.get_or_insert(Opt { class, ttl, rdata_at, additional, at_root });
            }
            Rtype::TSIG => {
                self.tsig_twice |= self.tsig.is_some();
                self.tsig = Some((TsigAt { at, rdata_at }, class));
            }
            _ => {}
        }
    }

    fn edns<'m>(&self, bytes: &'m [u8]) -> Option<EdnsIn<'m>> {
        let opt = self.opt.as_ref()?;
        EdnsIn::new(opt.class, opt.ttl, bytes.get(opt.rdata_at.clone())?)
    }

    fn has_cookie(&self, bytes: &[u8]) -> bool {
        self.edns(bytes).is_some_and(|edns| edns.option(code::COOKIE).is_some())
    }

    /// The OPT record of a message; an error if it is repeated or misplaced.
    fn placed_opt(&self) -> Result<Option<&Opt>, Refusal> {
        let Some(opt) = &self.opt else { return Ok(None) };
        if self.opt_twice {
            return Err(formerr(RejectReason::OptTwice));
        }
        if !opt.at_root {
            return Err(formerr(RejectReason::OptOwner));
        }
        if !opt.additional {
            return Err(formerr(RejectReason::OptSection));
        }
        Ok(Some(opt))
    }

    /// Like `placed_opt`, but the options must be complete too.
    fn well_formed_opt<'m>(&self, bytes: &'m [u8]) -> Result<Option<EdnsIn<'m>>, Refusal> {
        match self.placed_opt()? {
            None => Ok(None),
            Some(_) => self.edns(bytes).ok_or(formerr(RejectReason::OptOptions)).map(Some),
        }
    }

    /// RFC 6891 6.1.3: an unknown version gets BADVERS. Its options may have another layout, so they are not an error.
    #[cold]
    fn edns_of_other_version<'m>(&self, bytes: &'m [u8], opt: &Opt) -> Option<EdnsIn<'m>> {
        self.edns(bytes).or_else(|| Some(EdnsIn::without_options(opt.class, opt.ttl)))
    }

    /// Rows 7 and 8.
    fn check_opt<'m>(&self, bytes: &'m [u8], echo: &mut Echo<'m>) -> Result<Option<EdnsIn<'m>>, Refusal> {
        let Some(opt) = self.placed_opt()? else { return Ok(None) };
        if opt.ttl & VERSION_BITS != 0 {
            echo.edns = self.edns_of_other_version(bytes, opt);
            return Err((Rcode::BADVERS, RejectReason::EdnsVersion));
        }
        let edns = self.edns(bytes).ok_or(formerr(RejectReason::OptOptions))?;
        echo.edns = Some(edns);
        // RFC 7873 5.2: of several COOKIE options "only the first (the one closest to the DNS header) is considered".
        if edns.option(code::COOKIE).is_some_and(|data| !is_cookie_length(data.len())) {
            return Err(formerr(RejectReason::CookieLength));
        }
        Ok(Some(edns))
    }

    /// Row 9.
    fn check_tsig(self, bytes: &[u8]) -> Result<Option<TsigAt>, Refusal> {
        let Some((tsig, class)) = self.tsig else { return Ok(None) };
        if self.tsig_twice {
            return Err(formerr(RejectReason::TsigTwice));
        }
        if self.last != (tsig.at, true) {
            return Err(formerr(RejectReason::TsigNotLast));
        }
        if class != Class::ANY {
            return Err(formerr(RejectReason::TsigClass));
        }
        TsigView::read(bytes, &tsig).ok_or(formerr(RejectReason::TsigMalformed))?;
        Ok(Some(tsig))
    }
}
