//! An agent: carries out its part of runs that a controller elsewhere commands, one after the other.

// A folder for one run, and the run itself.
mod run;
// What it is told, and what it answers.
mod command_handler;
pub(crate) use command_handler::CommandHandler;
