//! The command line of `catamaran`: the definitions of all commands, and the commands that use the HTTP API or work on
//! files.
//!
//! Commands that need the code of a node run through [`NodeCommands`].
#![forbid(unsafe_code)]
// The print macros block while the reader is slow, and panic when it is gone. `output::print` does neither.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod limits;
// Arguments and output of several commands.
mod domain_name;
pub mod output;
pub mod target;
// Commands that need the code of a node.
pub mod node;
// The API of a cluster.
pub mod client;
// Commands that use it.
mod cluster;
mod difference;
mod key;
mod key_arguments;
mod named_conf;
mod policy;
mod status;
mod zone;
// Commands that read only files.
mod audit;
// A client of any server.
mod ddns;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use config::log_level::LogLevel;
use key_arguments::{GrantArgs, KeyCommand, PolicyCommand, RightArgs};
use node::{NodeCommands, init, join, serve, up};
use process::problem::{EXIT_CODES, Problem};

/// An authoritative DNS nameserver, replicated by Raft. Every node answers queries and accepts updates. No acknowledged
/// update is lost when a node fails.
#[derive(Parser, Debug)]
#[command(name = "catamaran", version, after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Log level on standard error [default: `log_level` in the node's configuration, else info].
    #[arg(long, global = true, value_name = "LEVEL")]
    pub log: Option<LogLevel>,
}

/// The definition of the command line, for a program of this version.
#[must_use]
pub fn definition(version: &'static str) -> clap::Command {
    Cli::command().version(version)
}

impl Cli {
    /// Reads the command line of this process. Exits if it is wrong, and for `--help` and `--version`.
    #[must_use]
    pub fn parse_for(version: &'static str) -> Self {
        let mut matches = definition(version).get_matches();
        Self::from_arg_matches_mut(&mut matches).unwrap_or_else(|error| error.format(&mut definition(version)).exit())
    }

    /// Whether the command enters a sandbox. Such a command starts no thread before that.
    #[must_use]
    pub const fn has_sandbox(&self) -> bool {
        matches!(self.command, Command::Serve(_) | Command::Ddns(_))
    }

    /// Whether the command runs until it is stopped.
    #[must_use]
    pub const fn is_daemon(&self) -> bool {
        self.has_sandbox() || matches!(self.command, Command::Up(_))
    }

    /// Runs the command; `node` runs those that need the code of a node.
    ///
    /// # Errors
    /// The command failed.
    pub fn run(&self, node: &impl NodeCommands) -> Result<(), Problem> {
        match &self.command {
            Command::Up(args) => node.up(args),
            Command::Serve(args) => node.serve(args, self.log),
            Command::Init(args) => node.init(args),
            Command::Join(args) => node.join(args),
            Command::Status(args) => status::run(args),
            Command::Zone(command) => zone::run(command),
            Command::Key(command) => key::run(command),
            Command::Policy(command) => policy::run(command),
            Command::Audit(command) => audit::run(command),
            Command::Cluster(command) => cluster::run(command, node),
            Command::Ddns(args) => ddns::run(args),
        }
    }
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Create or resume a cluster on this machine, and run it.
    Up(up::UpArgs),
    /// Run one node.
    Serve(serve::ServeArgs),
    /// Create a new cluster of one node.
    Init(init::InitArgs),
    /// Create a node that joins a cluster.
    Join(join::JoinArgs),
    /// Show the status of the nodes and zones.
    Status(status::StatusArgs),
    /// Add, replace, list, export, check and remove zones.
    #[command(subcommand, after_help = zone::EXAMPLES)]
    Zone(zone::ZoneCommand),
    /// Manage TSIG keys and their grants.
    #[command(subcommand, after_help = key_arguments::KEY_EXAMPLES)]
    Key(KeyCommand),
    /// Manage the rules that allow or deny updates.
    #[command(subcommand, after_help = key_arguments::POLICY_EXAMPLES)]
    Policy(PolicyCommand),
    /// Check the audit log of a node.
    #[command(subcommand, after_help = audit::EXAMPLES)]
    Audit(audit::AuditCommand),
    /// Manage nodes, join tokens, backups and certificates.
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterCommand),
    /// Update DNS names when this machine's addresses change.
    Ddns(ddns::DdnsArgs),
}

#[cfg(test)]
mod tests;
