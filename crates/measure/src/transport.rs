//! The transports of DNS messages.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A transport of DNS messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// One datagram per message (RFC 1035 4.2.1).
    Udp,
    /// Messages with a length of two bytes (RFC 1035 4.2.2), many per connection (RFC 7766).
    Tcp,
    /// The same with TLS (RFC 7858).
    Dot,
    /// HTTP/2 requests with TLS (RFC 8484).
    Doh,
    /// A QUIC stream for each query (RFC 9250).
    Doq,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh, Self::Doq];

    /// The name on the command line and in results.
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

    /// The default port (RFC 1035 4.2, RFC 7858 3.1, RFC 8484 4, RFC 9250 4.1.1).
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Udp | Self::Tcp => 53,
            Self::Dot | Self::Doq => 853,
            Self::Doh => 443,
        }
    }

    /// Whether its connections are encrypted.
    #[must_use]
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Self::Dot | Self::Doh | Self::Doq)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // LDplayer and the rules of `catlab trace mutate` use `tls`.
        let label = if text.eq_ignore_ascii_case("tls") { "dot" } else { text };
        Self::ALL
            .into_iter()
            .find(|transport| transport.label().eq_ignore_ascii_case(label))
            .ok_or_else(|| format!("{text} is not a transport; there are udp, tcp, dot (or tls), doh and doq"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_an_alias_of_dot() {
        assert_eq!("tls".parse(), Ok(Transport::Dot));
        assert!("tlss".parse::<Transport>().unwrap_err().contains("dot (or tls)"));
    }
}
