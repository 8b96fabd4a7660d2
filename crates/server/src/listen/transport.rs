//! The transports of DNS messages.

/// A transport of DNS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transport {
    /// Datagrams (RFC 1035 4.2.1). A client that gets no response sends its query again.
    Udp,
    /// RFC 7766.
    Tcp,
    /// DNS over TLS (RFC 7858).
    Dot,
    /// DNS over HTTPS (RFC 8484).
    Doh,
    /// DNS over QUIC (RFC 9250).
    Doq,
}

impl Transport {
    /// All of them, in the order of their discriminants.
    pub(crate) const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Dot, Self::Doh, Self::Doq];

    /// A stable name for metrics.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
        }
    }

    /// Whether it is encrypted.
    pub(crate) const fn is_encrypted(self) -> bool {
        matches!(self, Self::Dot | Self::Doh | Self::Doq)
    }

    /// Whether edns-tcp-keepalive is allowed: on TCP and on TLS over it (RFC 7828 3.1). On QUIC it is an error (RFC
    /// 9250 5.5.2), and HTTP has its own timeouts.
    pub(crate) const fn has_keepalive(self) -> bool {
        matches!(self, Self::Tcp | Self::Dot)
    }

    /// The replica's name for it. Without a response, a UDP client retries; the stream of any other is closed.
    pub(crate) const fn of_replica(self) -> replica::io::Transport {
        match self {
            Self::Udp => replica::io::Transport::Udp,
            Self::Tcp | Self::Dot | Self::Doh | Self::Doq => replica::io::Transport::Tcp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_in_the_order_of_their_discriminants() {
        for (index, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(transport as usize, index);
        }
    }
}
