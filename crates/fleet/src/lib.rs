//! What the controller and the agents of a run on many hosts share: messages, files and clock offsets, over NATS.
//!
//! ```text
//!   controller                         NATS                              agent (one per host)
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
//! other as lost. The two ends are `controller` and `commands/agent` of the crate `lab`.

#![forbid(unsafe_code)]

pub mod limits;

// Messages.
mod message;
pub use message::{
    AgentInfo, Assignment, Command, Content, Envelope, Heartbeat, InputFile, Kind, Phase, Reply, is_run,
};
// File transfer: chunks, and folders packed as files.
mod bundle;
mod chunks;
pub use bundle::{pack, unpack};
pub use chunks::{ChunkError, ChunkReader, ChunkWriter};
// Clock offsets.
mod clock_offset;
pub use clock_offset::{ClockOffset, ClockSample, wall_ns};
// The connection to NATS.
mod bus;
pub use bus::{Access, Bus, BusError, next, subjects};
