//! Responses without records: errors, and what says that a client should come again in another way.

use super::AnswerContext;
use wire::compose::{Composer, EdnsOut};
use wire::limits::HEADER_BYTES;
use wire::number::Rcode;
use wire::parse::{EdnsIn, EdnsRequest, Header, Reject, Request};

/// What a response repeats of its message, or takes from it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'m> {
    /// The message's.
    pub header: Header,
    /// The question, as sent.
    pub question: Option<&'m [u8]>,
    /// What its OPT asks for, if it has one that is well-formed.
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

/// What a response without records says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bare {
    /// Its RCODE.
    pub rcode: Rcode,
    /// TC.
    pub truncated: bool,
    /// An extended error, where there is an OPT for it (RFC 8914 2).
    pub extended: Option<u16>,
    /// Text that goes with it.
    pub text: &'static str,
}

/// Writes a response without records. Gives its bytes: 0 when not even a header fits.
#[must_use]
pub fn respond_bare(head: &Head<'_>, context: &AnswerContext<'_>, bare: Bare, out: &mut [u8]) -> usize {
    let edns = head.edns.as_ref().map(|requested| EdnsOut {
        ede: [bare.extended.map(|code| (code, bare.text)), None],
        ..context.edns_out(requested)
    });
    // Question and OPT are there whatever the client takes; options as far as it takes them.
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
