//! Bounds and times of a torture run.

use std::time::Duration;

/// Places for nodes: five members, and two that join while others leave.
pub(crate) const SLOTS: usize = 7;
/// Bytes of a node's disk. A node keeps two log segments of 16 MiB, and checkpoints.
pub(crate) const DISK_BYTES: u64 = 224 << 20;
/// Registers that all clients write.
pub(crate) const REGISTERS: usize = 24;
/// Events of one run that are kept.
pub(crate) const EVENTS_MAX: usize = 2_000_000;
/// Bytes of a response of the API.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 64 << 20;
/// Time after which a client sends the same update to another node.
pub(crate) const RETRY: Duration = Duration::from_millis(1200);
/// Time after which a client gives up an update: then its outcome is unknown.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(6);
/// Time in which a cluster without faults must agree.
pub(crate) const SETTLE: Duration = Duration::from_secs(90);
/// Time between two queries for the SOA of one node.
pub(crate) const SOA_PERIOD: Duration = Duration::from_millis(20);
/// Time that porcupine has for one register; more is a failure.
pub(crate) const CHECK_REGISTER_S: u64 = 60;
/// Time in which a command of the program must end.
pub(crate) const COMMAND_S: u64 = 45;
