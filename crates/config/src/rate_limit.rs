//! The `[dns.rate_limit]` table.

use super::subnet::Subnet;
use crate::limits::{
    RATE_LIMIT_ADDRESS_BURST, RATE_LIMIT_ADDRESS_PER_SECOND, RATE_LIMIT_ALL_BURST, RATE_LIMIT_ALL_PER_SECOND,
    RATE_LIMIT_BURST, RATE_LIMIT_EXEMPT_MAX, RATE_LIMIT_MAX, RATE_LIMIT_PER_SECOND,
};
use serde::{Deserialize, Serialize};

/// Response rate limits over UDP. They limit how much traffic forged source addresses can direct at a victim.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RateLimit {
    /// Similar responses per second to one network; 0 turns off all limits.
    pub per_second: u32,
    /// Burst of similar responses after an idle time.
    pub burst: u32,
    /// Responses of any kind per second to one address; 0 means no limit.
    pub address_per_second: u32,
    /// Burst to one address after an idle time.
    pub address_burst: u32,
    /// Responses of any kind per second to one network, and a multiple of this to wider networks; 0 means no limit.
    pub all_per_second: u32,
    /// Burst to one network after an idle time.
    pub all_burst: u32,
    /// Every Nth query over the limit gets a truncated response, so that a real client retries over TCP. The others get
    /// none. 0: no query gets one.
    pub slip: u32,
    /// Networks without a limit.
    pub exempt: Vec<Subnet>,
    /// Prefix length of an IPv4 network.
    pub ipv4_prefix: u8,
    /// Prefix length of an IPv6 network.
    pub ipv6_prefix: u8,
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
    /// Its keys, for suggestions in errors.
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

    /// Checks the values. An error names the key.
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
