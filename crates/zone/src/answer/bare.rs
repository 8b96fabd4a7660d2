//! Responses without records: errors, and responses that make the client retry, for example over TCP.

use super::AnswerContext;
use wire::compose::{Composer, EdnsOut};
use wire::limits::HEADER_BYTES;
use wire::number::Rcode;
use wire::parse::{EdnsIn, EdnsRequest, Header, Reject, Request};

/// The parts of a request that its response needs.
#[derive(Clone, Copy, Debug)]
pub struct Head<'m> {
    /// The header of the request.
    pub header: Header,
    /// The question, as sent.
    pub question: Option<&'m [u8]>,
    /// The requests of its OPT, if that is well formed.
    pub edns: Option<EdnsRequest>,
}

impl<'m> From<&Request<'m>> for Head<'m> {
    fn from(request: &Request<'m>) -> Self {
        let question = request.question.as_ref().map(|question| question.bytes);
        Self { header: request.header, question, edns: request.edns.as_ref().map(EdnsIn::requested) }
    }
}

impl<'m> From<&Reject<'m>> for Head<'m> {
    fn from(reject: &Reject<'m>) -> Self {
        let edns = reject.edns.as_ref().map(EdnsIn::requested);
        Self { header: reject.header, question: reject.question, edns }
    }
}

/// The content of a response without records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bare {
    /// Its RCODE.
    pub rcode: Rcode,
    /// TC.
    pub truncated: bool,
    /// An extended error. It is sent only if there is an OPT (RFC 8914 2).
    pub extended: Option<u16>,
    /// Text of the extended error.
    pub text: &'static str,
}

/// Writes a response without records. Returns its length: 0 if there is no room for a header.
#[must_use]
pub fn respond_bare(head: &Head<'_>, context: &AnswerContext<'_>, bare: Bare, out: &mut [u8]) -> usize {
    let edns = head.edns.as_ref().map(|requested| EdnsOut {
        ede: [bare.extended.map(|code| (code, bare.text)), None],
        ..context.edns_out(requested)
    });
    // Question and OPT are sent even if they exceed the client's payload size. Options are only sent if they fit into
    // it.
    let opt_bytes = edns.as_ref().map_or(0, |_| EdnsOut::FIXED_BYTES);
    let bytes_min = HEADER_BYTES + head.question.map_or(0, <[u8]>::len) + opt_bytes;
    let mut composer = Composer::new(out, context.bytes_max(head.edns.as_ref()).max(bytes_min));
    composer.reserve(opt_bytes);
    composer.start(&head.header, head.question, bare.rcode, false);
    if bare.truncated {
        composer.set_tc();
    }
    composer.finish(edns.as_ref())
}
