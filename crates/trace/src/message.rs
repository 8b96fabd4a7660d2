//! What is recorded: a DNS message, when it was seen, between whom, over what.

use crate::limits::HEADER_BYTES;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// What carried a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// One message of a stream, without its two bytes of length (RFC 1035 4.2.2).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484).
    Doh,
    /// DNS over QUIC (RFC 9250).
    Doq,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh, Self::Doq];

    /// Its name in text.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

impl FromStr for Transport {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        // LDplayer says `tls`.
        let text = if text.eq_ignore_ascii_case("tls") { "dot" } else { text };
        Self::ALL.into_iter().find(|transport| transport.label().eq_ignore_ascii_case(text)).ok_or(())
    }
}

/// A message that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'m> {
    /// When, in nanoseconds since 1970; of a stream the time of its last byte. Not always later than the one before.
    pub at_ns: u64,
    /// Who sent it.
    pub source: SocketAddr,
    /// To whom.
    pub destination: SocketAddr,
    /// Over what.
    pub transport: Transport,
    /// The message itself, from its ID on; at least a header.
    pub bytes: &'m [u8],
}

impl Message<'_> {
    /// QR: whether it answers another one (RFC 1035 4.1.1).
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.bytes[2] & 0x80 != 0
    }

    /// Whoever asks: the source of a query, the destination of a response.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        if self.is_response() { self.destination } else { self.source }
    }

    /// Whoever is asked.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        if self.is_response() { self.source } else { self.destination }
    }
}

/// Whether bytes are long enough for a message.
pub(crate) fn has_header(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES
}
