//! Network namespaces and the links between them: machines of their own, as far as a network goes.
//!
//! It knows no DNS. What it makes goes with it, in order, when the values that stand for it are dropped.

pub mod limits;

mod ip;
mod namespace;
mod system;

pub use ip::ip;
pub use namespace::Namespace;
