//! Populations: many clients that ask each in its own way.
//!
//! ```text
//!   TOML --> file --> Population --> ClientScheduler (one a worker) --> whose turn it is, and when
//!   trace --> fit ----^
//! ```

// The text.
mod built_in;
mod file;
mod known;
mod server;
// What clients differ in.
mod draw;
// Out of a trace.
mod fit;
mod names;
// Clients of one worker while the run goes on, and what each saw.
mod client_scheduler;
mod tally;

pub use client_scheduler::ClientScheduler;
pub use draw::Distribution;
pub use file::{Active, Arrivals, Bursts, Clients, Connections, Group, Population, Ports, Queries, Rate};
pub use fit::fit;
pub use server::Server;
pub use tally::ClientTally;
