//! Every bound of this crate.

use std::time::Duration;

/// Longest name of a namespace or an interface: the limit of Linux for interfaces, without the final zero.
pub const NAME_BYTES_MAX: usize = 15;
/// Longest name of a net, a group or a machine. A namespace is called `NET.GROUP` or `NET.MACHINE`.
pub const NET_NAME_BYTES_MAX: usize = 7;
/// Groups of a net.
pub const GROUPS_MAX: usize = 64;
/// Machines of a net.
pub const MACHINES_MAX: usize = 64;
/// Networks of a group, IPv4 and IPv6 together.
pub const NETWORKS_MAX: usize = 16;
/// Longest round trip and longest jitter.
pub const RTT_MAX: Duration = Duration::from_secs(60);
/// Highest limited rate, in bits per second. It is more than a relay carries.
pub const RATE_BITS_MAX: u64 = 100_000_000_000;
/// Round trips in a list or a file.
pub const SAMPLES_MAX: usize = 1_000_000;
/// Size of a file that describes a net, or of a file of round trips.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Largest packet on a link.
pub const MTU: usize = 1_500;
/// Packets in one direction of a link: 15,000 per second with a one-way delay of 10 s.
pub const QUEUED_PACKETS_MAX: usize = 150_000;
/// Bytes in one direction of a link.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Free buffers that one direction of a link keeps.
pub const SPARE_BUFFERS_MAX: usize = 4_096;
/// Default queue of a limited rate, in bytes.
pub const QUEUE_BYTES: u64 = 256 << 10;
/// Longest queue of a limited rate, in bytes.
pub const QUEUE_BYTES_MAX: u64 = 32 << 20;
/// Packets read from one end before the other end has its turn.
pub const READ_BATCH: usize = 64;
/// Packets that wait in the kernel for the relay.
pub const KERNEL_QUEUE_PACKETS: usize = 10_000;
/// Longest time for which a relay polls instead of sleeping.
pub const SPIN_MAX: Duration = Duration::from_millis(1);

/// Records of nets read on this machine.
pub const RECORDS_MAX: usize = 1_024;
/// Lines of a record: its namespaces and its header.
pub const RECORD_LINES_MAX: usize = GROUPS_MAX + MACHINES_MAX + 16;
/// Time for a net to end after it was told to.
pub const DOWN_WITHIN: Duration = Duration::from_secs(20);

/// How long a datagram between hub and machine may take before it counts as dropped. It takes microseconds, unless the
/// machine is busy.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(300);
/// Addresses of a group that a check sends from.
pub const CHECKED_ADDRESSES_MAX: usize = 16;

/// Bytes read of a captured packet: the largest IPv4 packet.
pub const TAP_PACKET_BYTES_MAX: usize = 1 << 16;

/// Buffer for captured packets.
pub const TAP_BUFFER_BYTES: libc::c_int = 32 << 20;
