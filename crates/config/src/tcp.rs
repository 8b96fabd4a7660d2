//! The `[dns.tcp]` table.

use crate::limits::{CONNECTIONS_MEMORY_BYTES_MIN, RATE_LIMIT_MAX};
use serde::{Deserialize, Serialize};

/// Limits of connections, for all transports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Maximum connections of the node.
    pub connections_max: usize,
    /// Maximum connections of one client: an IPv4 address, or an IPv6 /56.
    pub connections_per_client_max: usize,
    /// Idle timeout of a connection, in milliseconds.
    pub idle_ms: u64,
    /// Memory limit of all connections, in bytes.
    pub memory_bytes_max: usize,
    /// TLS and QUIC handshakes per second of one client; 0 means no limit.
    pub handshakes_per_second: u32,
    /// Burst of handshakes of one client after an idle time.
    pub handshakes_burst: u32,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            connections_max: crate::limits::TCP_CONNECTIONS_MAX,
            connections_per_client_max: crate::limits::TCP_CONNECTIONS_PER_CLIENT_MAX,
            idle_ms: crate::limits::TCP_IDLE_MS,
            memory_bytes_max: crate::limits::CONNECTIONS_MEMORY_BYTES_MAX,
            handshakes_per_second: crate::limits::HANDSHAKES_PER_SECOND,
            handshakes_burst: crate::limits::HANDSHAKES_BURST,
        }
    }
}

impl Tcp {
    /// Its keys, for suggestions in errors.
    pub(super) const KEYS: &[&str] = &[
        "connections_max",
        "connections_per_client_max",
        "idle_ms",
        "memory_bytes_max",
        "handshakes_per_second",
        "handshakes_burst",
    ];

    /// Checks the values. An error names the key.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if self.idle_ms == 0 || self.connections_max == 0 || self.connections_per_client_max == 0 {
            return Err(("tcp", "limits of [dns.tcp] must be 1 or more".into()));
        }
        if self.handshakes_per_second > RATE_LIMIT_MAX {
            return Err(("handshakes_per_second", format!("`handshakes_per_second` must be at most {RATE_LIMIT_MAX}")));
        }
        if !(1..=RATE_LIMIT_MAX).contains(&self.handshakes_burst) {
            return Err(("handshakes_burst", format!("`handshakes_burst` must be 1 to {RATE_LIMIT_MAX}")));
        }
        if self.memory_bytes_max < CONNECTIONS_MEMORY_BYTES_MIN {
            let least = CONNECTIONS_MEMORY_BYTES_MIN;
            return Err(("memory_bytes_max", format!("`memory_bytes_max` must be {least} or more")));
        }
        Ok(())
    }
}
