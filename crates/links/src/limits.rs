//! Every bound of this crate.

use std::time::Duration;

/// The longest name of a namespace or an interface: that of an interface in Linux, less its final zero.
pub const NAME_BYTES_MAX: usize = 15;
/// The longest name of a net, and of a group: with a dot between them they name a namespace.
pub const NET_NAME_BYTES_MAX: usize = 7;
/// Groups of clients of a net.
pub const GROUPS_MAX: usize = 64;
/// Networks of a group, each family counted.
pub const NETWORKS_MAX: usize = 16;
/// The longest round trip, and the longest jitter.
pub const RTT_MAX: Duration = Duration::from_secs(60);
/// The highest rate of a link that is limited, in bits a second: more than a relay carries.
pub const RATE_BITS_MAX: u64 = 100_000_000_000;
/// Round trips of a list, or of a file of them.
pub const SAMPLES_MAX: usize = 1_000_000;
/// Bytes of a file that describes a net, or of a file of round trips.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Bytes of a packet on a link.
pub const MTU: usize = 1_500;
/// Packets that one direction of a link holds: 30,000 a second with a round trip of 10 s.
pub const QUEUED_PACKETS_MAX: usize = 150_000;
/// Bytes that one direction of a link holds.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Buffers that one direction of a link keeps for the next packets.
pub const SPARE_BUFFERS_MAX: usize = 4_096;
/// Bytes of packets that wait for a limited rate, where nothing else is said.
pub const QUEUE_BYTES: u64 = 256 << 10;
/// The longest queue for a limited rate.
pub const QUEUE_BYTES_MAX: u64 = 32 << 20;
/// Packets that are read of one end before the other has its turn.
pub const READ_BATCH: usize = 64;
/// Packets that wait in the kernel for the relay.
pub const KERNEL_QUEUE_PACKETS: usize = 10_000;
/// The longest time that a relay looks for what is due instead of sleeping.
pub const SPIN_MAX: Duration = Duration::from_millis(1);

/// Records of nets on this machine that are looked at.
pub const RECORDS_MAX: usize = 1_024;
/// Lines of a record: no more than its namespaces and its head.
pub const RECORD_LINES_MAX: usize = 2 * GROUPS_MAX + 16;
/// How long a net that is told to go may take.
pub const DOWN_WITHIN: Duration = Duration::from_secs(20);

/// Addresses of a group that a check sends from.
pub const CHECKED_ADDRESSES_MAX: usize = 16;

/// Bytes of a packet that is looked at as it passes: all that IPv4 allows.
pub const TAP_PACKET_BYTES_MAX: usize = 1 << 16;

/// Bytes of packets that wait to be looked at.
pub const TAP_BUFFER_BYTES: libc::c_int = 32 << 20;
