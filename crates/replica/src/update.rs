//! An UPDATE (RFC 2136) on its way from bytes to the change it makes. Pure functions: the time comes in.
//!
//! ```text
//!   bytes --> authenticate (who) --> prescan (form) --> evaluate (outcome on one version of the zone) --> sign
//! ```
//!
//! `authenticate` and `sign` serve QUERY and AXFR too.

pub mod limits;

// Who sent it: TSIG.
mod authenticate;
mod keys;
mod mac;
mod name_table;
mod secret_hmac;
pub use authenticate::{Authenticated, TsigReject, authenticate, authenticate_bytes};
pub use keys::{KeyError, KeyTable, SecretId, TsigKey};
pub use name_table::NameTable;

// What it says.
mod prescan;
pub use prescan::{Parsed, Prerequisite, Step, prescan};

// What it does.
mod evaluate;
pub mod serial;
mod working;
pub use evaluate::{Evaluated, Refusal, evaluate, evaluate_within};
pub use working::{LimitReached, ZoneRead};

// What goes back.
mod sign;
pub use sign::{NoRoom, SequenceSigner, Signer};

// The other side, for tests and tools.
pub mod client;
