//! What is measured: a server, or a cluster of servers.

use testbed::Kind;

/// One server, or cluster of servers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Side {
    /// Catamaran with this many nodes.
    Catamaran(u64),
    /// A lower bound for replication to three logs ([`Bare`]). It is not a server.
    Bare,
    /// BIND, a primary with its journal.
    Bind,
    /// Knot DNS, a primary with its journal.
    Knot,
    /// PowerDNS with SQLite. Its LMDB backend takes no updates before 5.0.
    PowerDns,
}

impl Side {
    pub(crate) const ALL: [Self; 7] = [
        Self::Catamaran(1),
        Self::Catamaran(3),
        Self::Catamaran(5),
        Self::Bare,
        Self::Bind,
        Self::Knot,
        Self::PowerDns,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Catamaran(1) => "catamaran-1",
            Self::Catamaran(3) => "catamaran-3",
            Self::Catamaran(_) => "catamaran-5",
            Self::Bare => "bare-3",
            Self::Bind => "bind",
            Self::Knot => "knot",
            Self::PowerDns => "powerdns",
        }
    }

    /// The kind, if it is not of this project.
    pub(crate) const fn rival(self) -> Option<Kind> {
        match self {
            Self::Catamaran(_) | Self::Bare => None,
            Self::Bind => Some(Kind::Bind),
            Self::Knot => Some(Kind::Knot),
            Self::PowerDns => Some(Kind::PowerDns),
        }
    }
}
