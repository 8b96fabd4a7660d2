//! What an evaluation reads and changes, and its result.

use super::head::Head;
use super::opened::OpenedKeys;
use super::origin::Origin;
use crate::command::Answer;
use crate::context::Counters;
use crate::entry::UpdateEntry;
use crate::io::NodeId;
use crate::machine::Machine;
use crate::memory::Memory;
use crate::progress::Progress;
use crate::raft::Driver;
use crate::rotation::Rotation;
use crate::secrets::DataKey;

/// The result of evaluating a command.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing goes into the log.
    Answer(Answer),
    /// It was added to the batch.
    Batched,
    /// It is already in flight. Its origin is answered once that is in the log.
    Attached,
    /// The memory of the zones is full: the head must be dropped.
    Full,
    /// Applying it panicked: this leader must evaluate nothing more.
    Panicked(Panicked),
}

/// The command on which a leader's zones panicked.
#[derive(Debug)]
pub(crate) enum Panicked {
    /// An UPDATE: the entry that replaces it, and the origins that wait for it.
    Update(Box<UpdateEntry>, Vec<Origin>),
    /// Anything else.
    Command(Origin),
}

/// What an evaluation reads and changes. It changes the head, and the zones ahead of the log.
pub(crate) struct Evaluator<'r> {
    pub(crate) head: &'r mut Head,
    pub(crate) machine: &'r mut Machine,
    pub(crate) driver: &'r Driver,
    pub(crate) progress: &'r Progress,
    pub(crate) rotation: &'r mut Rotation,
    pub(crate) opened: &'r mut OpenedKeys,
    pub(crate) data_key: &'r DataKey,
    pub(crate) memory: &'r Memory,
    pub(crate) counters: &'r mut Counters,
    pub(crate) key_growth_max: i64,
    pub(crate) now_ms: u64,
    pub(crate) group: u16,
    pub(crate) wall_ms: u64,
    /// The member to which the caller must transfer the leadership.
    pub(crate) transfer_to: Option<NodeId>,
}
