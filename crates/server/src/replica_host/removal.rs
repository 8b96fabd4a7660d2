//! The exit of a node that was removed from its cluster. It stops answering clients at once, and exits when the others
//! no longer need it, or after a time limit.

use process::problem::{Exit, Problem};
use process::stop::Stop;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Interval between checks whether the node was removed.
const LOOK_MS: u64 = 500;
/// Time limit for the majority to remove the node from raft.
const LEAVE_MS_MAX: u64 = 10_000;
/// Time for the API to answer the client that removed this node.
const ANSWER_MS: u64 = 500;

/// Whether the node was removed: written by the replica thread, read by the main thread and the API.
#[derive(Default, Debug)]
pub(crate) struct Removal(AtomicU8);

const DECIDED: u8 = 1;
const OUT: u8 = 2;

impl Removal {
    /// Marks the node as removed; `is_out` once raft no longer counts it.
    pub(crate) fn set(&self, is_out: bool) {
        self.0.store(if is_out { OUT } else { DECIDED }, Ordering::Release);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.0.load(Ordering::Acquire) >= DECIDED
    }

    fn is_out(&self) -> bool {
        self.0.load(Ordering::Acquire) == OUT
    }

    /// Waits for a stop, or until the node was removed and may exit.
    pub(crate) fn wait(&self, stop: &Stop) {
        while !stop.wait(Duration::from_millis(LOOK_MS)) {
            if self.is_removed() {
                let until = Instant::now() + Duration::from_millis(LEAVE_MS_MAX);
                while !self.is_out() && Instant::now() < until && !stop.wait(Duration::from_millis(10)) {}
                stop.wait(Duration::from_millis(ANSWER_MS));
                return;
            }
        }
    }

    /// The error that the node exits with if it was removed.
    pub(crate) fn problem(&self, node: u32) -> Result<(), Problem> {
        if !self.is_removed() {
            return Ok(());
        }
        Err(Problem::new(
            Exit::Removed,
            format!("node {node} was removed from the cluster"),
            "`catamaran cluster remove` or `replace` removed it; it stopped answering, and its directory is no \
             longer needed",
        )
        .hint("to add this machine to the cluster again, run `catamaran join` with a new directory"))
    }
}
