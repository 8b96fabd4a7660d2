//! Responses that carry no records: what is kept of a request to make one, at once or later.

use replica::update::Signer;
use wire::compose::{Composer, EdnsOut};
use wire::number::Rcode;
use wire::parse::{Header, Request};

/// What a response repeats of its request.
pub(super) struct ResponseHead {
    header: Header,
    /// As sent; empty when there was none.
    question: Vec<u8>,
    /// DO, where the request had an OPT.
    dnssec_ok: Option<bool>,
}

impl ResponseHead {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let question = request.question.as_ref().map(|question| question.octets.to_vec());
        Self {
            header: request.header,
            question: question.unwrap_or_default(),
            dnssec_ok: request.edns.map(|edns| edns.dnssec_ok),
        }
    }

    /// Writes the response, signed where there is something to sign with; gives its octets. `extended` goes into the
    /// OPT, if there is one (RFC 8914 2); `payload` is the largest datagram that this server takes.
    pub(super) fn compose(
        &self,
        rcode: Rcode,
        extended: Option<u16>,
        payload: u16,
        signer: Option<&Signer>,
        now_s: u64,
        out: &mut [u8],
    ) -> Option<usize> {
        let mut composer = Composer::new(out, usize::MAX);
        // RFC 6891 6.1.1: a request with OPT gets a response with OPT.
        let edns = self.dnssec_ok.map(|dnssec_ok| EdnsOut {
            payload,
            dnssec_ok,
            ede: [extended.map(|code| (code, "")), None],
            ..EdnsOut::default()
        });
        composer.reserve(edns.as_ref().map_or(0, EdnsOut::octet_count));
        composer.start(&self.header, (!self.question.is_empty()).then_some(&self.question), rcode, false);
        let len = composer.finish(edns.as_ref());
        match signer {
            // A name of 255 octets as zone, another as key: still below a thousand octets, which fit any buffer here.
            Some(signer) => signer.sign(out, len, now_s).ok(),
            None => (len > 0).then_some(len),
        }
    }
}
