//! The kinds of servers.

use measure::Transport;

/// The kind of server.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The server of this project.
    Catamaran,
    /// NLnet Labs' NSD.
    Nsd,
    /// CZ.NIC's Knot DNS.
    Knot,
    /// ISC's BIND 9.
    Bind,
    /// PowerDNS.
    PowerDns,
    /// CoreDNS.
    CoreDns,
    /// NLnet Labs' Unbound.
    Unbound,
    /// CZ.NIC's Knot Resolver, as forwarder.
    KnotResolver,
    /// PowerDNS' dnsdist, a balancer and TLS proxy.
    Dnsdist,
    /// HAProxy, a proxy from DNS over TLS to DNS over TCP.
    HaProxy,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Catamaran,
        Self::Bind,
        Self::Knot,
        Self::Nsd,
        Self::PowerDns,
        Self::Unbound,
        Self::CoreDns,
        Self::KnotResolver,
        Self::Dnsdist,
        Self::HaProxy,
    ];

    /// The name in reports and on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Catamaran => "catamaran",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::Bind => "bind",
            Self::PowerDns => "powerdns",
            Self::CoreDns => "coredns",
            Self::Unbound => "unbound",
            Self::KnotResolver => "knot-resolver",
            Self::Dnsdist => "dnsdist",
            Self::HaProxy => "haproxy",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.label() == name)
    }

    /// The transports over which it can answer.
    #[must_use]
    pub const fn transports(self) -> &'static [Transport] {
        match self {
            Self::Catamaran => &Transport::ALL,
            Self::Nsd | Self::KnotResolver => &[Transport::Udp, Transport::Tcp, Transport::Dot],
            Self::Bind | Self::Unbound | Self::Dnsdist => {
                &[Transport::Udp, Transport::Tcp, Transport::Dot, Transport::Doh]
            }
            Self::HaProxy => &[Transport::Tcp, Transport::Dot],
            Self::Knot | Self::PowerDns | Self::CoreDns => &[Transport::Udp, Transport::Tcp],
        }
    }

    /// Whether it answers only with what its backends answer. It has no zones then.
    #[must_use]
    pub const fn needs_backends(self) -> bool {
        matches!(self, Self::KnotResolver | Self::Dnsdist | Self::HaProxy)
    }

    /// Whether it can have backends.
    #[must_use]
    pub const fn takes_backends(self) -> bool {
        self.needs_backends() || matches!(self, Self::Unbound)
    }
}
