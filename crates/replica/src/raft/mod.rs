//! Raft with its contract (`RawNode` of raft 0.7): entries are written asynchronously, messages that promise
//! something are sent after that is on disk, and timeouts are drawn from a seed.
//!
//! ```text
//!   step / propose / tick --> Driver::ready --> messages, entries to apply, one record for the log
//!   Persisted             --> Driver::persisted --> messages that waited
//! ```

mod conf_change;
mod driver;
mod guard;
mod ready;
mod storage;

pub(crate) use conf_change::{ConfChange, ConfTracker, decode_conf_change};
#[cfg(test)]
use driver::ProposeError;
pub(crate) use driver::{Driver, is_conf_change};
pub(crate) use guard::{Contradiction, Guard};
pub(crate) use storage::{FetchWanted, LogStorage};

#[cfg(test)]
mod tests;
