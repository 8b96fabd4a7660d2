//! `node`: remove.

use super::NodeCommand;
use super::cluster::remove;
use crate::problem::Problem;

pub(crate) fn run(command: &NodeCommand) -> Result<(), Problem> {
    match command {
        NodeCommand::Remove { node, target } => remove(*node, target),
    }
}
