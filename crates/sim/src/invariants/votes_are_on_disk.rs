//! A vote is on stable storage before it leaves the member. After a power loss at that moment, the member does not vote
//! for another candidate in that term (Raft paper 5.2).
//!
//! Checked for each vote by opening the log on a copy of the disk.

use crate::disk::SimDisk;
use replica::io::NodeId;
use replica::log::{Log, LogConfig};

/// A member sends a vote for a candidate.
pub(crate) fn on_vote(
    id: NodeId,
    (term, candidate): (u64, NodeId),
    disk: &SimDisk,
    config: &LogConfig,
) -> Result<(), String> {
    let (log, _repairs) = Log::open(&disk.without_unsynced(), config.clone())
        .map_err(|error| format!("{id} sends a vote, but its log does not open after a crash: {error}"))?;
    let stored = log.hard_state();
    if stored.term > term || (stored.term, stored.vote) == (term, candidate) {
        return Ok(());
    }
    Err(format!(
        "{id} sends a vote for {candidate} in term {term}; on stable storage are term {} and vote {}",
        stored.term, stored.vote
    ))
}
