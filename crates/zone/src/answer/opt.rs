//! The OPT of a response, and the maximum size of the response.

use super::{AnswerContext, Transport};
use wire::compose::EdnsOut;
use wire::limits::{MESSAGE_BYTES_MAX, UDP_PAYLOAD_MIN};
use wire::parse::EdnsRequest;

impl<'c> AnswerContext<'c> {
    /// OPT of the response to a message with one: "if an OPT record is present in a received request, compliant
    /// responders MUST include an OPT record in their respective responses" (RFC 6891 6.1.1). Options about a zone are
    /// added later.
    #[must_use]
    pub fn edns_out(&self, requested: &EdnsRequest) -> EdnsOut<'c> {
        EdnsOut {
            payload: self.payload,
            dnssec_ok: requested.dnssec_ok,
            cookie: self.cookie,
            nsid: self.nsid.filter(|_| requested.nsid),
            keepalive: self.keepalive.filter(|_| requested.keepalive),
            // RFC 7830 4: responders MUST pad when the request was padded.
            padding_block: if requested.padding { self.padding_block } else { 0 },
            behind_bytes: self.tsig_reserve as u16,
            ..EdnsOut::default()
        }
    }

    /// Maximum size of the response without its TSIG record.
    #[must_use]
    pub fn bytes_max(&self, requested: Option<&EdnsRequest>) -> usize {
        let size_max = match self.transport {
            Transport::Tcp => MESSAGE_BYTES_MAX,
            // RFC 6891 6.2.3: the client's payload size, and never less than 512; RFC 1035 4.2.1 without EDNS.
            Transport::Udp => {
                let requested_bytes = requested.map_or(UDP_PAYLOAD_MIN, |requested| requested.payload_bytes);
                requested_bytes.min(self.udp_bytes_max).max(UDP_PAYLOAD_MIN).into()
            }
        };
        size_max.saturating_sub(self.tsig_reserve)
    }
}
