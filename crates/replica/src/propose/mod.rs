//! The leader's side: evaluates commands on the head and adds them to the log.
//!
//! ```text
//!   queue (shared by flows) --> evaluate (on the head) --> batch --> one proposal --> pending --> applied
//! ```
//!
//! The head is the applied state plus this leader's own proposals. Zones have versions, so proposals are pipelined:
//! each is evaluated on the outcome of the one before. A change of the settings is a barrier: nothing is evaluated
//! between its proposal and its application. So every command is evaluated and applied under the same settings.
//!
//! When leadership is lost, the head is dropped. When raft drops a proposal, the zones are rewound. Earlier proposals
//! still commit and are applied as on a follower, and evaluation continues after them.

// The sender of a command.
mod origin;
// Evaluated commands that are not applied yet.
mod head;
// From the head to one proposal.
mod batch;
// One command, evaluated on the head.
mod evaluate;
// What an evaluation reads and changes.
mod evaluator;
mod membership;
mod opened;
// The outcome of an UPDATE.
mod outcome;
// Waiting commands, and their order.
mod queue;
mod settings;

pub(crate) use evaluator::{Evaluator, Panicked, Step};
pub(crate) use head::Head;
pub(crate) use membership::{keeps_vote, next_conf_change};
pub(crate) use opened::OpenedKeys;
pub(crate) use origin::Origin;
