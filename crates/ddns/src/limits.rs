//! Every bound of this crate.

/// Names that one process keeps.
pub const NAMES_MAX: usize = 64;
/// Names of the state file: those that are no longer configured stay, as long as there is room.
pub const SAVED_NAMES_MAX: usize = 2 * NAMES_MAX;
/// Servers of a zone.
pub const SERVERS_MAX: usize = 16;
/// Probes for the outside address.
pub const PROBES_MAX: usize = 16;
/// Interfaces that a name may list.
pub const INTERFACES_MAX: usize = 32;
/// Addresses of one RRset; of more, the lowest are published.
pub const ADDRESSES_MAX: usize = 16;
/// Addresses of this machine that are looked at.
pub const INTERFACE_ADDRESSES_MAX: usize = 4_096;
/// Bytes of the configuration.
pub const CONFIG_BYTES_MAX: u64 = 256 << 10;
/// Bytes of the state file.
pub const STATE_BYTES_MAX: u64 = 1 << 20;
/// Largest TTL (RFC 2181 8).
pub const TTL_MAX: u32 = i32::MAX as u32;

/// Updates whose outcome is not known that are remembered for each name.
pub const ATTEMPTS_MAX: usize = 16;
/// Time after which a signed update can have no more effect, seconds: its fudge of 300, and as much for clocks that
/// differ (RFC 8945 5.2.3).
pub const ATTEMPT_LIFE_S: u64 = 600;
/// Time after which an update whose outcome nobody heard is taken to have had its effect, or none: a server waits 2.5 s
/// for a leader, and the rest is the network's.
pub const LATE_MS: u64 = 10_000;
/// The same since the update was signed, seconds, for what another process sent: before the last copy left, and while
/// the server was looked at, all addresses of a server may have been tried.
pub const LATE_SIGNED_S: u64 = 120;
/// Updates of a name that others come in between of before it rests.
pub const RACES_MAX: u32 = 3;

/// Time that addresses must have been still before they are acted on.
pub const SETTLE_MS: u64 = 200;
/// The same when they never are.
pub const SETTLE_MS_MAX: u64 = 2_000;
/// Updates of one name that may go at once.
pub const UPDATES_BURST: u32 = 4;
/// After those, one in this time.
pub const UPDATE_PERIOD_MS: u64 = 5_000;
/// Longest rest after the first failure; doubles with each.
pub const REST_MS_MIN: u64 = 1_000;
/// Longest rest.
pub const REST_MS_MAX: u64 = 600_000;
/// Rest of a name that is another's.
pub const CONFLICT_REST_MS: u64 = 600_000;
/// Time for which a server that failed is asked after the others.
pub const SERVER_REST_MS: u64 = 300_000;

/// Rounds of probes that may go at once, for each family.
pub const ROUNDS_BURST: u32 = 3;
/// After those, one in this time.
pub const ROUND_PERIOD_MS: u64 = 10_000;

/// Times that the same bytes go to a server over UDP.
pub const UDP_TRIES_MAX: u32 = 3;
/// Time between them, and the time that the last one has.
pub const UDP_TRY_MS: u64 = 1_000;
/// Time that a server has over TCP.
pub const TCP_MS: u64 = 5_000;
/// Bytes of a request from which on it goes over TCP (DNS flag day 2020).
pub const UDP_REQUEST_BYTES_MAX: usize = 1_232;
/// Addresses of one server that are tried.
pub const SERVER_ADDRESSES_MAX: usize = 4;
/// Datagrams that are looked at while one is waited for: strangers' are thrown away.
pub const DATAGRAMS_MAX: u32 = 64;
/// Bytes of any message.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Time that a probe has.
pub const PROBE_MS: u64 = 3_000;
/// Bytes of a page that a probe reads.
pub const PAGE_BYTES_MAX: u64 = 16 << 10;
/// Bytes of the head of a probe's answer over HTTP.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Characters that are shown of where a page is instead.
pub const LOCATION_SHOWN_MAX: usize = 200;
/// Bytes of certificates of authorities.
pub const AUTHORITIES_BYTES_MAX: u64 = 4 << 20;

/// Bytes of one message of netlink; the kernel makes none larger for whom reads so much (netlink(7)).
pub const NETLINK_BYTES: usize = 64 << 10;
/// Messages of one dump.
pub const NETLINK_MESSAGES_MAX: usize = 1_024;
/// Dumps that changed while they were made, after which what the last one said is taken.
pub const NETLINK_DUMPS_MAX: u32 = 5;
/// Changes that come within this time are one: the kernel tells several for each address.
pub const NETLINK_GATHER_MS: u64 = 20;
/// Addresses are looked at so often, also when the kernel says nothing.
pub const INTERFACE_LOOK_MS: u64 = 60_000;
/// Events that wait for the machine.
pub const EVENTS_MAX: usize = 256;
/// Time that `--once` has.
pub const ONCE_MS: u64 = 120_000;
/// Connections for metrics that are served at once, and bytes and time that each has.
pub const METRICS_REQUEST_BYTES_MAX: usize = 4 << 10;
/// Time that a client of the metrics has.
pub const METRICS_MS: u64 = 2_000;
