//! Background work: imports and checkpoints run in small steps, each when the machine is idle. On a busy machine a step
//! runs after [`BACKGROUND_WAIT_MS`] anyway.
//!
//! ```text
//!   a step is done --> AwaitIdle --> a thread of the lowest priority runs --> Idle --> the next step
//!                          '-------------> BACKGROUND_WAIT_MS ------------------^
//! ```

use crate::io::Output;
use crate::limits::BACKGROUND_WAIT_MS;
use crate::replica::Replica;

/// Whether the next background step may run.
#[derive(Debug)]
pub(crate) struct IdleTime {
    is_idle: bool,
    /// The shell was asked and has not answered.
    is_awaited: bool,
    /// When the last step ran, in this process's running time.
    last_step_ms: u64,
}

impl Default for IdleTime {
    /// The first step runs immediately, so short work is not delayed.
    fn default() -> Self {
        Self { is_idle: true, is_awaited: false, last_step_ms: 0 }
    }
}

impl Replica {
    /// The machine is idle.
    pub(crate) fn handle_idle(&mut self) {
        self.background.is_idle = true;
        self.background.is_awaited = false;
    }

    /// Starts a background step if the machine is idle and there is work, and asks the shell to report the next idle
    /// time. Returns whether each kind of background work may run one step.
    pub(crate) fn start_background_step(&mut self) -> bool {
        if !self.background.is_idle || !(self.has_chunks_to_propose() || self.has_checkpoint_to_write()) {
            return false;
        }
        self.background.is_idle = false;
        self.background.last_step_ms = self.running_ms;
        if !core::mem::replace(&mut self.background.is_awaited, true) {
            self.out.push_back(Output::AwaitIdle);
        }
        true
    }

    pub(crate) fn tick_background(&mut self) {
        self.background.is_idle |= self.running_ms - self.background.last_step_ms >= BACKGROUND_WAIT_MS;
    }
}
