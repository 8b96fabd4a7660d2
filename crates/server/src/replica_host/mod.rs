//! The host of the replica: its thread, its disk, its clocks, and the handle that other threads send events to.

// The replica thread, its events, the handle that sends them, and the state that it shares with other threads.
pub(crate) mod event;
pub(crate) mod handle;
pub(crate) mod replica_thread;
pub(crate) mod shared;
pub(crate) mod tick_schedule;
// The connections to peers that the thread sends on.
pub(crate) mod peer_links;
// Failed commands, in words.
pub(crate) mod command_failed;
// Opening the replica, and the identity of its node.
pub(crate) mod data_key;
pub(crate) mod first_state;
pub(crate) mod identity;
mod log_config;
pub(crate) mod members_file;
pub(crate) mod open;
// Why the node exits: it was removed, or its data cannot be trusted.
pub(crate) mod fatal;
pub(crate) mod removal;
pub(crate) mod superseded;
pub(crate) mod suspected_loss;
// The disk.
pub(crate) mod disk;
pub(crate) mod room;
pub(crate) mod scrub;
// Background work on an idle machine.
pub(crate) mod background;
pub(crate) mod idle;
// Time: expiry of zones, the cluster's time, and machines reset to a snapshot.
pub(crate) mod cluster_clock;
pub(crate) mod expiry;
pub(crate) mod generation;
