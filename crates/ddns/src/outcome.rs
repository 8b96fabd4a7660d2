//! What became of a request to a server.

use crate::address::Addresses;
use std::fmt;
use wire::number::Rcode;

/// What became of a request to a server, all its repeats over all its addresses included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The update was carried out.
    Done,
    /// A prerequisite did not hold: nothing was changed (RFC 2136 3.2).
    Prerequisite(Rcode),
    /// What the server shows under the name.
    Seen(Seen),
    /// The server will not do it; asking it again changes nothing until somebody changes something.
    Refused(Refusal),
    /// There is no answer that could be believed: it may have been done or not.
    Unreachable(Failure),
}

/// The RRset that a server shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Its addresses.
    pub addresses: Addresses,
    /// Its TTL, if it is there.
    pub ttl: Option<u32>,
    /// The name is an alias (CNAME, or below a DNAME): it can have no addresses of its own.
    pub is_alias: bool,
}

/// Why a server will not do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It says so, signed.
    Rcode(Rcode),
    /// It does not know the key, or has another secret for it (RFC 8945 5.2.1, 5.2.2). Not signed, so anybody can have
    /// said so.
    Key(Rcode),
    /// It says so without any TSIG: it knows none, or it is not the server.
    Unsigned(Rcode),
    /// The clocks differ by more than the fudge; the server's is here if it told (RFC 8945 5.2.3).
    Clock(Option<u64>),
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Nothing came, or nothing that the key had signed.
    Silence,
    /// It could not be sent: no address, no route, no connection.
    Network(String),
    /// The server could not do it: SERVFAIL, and what else says nothing about the request.
    Rcode(Rcode),
}

/// The mnemonic of an RCODE, or its number (RFC 6895 2.3).
fn shown(rcode: Rcode) -> String {
    rcode.mnemonic().map_or_else(|| format!("RCODE {}", rcode.0), str::to_owned)
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rcode(rcode) => write!(f, "it answered {}", shown(*rcode)),
            Self::Key(Rcode::BADKEY) => f.write_str("it does not know the key (BADKEY)"),
            // RFC 8945 3: BADSIG has the number of BADVERS.
            Self::Key(Rcode::BADSIG) => f.write_str("its key of this name has another secret (BADSIG)"),
            Self::Key(rcode) => write!(f, "the key is of no use there ({})", shown(*rcode)),
            Self::Unsigned(rcode) => write!(f, "it answered {} without a signature", shown(*rcode)),
            Self::Clock(Some(theirs)) => write!(f, "the clocks differ too much (BADTIME): it is {theirs} there"),
            Self::Clock(None) => f.write_str("the clocks differ too much (BADTIME)"),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silence => f.write_str("no answer that the key had signed"),
            Self::Network(why) => f.write_str(why),
            Self::Rcode(rcode) => write!(f, "it answered {}", shown(*rcode)),
        }
    }
}
