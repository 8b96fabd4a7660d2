//! A recorded DNS message with its time, endpoints and transport.

use crate::limits::HEADER_BYTES;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

/// The transport of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Transport {
    /// A datagram.
    Udp,
    /// A message of a TCP stream, without its length field (RFC 1035 4.2.2).
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484).
    Doh,
    /// DNS over QUIC (RFC 9250).
    Doq,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh, Self::Doq];

    /// Name in text.
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
        // LDplayer writes `tls`.
        let text = if text.eq_ignore_ascii_case("tls") { "dot" } else { text };
        Self::ALL.into_iter().find(|transport| transport.label().eq_ignore_ascii_case(text)).ok_or(())
    }
}

/// A recorded message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message<'m> {
    /// Time in nanoseconds since 1970; for a stream, the time of its last byte. Messages are not always in order of
    /// time.
    pub at_ns: u64,
    /// Sender.
    pub source: SocketAddr,
    /// Receiver.
    pub destination: SocketAddr,
    /// Transport.
    pub transport: Transport,
    /// The message, from its ID on. It has at least a header.
    pub bytes: &'m [u8],
}

impl Message<'_> {
    /// Whether this is a response: the QR bit (RFC 1035 4.1.1).
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.bytes[2] & 0x80 != 0
    }

    /// The client: the source of a query, or the destination of a response.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        if self.is_response() { self.destination } else { self.source }
    }

    /// The server.
    #[must_use]
    pub fn server(&self) -> SocketAddr {
        if self.is_response() { self.source } else { self.destination }
    }
}

/// Whether the bytes are long enough for a message.
pub(crate) fn has_header(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES
}
