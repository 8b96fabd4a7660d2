//! An agent: carries out its part of runs that a controller elsewhere commands, one after the other.

// A folder for one run, and the run itself.
mod work;
// What it is told, and what it answers.
mod desk;
pub(crate) use desk::Desk;
