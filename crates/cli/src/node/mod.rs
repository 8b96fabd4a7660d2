//! The commands that need the code of a node: their arguments, and the interface through which they run.

pub mod init;
pub mod join;
pub mod restore;
pub mod serve;
pub mod up;

use config::files::data_key::DataKeys;
use config::log_level::LogLevel;
use init::InitArgs;
use join::JoinArgs;
use process::problem::Problem;
use restore::{RecoverArgs, RestoreArgs};
use serve::ServeArgs;
use std::path::Path;
use up::UpArgs;

/// The commands that need the code of a node. The program provides them.
pub trait NodeCommands {
    /// Creates or resumes a cluster on this machine, and runs it.
    ///
    /// # Errors
    /// The cluster did not start, or all nodes have exited.
    fn up(&self, args: &UpArgs) -> Result<(), Problem>;

    /// Runs one node.
    ///
    /// # Errors
    /// The node cannot start, or must stop.
    fn serve(&self, args: &ServeArgs, level: Option<LogLevel>) -> Result<(), Problem>;

    /// Creates a cluster of one node.
    ///
    /// # Errors
    /// The directory has a cluster, or cannot be written.
    fn init(&self, args: &InitArgs) -> Result<(), Problem>;

    /// Creates a node that joins a cluster.
    ///
    /// # Errors
    /// The cluster refused or did not answer, or the directory cannot be written.
    fn join(&self, args: &JoinArgs) -> Result<(), Problem>;

    /// Creates a cluster from a backup.
    ///
    /// # Errors
    /// The backup cannot be read, or the directory cannot be written.
    fn restore(&self, args: &RestoreArgs) -> Result<(), Problem>;

    /// Creates a cluster from a node of a cluster that lost its majority.
    ///
    /// # Errors
    /// The node's data cannot be used, or the directory cannot be written.
    fn recover(&self, args: &RecoverArgs) -> Result<(), Problem>;

    /// Reads a whole backup, as a restore does, with these data keys if they are given. Returns its size in bytes.
    ///
    /// # Errors
    /// The backup is damaged, or the keys do not open it.
    fn verify_backup(&self, file: &Path, keys: Option<&DataKeys>) -> Result<u64, Problem>;
}
