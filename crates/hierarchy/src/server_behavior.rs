//! How a server answers where the zone leaves it a choice.
//!
//! Two servers with the same zone differ in what they send unasked, and in what they leave out when a datagram is full.
//! None of that is in a zone file, so `hierarchy.json` has it beside the addresses.

use crate::limits::DATAGRAM_BYTES_MAX;
use serde::{Deserialize, Serialize};

/// What a server does that ours would not do. All of it is learnt from its responses, and nothing from its name.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerBehavior {
    /// The bytes of its largest datagram, as its OPT says; 0 when that is no more than [`DATAGRAM_BYTES_MAX`].
    #[serde(skip_serializing_if = "is_zero")]
    pub datagram_bytes: u16,
    /// Beside a positive answer it sends the name servers of the zone, and their addresses (RFC 1034 4.3.2 leaves it
    /// open); not beside DS and DNSKEY.
    #[serde(skip_serializing_if = "is_false")]
    pub ns_in_answers: bool,
    /// The addresses of a referral are in the order of its name servers, and those that do not fit are left out
    /// without a word: what servers did before RFC 9471 had those in the zone set TC.
    #[serde(skip_serializing_if = "is_false")]
    pub glue_in_order: bool,
    /// A truncated response keeps what fits: RRsets of a section, then their signatures, then addresses.
    #[serde(skip_serializing_if = "is_false")]
    pub keeps_what_fits: bool,
    /// Names in rdata point to the one before them, the first to the owner or the question, and to no other: such
    /// responses are longer, so that fewer addresses fit (RFC 1035 4.1.4 asks for no compression).
    #[serde(skip_serializing_if = "is_false")]
    pub points_near: bool,
    /// Asked for ANY it gives all that the name has, signatures too; ours gives one RRset (RFC 8482).
    #[serde(skip_serializing_if = "is_false")]
    pub any_whole: bool,
}

impl ServerBehavior {
    /// The largest datagram that is sent.
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
