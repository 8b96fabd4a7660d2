//! An agent: executes its part of the runs that a controller commands, one at a time.

// A folder for one run, and the run itself.
mod run;
// Receives commands and replies.
mod command_handler;
pub(crate) use command_handler::CommandHandler;
