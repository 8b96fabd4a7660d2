//! The parts of a request that its response needs, and responses without records.

use super::answer::{Client, Service, context};
use super::cookies::COOKIE_BYTES;
use crate::listen::Transport;
use tsig::Signer;
use wire::compose::EdnsOut;
use wire::parse::{EdnsIn, EdnsRequest, Header, Reject, Request};
use zone::answer::{AnswerContext, Bare, Head, Servable, respond_bare};

/// The fields of a message that a response without records needs.
#[derive(Clone, Copy)]
pub(super) struct Received<'m> {
    pub(super) head: Head<'m>,
    pub(super) edns: Option<EdnsIn<'m>>,
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
pub(super) struct ResponseHead {
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
    pub(super) fn new(head: &Head<'_>, transport: Transport, cookie: Option<[u8; COOKIE_BYTES]>) -> Self {
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
    pub(super) const fn without_nsid(mut self) -> Self {
        self.has_nsid = false;
        self
    }

    pub(super) const fn header(&self) -> &Header {
        &self.header
    }

    /// The question, if there was one.
    pub(super) fn question(&self) -> Option<&[u8]> {
        (!self.question.is_empty()).then_some(&self.question)
    }

    /// OPT of a response with `tsig_bytes` of TSIG behind it, if the request had one (RFC 6891 6.1.1).
    pub(super) fn edns_out<'s>(&'s self, service: &'s Service, tsig_bytes: usize) -> Option<EdnsOut<'s>> {
        self.edns.as_ref().map(|asked| self.context(service, tsig_bytes).edns_out(asked))
    }

    /// The same for a response that begins with the SOA of a zone. `expire` is the EXPIRE of the SOA (RFC 7314 3).
    pub(super) fn edns_out_of_zone<'s>(
        &'s self,
        service: &'s Service,
        tsig_bytes: usize,
        expire: Option<u32>,
    ) -> Option<EdnsOut<'s>> {
        let expire = expire.filter(|_| self.edns.is_some_and(|asked| asked.expire));
        self.edns_out(service, tsig_bytes).map(|edns| EdnsOut { expire, ..edns })
    }

    /// Bytes that a response may have with `tsig_bytes` of TSIG behind it.
    pub(super) fn bytes_max(&self, service: &Service, tsig_bytes: usize) -> usize {
        self.context(service, tsig_bytes).bytes_max(self.edns.as_ref())
    }

    /// Writes a response without records, signed where there is something to sign with; gives its bytes.
    pub(super) fn compose(
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
            // A name of 255 bytes as zone, another as key: still below a thousand bytes, which fit any buffer here.
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
