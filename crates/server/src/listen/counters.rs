//! Counters of the listeners.

use super::Transport;
use crate::metrics::{Counter, Gauge};
use metrics_text::{Kind, Page};
use std::sync::Arc;

/// The counters of one listener thread.
#[derive(Default, Debug)]
pub(crate) struct ListenCounters {
    /// Datagrams that the kernel rejected.
    pub(crate) udp_not_sent: Counter,
    /// Panics that were caught; each is a bug.
    pub(crate) panics: Counter,
}

/// Why the server closed or refused a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CloseReason {
    /// Refused: too many connections, of the node or of the client.
    OverLimit,
    /// All slots were in use, and a client with fewer got its slot.
    Evicted,
    /// Idle for too long (RFC 7766 6.2.3).
    Idle,
    /// The client does not read; or, over HTTPS or QUIC, does not finish a query.
    SlowReader,
    /// The memory of all connections is used up.
    Memory,
    /// The client broke a rule of the transport.
    Protocol,
    /// The client resets most of its requests, or sends empty frames.
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

/// Why a TLS or QUIC handshake failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandshakeFailure {
    /// Too many in progress, of the node or of the client.
    OverLimit,
    /// All slots were in use, and a client with fewer got its slot.
    Evicted,
    /// The client is over its rate.
    OverRate,
    /// It took too long.
    TimedOut,
    /// The client did not offer this protocol.
    Alpn,
    /// The client aborted it.
    Broken,
    /// No common version, cipher or group, or the client does not speak TLS.
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
    /// Accepted connections.
    pub(crate) accepted: Counter,
    /// Connections open now.
    pub(crate) open: Gauge,
    /// Successful handshakes.
    pub(crate) handshakes: Counter,
    /// Handshakes that resumed a session.
    pub(crate) resumed: Counter,
    /// Clients that had to validate their address (RFC 9000 8.1.2).
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
        family("catamaran_connections_total", counter, "Accepted connections.", &mut all(), |of| of.accepted.get());
        family("catamaran_connections_open", gauge, "Connections open now.", &mut all(), |of| of.open.get());
        let help = "Successful TLS handshakes.";
        family("catamaran_handshakes_total", counter, help, &mut encrypted(), |of| of.handshakes.get());
        let help = "TLS handshakes that resumed a session.";
        family("catamaran_handshakes_resumed_total", counter, help, &mut encrypted(), |of| of.resumed.get());
        let help = "QUIC clients that had to validate their address.";
        let mut doq = [Transport::Doq].into_iter();
        family("catamaran_quic_retries_total", counter, help, &mut doq, |of| of.retries.get());
        let help = "Requests without a DNS message, answered with a status of 400 to 499.";
        let mut doh = [Transport::Doh].into_iter();
        family("catamaran_http_bad_requests_total", counter, help, &mut doh, |of| of.bad_requests.get());
        let help = "Connections that the server closed or refused, by reason.";
        let mut family = page.family("catamaran_connections_closed_total", counter, help);
        for transport in all() {
            for why in CloseReason::ALL {
                let labels = [("transport", transport.label()), ("reason", why.label())];
                family.series(&labels, self.of(transport).closed[why as usize].get());
            }
        }
        let help = "Failed TLS handshakes, by reason.";
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
