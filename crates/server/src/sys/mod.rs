//! System calls: clocks, priorities, limits, memory, disks.

// Time.
pub(crate) mod clock;
// The process and its threads.
pub(crate) mod open_files;
pub(crate) mod priority;
// Disks.
pub(crate) mod block_size;
pub(crate) mod direct;
pub(crate) mod disk;
// Sockets, and the events of the kernel.
pub(crate) mod socket;
// Memory.
pub(crate) mod memory;
