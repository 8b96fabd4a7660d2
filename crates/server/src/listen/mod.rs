//! What clients talk to.

// Getting sockets.
pub(crate) mod sockets;
// UDP: batches of datagrams.
pub(crate) mod batch;
