//! Networking shared by the clients and servers of the laboratory: batches of datagrams, streams with or without TLS,
//! framing, and socket options of Linux.
#![deny(unsafe_code)]

pub mod limits;

// Datagrams, many for each system call.
pub mod batch;
mod control;
// Streams.
mod framing;
mod link;
mod pipe;
// Counters, limits and options of the operating system.
pub mod system;

pub use batch::{Incoming, Outgoing};
pub use framing::{Framing, frame};
pub use link::{Link, ReadStatus};
pub use pipe::Pipe;
