//! The outcome of a request to a server.

use crate::address::Addresses;
use std::fmt;
use wire::number::Rcode;

/// The outcome of a request to a server, after all retries over all its addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The server applied the update.
    Done,
    /// A prerequisite failed, so nothing was changed (RFC 2136 3.2).
    Prerequisite(Rcode),
    /// The RRset in the response to a query.
    Observed(ObservedRrset),
    /// The server refuses the request. Retries are useless until something changes.
    Refused(Refusal),
    /// There is no authentic response. The update may have been applied or not.
    Unreachable(Failure),
}

/// An RRset in a response.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObservedRrset {
    /// Its addresses.
    pub addresses: Addresses,
    /// Its TTL, if the RRset exists.
    pub ttl: Option<u32>,
    /// The name is an alias (CNAME, or below a DNAME), so it cannot have addresses.
    pub is_alias: bool,
}

/// Why a server refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A signed response.
    Rcode(Rcode),
    /// The server does not know the key, or has another secret (RFC 8945 5.2.1, 5.2.2). The response is not signed.
    Key(Rcode),
    /// A response without TSIG: the server does not support it, or the response is forged.
    Unsigned(Rcode),
    /// The clocks differ by more than the fudge. Contains the server's time if it sent it (RFC 8945 5.2.3).
    Clock(Option<u64>),
}

/// Why there is no authentic response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// No response, or none that is signed with the key.
    Timeout,
    /// The request was not sent: no address, no route, no connection.
    Network(String),
    /// The server failed: SERVFAIL and similar codes.
    Rcode(Rcode),
}

/// The mnemonic of an RCODE, or its number (RFC 6895 2.3).
fn rcode_text(rcode: Rcode) -> String {
    rcode.mnemonic().map_or_else(|| format!("RCODE {}", rcode.0), str::to_owned)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rcode(rcode) => write!(f, "the server responded with {}", rcode_text(*rcode)),
            Self::Key(Rcode::BADKEY) => f.write_str("the server does not know the key (BADKEY)"),
            // RFC 8945 3: BADSIG has the number of BADVERS.
            Self::Key(Rcode::BADSIG) => f.write_str("the server has another secret for the key (BADSIG)"),
            Self::Key(rcode) => write!(f, "the server does not accept the key ({})", rcode_text(*rcode)),
            Self::Unsigned(rcode) => write!(f, "the server responded with {} without a signature", rcode_text(*rcode)),
            Self::Clock(Some(server_time)) => {
                write!(f, "the clocks differ too much (BADTIME): the server's time is {server_time}")
            }
            Self::Clock(None) => f.write_str("the clocks differ too much (BADTIME)"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout => f.write_str("no response that is signed with the key"),
            Self::Network(why) => f.write_str(why),
            Self::Rcode(rcode) => write!(f, "the server responded with {}", rcode_text(*rcode)),
        }
    }
}
