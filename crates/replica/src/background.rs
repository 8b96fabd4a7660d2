//! Work that is long and that nobody waits for in particular: it is done piece by piece, each when the machine has
//! nothing else to do. Where it always has, a piece is done now and then all the same.
//!
//! ```text
//!   a piece is done --> AwaitIdle --> a thread that runs when no other wants to --> IdleTime --> the next piece
//!                            '--------------> so much time --------------------------------^
//! ```

use crate::io::Output;
use crate::limits::BACKGROUND_WAIT_MS;
use crate::replica::Replica;

/// Whether a piece may be done.
#[derive(Debug)]
pub(crate) struct IdleTime {
    is_there: bool,
    /// The shell was asked and has not answered.
    is_awaited: bool,
    /// When the last piece was done, in time lived through.
    spent_ms: u64,
}

impl Default for IdleTime {
    /// The first piece waits for nothing: what is short is not held up.
    fn default() -> Self {
        Self { is_there: true, is_awaited: false, spent_ms: 0 }
    }
}

impl Replica {
    /// The machine has nothing else to do.
    pub(crate) fn handle_idle(&mut self) {
        self.background.is_there = true;
        self.background.is_awaited = false;
    }

    /// Takes the leisure there is, if there is any and work for it, and asks for more: of each long work one piece may
    /// be done.
    pub(crate) fn start_background_step(&mut self) -> bool {
        if !self.background.is_there || !(self.has_chunks_to_propose() || self.has_checkpoint_to_write()) {
            return false;
        }
        self.background.is_there = false;
        self.background.spent_ms = self.running_ms;
        if !core::mem::replace(&mut self.background.is_awaited, true) {
            self.out.push_back(Output::AwaitIdle);
        }
        true
    }

    pub(crate) fn tick_background(&mut self) {
        self.background.is_there |= self.running_ms - self.background.spent_ms >= BACKGROUND_WAIT_MS;
    }
}
