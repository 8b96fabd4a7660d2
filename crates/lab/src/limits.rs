//! Every bound of this crate.

/// Octets of a name (RFC 1035 2.3.4).
pub const NAME_OCTETS_MAX: usize = 255;
/// Labels and pointers that are followed in one name.
pub const POINTER_COUNT_MAX: usize = 256;
/// Messages that wait for an answer of one server.
pub const IN_FLIGHT_MAX: usize = 256;
/// TCP connections to one server at once.
pub const CONNECTIONS_MAX: usize = 4;

/// Octets of a query of the load engine: more than any real one, with room for padding.
pub const QUERY_OCTETS_MAX: usize = 4_096;
/// Octets of a datagram that are kept; what matching needs lies far in front.
pub const RESPONSE_OCTETS_KEPT: usize = 2_048;
/// Messages of one system call.
pub const BATCH_COUNT: usize = 64;
/// Send and receive buffer asked for each socket.
pub const SOCKET_BUFFER_OCTETS: usize = 4 << 20;
/// Reports of workers that wait for the collector.
pub const REPORTS_WAITING_MAX: usize = 64;
/// The longest latency told apart: 100 minutes.
pub const LATENCY_MAX_NS: u64 = 6_000_000_000_000;
/// Queries of a connection that are remembered after their time-out, so that late answers are known.
pub const CONNECTION_LATE_COUNT_MAX: usize = 1_024;
/// Octets of one read from a connection.
pub const STREAM_READ_OCTETS: usize = 64 << 10;
/// Octets that wait for the kernel on one connection; with more, nothing more is sent on it.
pub const STREAM_UNSENT_OCTETS_MAX: usize = 256 << 10;
/// Octets of a message after two octets of length (RFC 1035 4.2.2).
pub const STREAM_MESSAGE_OCTETS_MAX: usize = 65_535;
/// TLS sessions that are kept for resumption, for each worker.
pub const TLS_TICKETS_MAX: usize = 32_768;
/// Events of one look at the connections.
pub const EVENTS_MAX: usize = 1_024;
/// Queries that wait on one connection, unless the command line says otherwise.
pub const CONNECTION_IN_FLIGHT_DEFAULT: usize = 1_000;
/// Groups of clients in a population.
pub const GROUPS_MAX: usize = 1_000;
/// Clients of a population.
pub const CLIENTS_MAX: usize = 10_000_000;
