//! How a server answers where a zone leaves a choice.
//!
//! Two servers with the same zone differ in the optional records that they send, and in what they leave out of a full
//! datagram. No zone file contains this, so `hierarchy.json` does.

use crate::limits::DATAGRAM_BYTES_MAX;
use serde::{Deserialize, Serialize};

/// Differences of a server from ours. They are learnt from its responses, never from its name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerBehavior {
    /// Its largest datagram in bytes, from its OPT. 0 if that is at most [`DATAGRAM_BYTES_MAX`].
    #[serde(skip_serializing_if = "is_zero")]
    pub datagram_bytes: u16,
    /// Adds the NS records of the zone and their addresses to positive answers (RFC 1034 4.3.2 leaves this open),
    /// except for DS and DNSKEY.
    #[serde(skip_serializing_if = "is_false")]
    pub ns_in_answers: bool,
    /// Sends the addresses of a referral in the order of its name servers, and leaves out what does not fit without TC.
    /// Servers did this before RFC 9471.
    #[serde(skip_serializing_if = "is_false")]
    pub glue_in_order: bool,
    /// Keeps what fits in a truncated response: RRsets of a section, then their signatures, then addresses.
    #[serde(skip_serializing_if = "is_false")]
    pub keeps_what_fits: bool,
    /// Compresses names in rdata only against the name before them, the first one against the owner or the question.
    /// Such responses are longer, so fewer addresses fit (RFC 1035 4.1.4 does not require compression).
    #[serde(skip_serializing_if = "is_false")]
    pub points_near: bool,
    /// Answers ANY with all records of the name, including signatures. Our server sends one RRset (RFC 8482).
    #[serde(skip_serializing_if = "is_false")]
    pub any_whole: bool,
}

impl ServerBehavior {
    /// The largest datagram.
    #[must_use]
    pub fn datagram_bytes_max(&self) -> u16 {
        self.datagram_bytes.max(DATAGRAM_BYTES_MAX)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(it: &bool) -> bool {
    !*it
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(it: &u16) -> bool {
    *it == 0
}
