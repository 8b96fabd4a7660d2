//! Populations: many clients that ask each in its own way.
//!
//! ```text
//!   TOML --> file --> Population --> Crowd (one a worker) --> whose turn it is, and when
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
mod crowd;
mod tally;

pub use crowd::Crowd;
pub use draw::Distribution;
pub use file::{Active, Arrivals, Bursts, Cast, Connections, Group, Population, Ports, Queries, Rate};
pub use fit::fit;
pub use server::Server;
pub use tally::ClientTally;
