//! What the listeners count beside what messages mean.

use super::Transport;
use crate::metrics::text::{Kind, Page};
use crate::metrics::{Counter, Gauge};
use std::sync::Arc;

/// The counters of one thread that takes messages.
#[derive(Default, Debug)]
pub(crate) struct ListenCounters {
    /// Datagrams that the kernel did not take.
    pub(crate) udp_not_sent: Counter,
    /// Panics that were caught; each is a bug.
    pub(crate) panics: Counter,
}

/// Why a connection ended that its client did not close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CloseReason {
    /// It was not let in: too many connections, of the node or of the client.
    OverLimit,
    /// All places were taken, and its place went to a client that had fewer.
    Evicted,
    /// Nothing was asked for too long (RFC 7766 6.2.3).
    Idle,
    /// The client does not read; or, over HTTPS or QUIC, does not end a query that it began.
    SlowReader,
    /// All connections together hold as many bytes as they may.
    Memory,
    /// The client broke a rule of the transport.
    Protocol,
    /// The client takes back most of what it asks for, or sends frames that carry nothing.
    Excess,
}

impl CloseReason {
    const ALL: [Self; 7] =
        [Self::OverLimit, Self::Evicted, Self::Idle, Self::SlowReader, Self::Memory, Self::Protocol, Self::Excess];

    const fn label(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::Evicted => "evicted",
            Self::Idle => "idle",
            Self::SlowReader => "slow_reader",
            Self::Memory => "memory",
            Self::Protocol => "protocol",
            Self::Excess => "excess",
        }
    }
}

/// Why a handshake of TLS or QUIC came to nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandshakeFailure {
    /// Too many were under way, of the node or of the client.
    OverLimit,
    /// All places were taken, and its place went to a client that had fewer.
    Evicted,
    /// The client began too many, one after the other.
    OverRate,
    /// It took too long.
    TimedOut,
    /// The client offered protocols and this one was not among them, or it offered none where it must.
    Alpn,
    /// The client broke it off, with an alert or without.
    Broken,
    /// Client and server have no version, cipher or group in common, or the client spoke no TLS.
    Unacceptable,
}

impl HandshakeFailure {
    const ALL: [Self; 7] =
        [Self::OverLimit, Self::Evicted, Self::OverRate, Self::TimedOut, Self::Alpn, Self::Broken, Self::Unacceptable];

    const fn label(self) -> &'static str {
        match self {
            Self::OverLimit => "over_limit",
            Self::Evicted => "evicted",
            Self::OverRate => "over_rate",
            Self::TimedOut => "timed_out",
            Self::Alpn => "alpn",
            Self::Broken => "broken",
            Self::Unacceptable => "unacceptable",
        }
    }
}

/// The connections of one transport, counted by all runtimes of the node.
#[derive(Default, Debug)]
pub(crate) struct ConnectionCounters {
    /// Connections let in.
    pub(crate) accepted: Counter,
    /// Connections open now.
    pub(crate) open: Gauge,
    /// Handshakes that ended well.
    pub(crate) handshakes: Counter,
    /// Those among them that resumed a session.
    pub(crate) resumed: Counter,
    /// Clients that had to show that their address is theirs (RFC 9000 8.1.2).
    pub(crate) retries: Counter,
    /// Requests of HTTP without a DNS message, each answered with a status of 400 to 499.
    pub(crate) bad_requests: Counter,
    closed: [Counter; CloseReason::ALL.len()],
    failures: [Counter; HandshakeFailure::ALL.len()],
}

impl ConnectionCounters {
    pub(crate) fn record_close(&self, why: CloseReason) {
        self.closed[why as usize].one_shared();
    }

    pub(crate) fn handshake_failed(&self, why: HandshakeFailure) {
        self.failures[why as usize].one_shared();
    }

    #[cfg(test)]
    pub(crate) fn closed(&self, why: CloseReason) -> u64 {
        self.closed[why as usize].get()
    }
}

/// The connections of every transport that has any.
#[derive(Clone, Default, Debug)]
pub(crate) struct AllConnections([Arc<ConnectionCounters>; Transport::ALL.len()]);

impl AllConnections {
    pub(crate) fn of(&self, transport: Transport) -> &Arc<ConnectionCounters> {
        &self.0[transport as usize]
    }

    /// Writes their families. Datagrams have no connections.
    pub(crate) fn write(&self, page: &mut Page) {
        let all = || Transport::ALL.into_iter().filter(|transport| *transport != Transport::Udp);
        let encrypted = || all().filter(|transport| transport.is_encrypted());
        let mut family = |name: &str, kind, help: &str, of: &mut dyn Iterator<Item = Transport>, value: Value| {
            let mut family = page.family(name, kind, help);
            for transport in of {
                family.series(&[("transport", transport.label())], value(self.of(transport)));
            }
        };
        let (counter, gauge) = (Kind::Counter, Kind::Gauge);
        family("catamaran_connections_total", counter, "Connections let in.", &mut all(), |of| of.accepted.get());
        family("catamaran_connections_open", gauge, "Connections open now.", &mut all(), |of| of.open.get());
        let help = "Handshakes of TLS that ended well.";
        family("catamaran_handshakes_total", counter, help, &mut encrypted(), |of| of.handshakes.get());
        let help = "Handshakes of TLS that resumed a session.";
        family("catamaran_handshakes_resumed_total", counter, help, &mut encrypted(), |of| of.resumed.get());
        let help = "Clients that were asked to show that their address is theirs.";
        let mut doq = [Transport::Doq].into_iter();
        family("catamaran_quic_retries_total", counter, help, &mut doq, |of| of.retries.get());
        let help = "Requests without a DNS message, answered with a status of 400 to 499.";
        let mut doh = [Transport::Doh].into_iter();
        family("catamaran_http_bad_requests_total", counter, help, &mut doh, |of| of.bad_requests.get());
        let help = "Connections that the server ended or did not let in, by reason.";
        let mut family = page.family("catamaran_connections_closed_total", counter, help);
        for transport in all() {
            for why in CloseReason::ALL {
                let labels = [("transport", transport.label()), ("reason", why.label())];
                family.series(&labels, self.of(transport).closed[why as usize].get());
            }
        }
        let help = "Handshakes of TLS that came to nothing, by reason.";
        let mut family = page.family("catamaran_handshakes_failed_total", counter, help);
        for transport in encrypted() {
            for why in HandshakeFailure::ALL {
                let labels = [("transport", transport.label()), ("reason", why.label())];
                family.series(&labels, self.of(transport).failures[why as usize].get());
            }
        }
    }
}

/// Reads one number of a transport.
type Value = fn(&ConnectionCounters) -> u64;
