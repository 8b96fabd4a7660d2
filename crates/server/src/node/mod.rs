//! One running node: its threads, and what they share.

// Keys and grants for the update threads.
pub(crate) mod rights;
// The disk of the replica.
pub(crate) mod disk;

use crate::config::Config;
use crate::problem::Problem;
use crate::stop::Stop;

pub(crate) fn run(_config: Config, _stop: &Stop) -> Result<(), Problem> {
    Ok(())
}
