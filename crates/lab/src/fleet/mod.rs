//! One run on several machines.
//!
//! ```text
//!   controller                         NATS                              agent (one a host)
//!   discovery -------------------------core-----------------------------> agent info
//!   assignment (options, its part) ----core-----------------------------> accepted
//!   input --> chunks --> stream (memory, bounded) --> chunks (pulled) --> spool --> first reading --> ready
//!   clock, several times --------------core-----------------------------> its time
//!   start, at a time on its clock -----core-----------------------------> run: nothing is fetched or acknowledged
//!   collect ---------------------------core-----------------------------> run folder --> chunks --> stream
//!   run folder of each <-- chunks (pulled) <-- stream;  report::merge
//! ```
//!
//! Each agent and the controller send a heartbeat twice a second. A side without heartbeats for too long treats the
//! other as lost. This module has what both ends share; the ends themselves are in the program.

// What is said.
mod message;
pub use message::{
    AgentInfo, Assignment, Command, Content, Envelope, Heartbeat, InputFile, Kind, Phase, Reply, is_run,
};
// A file on its way: cut, put together; a folder as a file.
mod bundle;
mod chunks;
pub use bundle::{pack, unpack};
pub use chunks::{ChunkError, ChunkReader, ChunkWriter};
// How far a clock is from ours.
mod clock_offset;
pub use clock_offset::{ClockOffset, ClockSample, wall_ns};
// What carries it.
mod bus;
pub use bus::{Access, Bus, BusError, next, subjects};
