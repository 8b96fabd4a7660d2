//! All limits of this crate.

/// Names in a configuration.
pub const NAMES_MAX: usize = 64;
/// Names in the state file. Names that are no longer configured stay as long as there is room.
pub const SAVED_NAMES_MAX: usize = 2 * NAMES_MAX;
/// Servers of a zone.
pub const SERVERS_MAX: usize = 16;
/// Probes for the public address.
pub const PROBES_MAX: usize = 16;
/// Interfaces that a name may list.
pub const INTERFACES_MAX: usize = 32;
/// Addresses of one RRset. If there are more, the lowest are published.
pub const ADDRESSES_MAX: usize = 16;
/// Addresses of this machine that are considered.
pub const INTERFACE_ADDRESSES_MAX: usize = 4_096;
/// Bytes of the configuration.
pub const CONFIG_BYTES_MAX: u64 = 256 << 10;
/// Bytes of the state file.
pub const STATE_BYTES_MAX: u64 = 1 << 20;
/// Maximum TTL (RFC 2181 8).
pub const TTL_MAX: u32 = i32::MAX as u32;

/// Updates with an unknown outcome that are saved for each name.
pub const ATTEMPTS_MAX: usize = 16;
/// Time after which a signed update can no longer take effect, in seconds: the fudge of 300, and the same again for
/// clocks that differ (RFC 8945 5.2.3).
pub const ATTEMPT_LIFE_S: u64 = 600;
/// Time after which an update with an unknown outcome is no longer applied: 2.5 s while a server waits for a leader,
/// and the rest for the network.
pub const LATE_MS: u64 = 10_000;
/// The same for an update of an earlier process, in seconds since it was signed. That process may have tried all
/// addresses of a server before it sent the last copy.
pub const LATE_SIGNED_S: u64 = 120;
/// Failed prerequisites of a name before it pauses.
pub const RACES_MAX: u32 = 3;

/// Time without changes after which new addresses are used.
pub const SETTLE_MS: u64 = 200;
/// The same for addresses that keep changing.
pub const SETTLE_MS_MAX: u64 = 2_000;
/// Burst of updates of one name.
pub const UPDATES_BURST: u32 = 4;
/// After the burst, one update per this time.
pub const UPDATE_PERIOD_MS: u64 = 5_000;
/// Maximum delay after the first failure. It doubles with each failure.
pub const RETRY_MS_MIN: u64 = 1_000;
/// Upper bound of that delay.
pub const RETRY_MS_MAX: u64 = 600_000;
/// Pause after foreign records were found.
pub const CONFLICT_PAUSE_MS: u64 = 600_000;
/// Time for which a failed server comes last.
pub const SERVER_PAUSE_MS: u64 = 300_000;

/// Burst of probe rounds, for each family.
pub const ROUNDS_BURST: u32 = 3;
/// After the burst, one round per this time.
pub const ROUND_PERIOD_MS: u64 = 10_000;

/// Attempts over UDP per server address, with the same bytes.
pub const UDP_TRIES_MAX: u32 = 3;
/// Time limit of each attempt.
pub const UDP_TRY_MS: u64 = 1_000;
/// Time limit of a server over TCP.
pub const TCP_MS: u64 = 5_000;
/// Maximum size of a request over UDP. Larger ones use TCP (DNS flag day 2020).
pub const UDP_REQUEST_BYTES_MAX: usize = 1_232;
/// Addresses of one server that are tried.
pub const SERVER_ADDRESSES_MAX: usize = 4;
/// Datagrams that are read while waiting for one. Invalid ones are ignored.
pub const DATAGRAMS_MAX: u32 = 64;
/// Bytes of any message.
pub const MESSAGE_BYTES_MAX: usize = 65_535;
/// Time limit of a probe.
pub const PROBE_MS: u64 = 3_000;
/// Bytes of a page that a probe reads.
pub const PAGE_BYTES_MAX: u64 = 16 << 10;
/// Bytes of the head of a probe's HTTP response.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// Characters of a redirect target that are shown.
pub const LOCATION_SHOWN_MAX: usize = 200;
/// Bytes of CA certificates.
pub const AUTHORITIES_BYTES_MAX: u64 = 4 << 20;

/// Buffer size for netlink messages. The kernel never sends more than the reader's buffer (netlink(7)).
pub const NETLINK_BYTES: usize = 64 << 10;
/// Messages of one dump.
pub const NETLINK_MESSAGES_MAX: usize = 1_024;
/// Attempts of a dump that is interrupted by a change. The last one is used as it is.
pub const NETLINK_DUMPS_MAX: u32 = 5;
/// Time in which changes are gathered: the kernel sends several for each address.
pub const NETLINK_GATHER_MS: u64 = 20;
/// Interval of listing addresses without notifications.
pub const INTERFACE_POLL_MS: u64 = 60_000;
/// Capacity of the event queue.
pub const EVENTS_MAX: usize = 256;
/// Time limit of `--once`.
pub const ONCE_MS: u64 = 120_000;
/// Bytes of a request for metrics.
pub const METRICS_REQUEST_BYTES_MAX: usize = 4 << 10;
/// Time limit of a client of the metrics.
pub const METRICS_MS: u64 = 2_000;
