//! Network namespaces and the links between them: machines of their own, as far as a network goes.
//!
//! It knows no DNS. What it makes goes with it, in order, when the values that stand for it are dropped.
//!
//! ```text
//!   plan --> net: record, namespaces, tun --> relay (delay: what becomes of a packet, and when)
//!                                        \--> netem, where the kernel has it
//!   net --> check: what the links do, measured through them
//!   pair: two machines, one of which has every address there is
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
mod net;
pub mod pair;

pub use ip::ip;
pub use namespace::Namespace;
pub use net::{Net, end_with_me};
pub use pair::Pair;
pub use quantiles::Quantiles;
pub use record::{Recorded, clean, log_of};
pub use relay::{LineStatistics, LinkStatistics};
pub use tap::{Packet, Tap};
