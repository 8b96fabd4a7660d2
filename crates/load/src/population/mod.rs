//! Populations: many clients, each with its own behavior.
//!
//! ```text
//!    TOML --> file --> Population --> ClientScheduler (one per worker) --> next client and time
//!    trace --> fit ----^
//! ```

// Population files.
mod built_in;
mod file;
mod known;
mod server;
// Random properties of clients.
mod draw;
// Populations from traces.
mod capture;
mod fit;
mod names;
// The clients of one worker during a run, and their results.
mod client_scheduler;
mod tally;
// What the engine sees of them.
mod traffic;

pub use capture::{Capture, DNS_PORT, Observed, read_capture};
pub use client_scheduler::ClientScheduler;
pub use draw::Distribution;
pub use file::{Active, Arrivals, Bursts, Clients, Connections, Group, Population, Ports, Queries, Rate};
pub use fit::fit;
pub use server::Server;
pub use traffic::PopulationTraffic;
