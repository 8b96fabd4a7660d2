//! Data that the replica thread publishes. Other threads read it without waiting for the replica thread.

// The zones.
pub(crate) mod readers;
// Which zones may be answered.
pub(crate) mod serving;
// Keys and grants.
pub(crate) mod rights;
// Addresses of members, besides those in the state.
pub(crate) mod address_hints;
// The memory use of the zones.
pub(crate) mod zone_memory;
