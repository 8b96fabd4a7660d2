//! Background work: imports and checkpoints run in small steps, each when the machine is idle. On a busy machine a step
//! runs after [`BACKGROUND_WAIT_MS`] anyway.
//!
//! ```text
//!   a step is done --> AwaitIdle --> a thread of the lowest priority runs --> Idle --> the next step
//!                          '-------------> BACKGROUND_WAIT_MS ------------------^
//! ```

use crate::context::Outputs;
use crate::io::Output;
use crate::limits::BACKGROUND_WAIT_MS;

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

impl IdleTime {
    /// The machine is idle.
    pub(crate) const fn note_idle(&mut self) {
        self.is_idle = true;
        self.is_awaited = false;
    }

    /// Starts a background step if the machine is idle and there is work, and asks the shell to report the next idle
    /// time. Returns whether each kind of background work may run one step.
    pub(crate) fn start_step(
        &mut self,
        has_work: impl FnOnce() -> bool,
        running_ms: u64,
        outputs: &mut Outputs,
    ) -> bool {
        if !self.is_idle || !has_work() {
            return false;
        }
        self.is_idle = false;
        self.last_step_ms = running_ms;
        if !core::mem::replace(&mut self.is_awaited, true) {
            outputs.push(Output::AwaitIdle);
        }
        true
    }

    /// On a busy machine a step runs after a while anyway.
    pub(crate) const fn tick(&mut self, running_ms: u64) {
        self.is_idle |= running_ms - self.last_step_ms >= BACKGROUND_WAIT_MS;
    }
}
