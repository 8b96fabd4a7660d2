//! Work that is long and that nobody waits for in particular: it is done piece by piece, each when the machine has
//! nothing else to do. Where it always has, a piece is done now and then all the same.
//!
//! ```text
//!   a piece is done --> AwaitLeisure --> a thread that runs when no other wants to --> Leisure --> the next piece
//!                            '--------------> so much time --------------------------------^
//! ```

use crate::io::Output;
use crate::limits::LEISURE_WAIT_MS;
use crate::replica::Replica;

/// Whether a piece may be done.
#[derive(Debug)]
pub(crate) struct Leisure {
    is_there: bool,
    /// The shell was asked and has not answered.
    is_awaited: bool,
    /// When the last piece was done, in time lived through.
    spent_ms: u64,
}

impl Default for Leisure {
    /// The first piece waits for nothing: what is short is not held up.
    fn default() -> Self {
        Self { is_there: true, is_awaited: false, spent_ms: 0 }
    }
}

impl Replica {
    /// The machine has nothing else to do.
    pub(crate) fn handle_leisure(&mut self) {
        self.leisure.is_there = true;
        self.leisure.is_awaited = false;
    }

    /// Takes the leisure there is, if there is any and work for it, and asks for more: of each long work one piece may
    /// be done.
    pub(crate) fn take_leisure(&mut self) -> bool {
        if !self.leisure.is_there || !(self.has_chunks_to_propose() || self.has_checkpoint_to_write()) {
            return false;
        }
        self.leisure.is_there = false;
        self.leisure.spent_ms = self.lived_ms;
        if !core::mem::replace(&mut self.leisure.is_awaited, true) {
            self.out.push_back(Output::AwaitLeisure);
        }
        true
    }

    pub(crate) fn tick_leisure(&mut self) {
        self.leisure.is_there |= self.lived_ms - self.leisure.spent_ms >= LEISURE_WAIT_MS;
    }
}
