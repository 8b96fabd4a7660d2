//! Network namespaces, and links between them. Each namespace acts as a machine of its own.
//!
//! Knows nothing about DNS. Dropping a value removes what it created.
//!
//! ```text
//!   plan --> net: record, namespaces, tun --> relay (delay: when each packet leaves)
//!                                        \--> netem, if the kernel has it
//!   net --> check: measures what the links do
//!   net --> machine: a namespace for a server, which can be cut off and healed
//!   pair: two machines; one has every address
//! ```

pub mod limits;

// What is asked for.
pub mod delay;
pub mod plan;
mod random;
pub mod units;

// What it is made of.
mod ip;
mod namespace;
mod netem;
mod record;
mod system;
mod tun;

// Carrying packets.
mod quantiles;
mod relay;

// What passes interfaces.
mod tap;

// All of it, and whether it does what it should.
pub mod check;
pub mod machine;
mod net;
pub mod pair;

pub use ip::ip;
pub use machine::{Cut, Machine};
pub use namespace::{Namespace, start_inside};
pub use net::{Net, end_with_this_thread};
pub use pair::Pair;
pub use quantiles::Quantiles;
pub use record::{RecordedNet, clean, log_of};
pub use relay::{LineStatistics, LinkStatistics};
pub use tap::{Packet, Tap};
