//! The `[dns.rate_limit]` table.

use super::subnet::Subnet;
use crate::limits::{
    RATE_LIMIT_ADDRESS_BURST, RATE_LIMIT_ADDRESS_PER_SECOND, RATE_LIMIT_ALL_BURST, RATE_LIMIT_ALL_PER_SECOND,
    RATE_LIMIT_BURST, RATE_LIMIT_EXEMPT_MAX, RATE_LIMIT_MAX, RATE_LIMIT_PER_SECOND,
};
use serde::{Deserialize, Serialize};

/// How many responses a network gets over UDP: who forges a victim's address gets no more sent there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RateLimit {
    /// Responses a second that are alike; 0 is no limit, of all neither.
    pub(crate) per_second: u32,
    /// Burst after silence.
    pub(crate) burst: u32,
    /// Responses a second to one address, whatever they are; 0 is no limit.
    pub(crate) address_per_second: u32,
    /// Burst after silence.
    pub(crate) address_burst: u32,
    /// Responses a second to one network, whatever they are, and a few times as many to the wider ones around it; 0 is
    /// no limit.
    pub(crate) all_per_second: u32,
    /// Burst after silence.
    pub(crate) all_burst: u32,
    /// Of the queries beyond the limit every so manieth gets a short response that a real client can act on, the others
    /// get none; 0 is never.
    pub(crate) slip: u32,
    /// Networks without a limit.
    pub(crate) exempt: Vec<Subnet>,
    /// Addresses of IPv4 that count as one network: those with so many bits in common.
    pub(crate) ipv4_prefix: u8,
    /// The same of IPv6.
    pub(crate) ipv6_prefix: u8,
}

impl Default for RateLimit {
    fn default() -> Self {
        let loopback = ["127.0.0.0/8", "::1/128"];
        Self {
            per_second: RATE_LIMIT_PER_SECOND,
            burst: RATE_LIMIT_BURST,
            address_per_second: RATE_LIMIT_ADDRESS_PER_SECOND,
            address_burst: RATE_LIMIT_ADDRESS_BURST,
            all_per_second: RATE_LIMIT_ALL_PER_SECOND,
            all_burst: RATE_LIMIT_ALL_BURST,
            slip: 1,
            exempt: loopback.map(|text| text.parse().expect("a network")).into(),
            ipv4_prefix: 24,
            ipv6_prefix: 56,
        }
    }
}

impl RateLimit {
    /// Its keys, for the search for the nearest one.
    pub(super) const KEYS: &[&str] = &[
        "per_second",
        "burst",
        "address_per_second",
        "address_burst",
        "all_per_second",
        "all_burst",
        "slip",
        "exempt",
        "ipv4_prefix",
        "ipv6_prefix",
    ];

    /// What types cannot say; names the key at fault.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        for (key, rate) in [
            ("per_second", self.per_second),
            ("address_per_second", self.address_per_second),
            ("all_per_second", self.all_per_second),
        ] {
            if rate > RATE_LIMIT_MAX {
                return Err((key, format!("`{key}` must be at most {RATE_LIMIT_MAX}")));
            }
        }
        for (key, burst) in
            [("burst", self.burst), ("address_burst", self.address_burst), ("all_burst", self.all_burst)]
        {
            if !(1..=RATE_LIMIT_MAX).contains(&burst) {
                return Err((key, format!("`{key}` must be 1 to {RATE_LIMIT_MAX}")));
            }
        }
        if self.exempt.len() > RATE_LIMIT_EXEMPT_MAX {
            return Err(("exempt", format!("`exempt` takes at most {RATE_LIMIT_EXEMPT_MAX} networks")));
        }
        for (key, prefix, most) in [("ipv4_prefix", self.ipv4_prefix, 32), ("ipv6_prefix", self.ipv6_prefix, 128)] {
            if !(1..=most).contains(&prefix) {
                return Err((key, format!("`{key}` must be 1 to {most}")));
            }
        }
        Ok(())
    }
}
