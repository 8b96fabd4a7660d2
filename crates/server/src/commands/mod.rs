//! The commands that need the code of a node. The crate `cli` has their arguments, and all other commands.

// The cluster on one machine.
mod up;
// One node.
mod init;
mod join;
mod serve;
// Backups, and clusters made from one or from an old node.
mod backup_file;
mod restore;
#[cfg(test)]
mod tests;

use cli::node::NodeCommands;
use cli::node::init::InitArgs;
use cli::node::join::JoinArgs;
use cli::node::restore::{RecoverArgs, RestoreArgs};
use cli::node::serve::ServeArgs;
use cli::node::up::UpArgs;
use config::files::data_key::DataKeys;
use config::log_level::LogLevel;
use process::problem::Problem;
use std::path::Path;

/// Runs the commands that need the code of a node.
pub(crate) struct Commands;

impl NodeCommands for Commands {
    fn up(&self, args: &UpArgs) -> Result<(), Problem> {
        up::run(args)
    }

    fn serve(&self, args: &ServeArgs, level: Option<LogLevel>) -> Result<(), Problem> {
        serve::run(args, level)
    }

    fn init(&self, args: &InitArgs) -> Result<(), Problem> {
        init::run(args)
    }

    fn join(&self, args: &JoinArgs) -> Result<(), Problem> {
        join::run(args)
    }

    fn restore(&self, args: &RestoreArgs) -> Result<(), Problem> {
        restore::restore(args)
    }

    fn recover(&self, args: &RecoverArgs) -> Result<(), Problem> {
        restore::recover(args)
    }

    fn verify_backup(&self, file: &Path, keys: Option<&DataKeys>) -> Result<u64, Problem> {
        backup_file::verify(file, keys)
    }
}
