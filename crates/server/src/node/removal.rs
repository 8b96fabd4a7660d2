//! The end of a node that was removed from its cluster: it stops answering clients at once and ends when the others
//! need it no more, or after a while.

use crate::problem::{Exit, Problem};
use crate::stop::Stop;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How often a node looks whether it was removed.
const LOOK_MS: u64 = 500;
/// How long a removed node stays for the majority that takes it out of raft.
const LEAVE_MS_MAX: u64 = 10_000;
/// How long it goes on then: who removed it through its own API waits for the answer.
const ANSWER_MS: u64 = 500;

/// Whether the node was removed: written by the replica thread, read by the main thread and the API.
#[derive(Default, Debug)]
pub(crate) struct Removal(AtomicU8);

const DECIDED: u8 = 1;
const OUT: u8 = 2;

impl Removal {
    /// It was; `is_out` once nobody counts it any more.
    pub(super) fn set(&self, is_out: bool) {
        self.0.store(if is_out { OUT } else { DECIDED }, Ordering::Release);
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.0.load(Ordering::Acquire) >= DECIDED
    }

    fn is_out(&self) -> bool {
        self.0.load(Ordering::Acquire) == OUT
    }

    /// Waits for the order to stop, or until the node was removed and may go.
    pub(super) fn wait(&self, stop: &Stop) {
        while !stop.wait(Duration::from_millis(LOOK_MS)) {
            if self.is_removed() {
                let until = Instant::now() + Duration::from_millis(LEAVE_MS_MAX);
                while !self.is_out() && Instant::now() < until && !stop.wait(Duration::from_millis(10)) {}
                stop.wait(Duration::from_millis(ANSWER_MS));
                return;
            }
        }
    }

    /// What the node ends with if it was removed.
    pub(super) fn problem(&self, node: u32) -> Result<(), Problem> {
        if !self.is_removed() {
            return Ok(());
        }
        Err(Problem::new(
            Exit::Removed,
            format!("node {node} was removed from the cluster"),
            "`catamaran cluster remove` or `replace` took it out; it answers nobody any more, and its directory is of \
             no more use",
        )
        .hint("to have the machine back in the cluster, `catamaran join` it in a new directory"))
    }
}
