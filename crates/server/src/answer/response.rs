//! The parts of a request that its response needs, and responses without records.

use super::cookies::COOKIE_BYTES;
use crate::answer::context::{Client, Service, context};
use crate::listen::Transport;
use tsig::Signer;
use wire::compose::EdnsOut;
use wire::parse::{EdnsIn, EdnsRequest, Header, Reject, Request};
use zone::answer::{AnswerContext, Bare, Head, Servable, respond_bare};

/// The fields of a message that a response without records needs.
#[derive(Clone, Copy)]
pub(crate) struct Received<'m> {
    pub(crate) head: Head<'m>,
    pub(crate) edns: Option<EdnsIn<'m>>,
}

impl<'m> From<&Request<'m>> for Received<'m> {
    fn from(request: &Request<'m>) -> Self {
        Self { head: Head::from(request), edns: request.edns }
    }
}

impl<'m> From<&Reject<'m>> for Received<'m> {
    fn from(reject: &Reject<'m>) -> Self {
        Self { head: Head::from(reject), edns: reject.edns }
    }
}

/// The parts of a request that its response repeats or depends on.
pub(crate) struct ResponseHead {
    header: Header,
    /// As sent; empty when there was none.
    question: Vec<u8>,
    edns: Option<EdnsRequest>,
    transport: Transport,
    /// The cookie of the response.
    cookie: Option<[u8; COOKIE_BYTES]>,
    /// Whether NSID is sent to clients that request it.
    has_nsid: bool,
}

impl ResponseHead {
    pub(crate) fn new(head: &Head<'_>, transport: Transport, cookie: Option<[u8; COOKIE_BYTES]>) -> Self {
        Self {
            header: head.header,
            question: head.question.unwrap_or_default().to_vec(),
            edns: head.edns,
            transport,
            cookie,
            has_nsid: true,
        }
    }

    /// The same, without NSID.
    pub(crate) const fn without_nsid(mut self) -> Self {
        self.has_nsid = false;
        self
    }

    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// The question, if there was one.
    pub(crate) fn question(&self) -> Option<&[u8]> {
        (!self.question.is_empty()).then_some(&self.question)
    }

    /// The OPT record of a response with `tsig_bytes` of TSIG after it, if the request had OPT (RFC 6891 6.1.1).
    fn edns_out<'s>(&'s self, service: &'s Service, tsig_bytes: usize) -> Option<EdnsOut<'s>> {
        self.edns.as_ref().map(|edns| self.context(service, tsig_bytes).edns_out(edns))
    }

    /// The same for a response that starts with the SOA of a zone. `expire` is the EXPIRE of the SOA (RFC 7314 3).
    pub(crate) fn edns_out_of_zone<'s>(
        &'s self,
        service: &'s Service,
        tsig_bytes: usize,
        expire: Option<u32>,
    ) -> Option<EdnsOut<'s>> {
        let expire = expire.filter(|_| self.edns.is_some_and(|edns| edns.expire));
        self.edns_out(service, tsig_bytes).map(|edns| EdnsOut { expire, ..edns })
    }

    /// Maximum bytes of a response with `tsig_bytes` of TSIG after it.
    pub(crate) fn bytes_max(&self, service: &Service, tsig_bytes: usize) -> usize {
        self.context(service, tsig_bytes).bytes_max(self.edns.as_ref())
    }

    /// Writes a response without records, signed if there is a signer; returns its length.
    pub(crate) fn compose(
        &self,
        bare: Bare,
        service: &Service,
        signer: Option<&Signer>,
        now_s: u64,
        out: &mut [u8],
    ) -> Option<usize> {
        let tsig_bytes = signer.map_or(0, Signer::byte_count);
        let head = Head { header: self.header, question: self.question(), edns: self.edns };
        let len = respond_bare(&head, &self.context(service, tsig_bytes), bare, out);
        match signer {
            // Even with the longest zone and key names it has less than 1,000 bytes, which fit every buffer here.
            Some(signer) => signer.sign(out, len, now_s).ok(),
            None => (len > 0).then_some(len),
        }
    }

    fn context<'s>(&'s self, service: &'s Service, tsig_bytes: usize) -> AnswerContext<'s> {
        let cookie = self.cookie.as_ref().map(|cookie| &cookie[..]);
        let client = Client { transport: self.transport, cookie };
        let context = context(service, client, &|_| Servable::Ready, tsig_bytes);
        AnswerContext { nsid: context.nsid.filter(|_| self.has_nsid), ..context }
    }
}
