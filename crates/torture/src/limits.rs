//! Limits and timeouts of a torture run.

use std::time::Duration;

/// Slots for nodes: five members, and two that join while others leave.
pub(crate) const SLOTS: usize = 7;
/// Bytes of a node's disk. A node keeps two log segments of 16 MiB, and checkpoints.
pub(crate) const DISK_BYTES: u64 = 224 << 20;
/// Number of registers that all clients write.
pub(crate) const REGISTERS: usize = 24;
/// Maximum number of events to keep in one run.
pub(crate) const EVENTS_MAX: usize = 2_000_000;
/// Maximum size of an API response in bytes.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 64 << 20;
/// Time after which a client sends the same update to another node.
pub(crate) const RETRY: Duration = Duration::from_millis(1200);
/// Time after which a client gives up an update. Its outcome is then unknown.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(6);
/// Time limit for a cluster without faults to agree.
pub(crate) const SETTLE: Duration = Duration::from_secs(90);
/// Time between two queries for the SOA of one node.
pub(crate) const SOA_PERIOD: Duration = Duration::from_millis(20);
/// Porcupine's time limit for one register, in seconds. A timeout is a failure.
pub(crate) const CHECK_REGISTER_S: u64 = 60;
/// Time limit of a command of the program, in seconds.
pub(crate) const COMMAND_S: u64 = 45;
