//! The command line.

// The cluster on one machine.
pub(crate) mod up;
// One node.
pub(crate) mod init;
pub(crate) mod join;
pub(crate) mod serve;
// Talking to a cluster through its API.
pub(crate) mod audit;
pub(crate) mod client;
pub(crate) mod cluster;
pub(crate) mod difference;
mod domain_name;
pub(crate) mod key;
mod key_arguments;
pub(crate) mod named_conf;
pub(crate) mod output;
pub(crate) mod policy;
pub(crate) mod status;
pub(crate) mod zone;
// A client of any server.
pub(crate) mod ddns;

use crate::limits::CLI_TIMEOUT_S_MAX;
use crate::problem::EXIT_CODES;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use domain_name::domain_name;
pub(crate) use key_arguments::{GrantArgs, KeyCommand, PolicyCommand, RightArgs};

/// An authoritative DNS nameserver, replicated by Raft. Every node answers queries and accepts updates. No acknowledged
/// update is lost when a node fails.
#[derive(Parser, Debug)]
#[command(name = "catamaran", version = env!("CATAMARAN_VERSION"), after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log level on standard error [default: `log_level` in the node's configuration, else info].
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<LogLevel>,
}

/// How much is logged.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for tracing::Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

impl Command {
    /// Whether the command enters a sandbox. Such a command starts no thread before that.
    pub(crate) const fn has_sandbox(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Ddns(_))
    }

    /// Whether the command runs until it is stopped.
    pub(crate) const fn is_daemon(&self) -> bool {
        self.has_sandbox() || matches!(self, Self::Up(_))
    }
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
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

/// The path of this program, for commands that the user copies. `cargo run` starts it from the build directory.
pub(crate) fn program() -> String {
    std::env::args().next().filter(|name| name.contains('/')).unwrap_or_else(|| "catamaran".to_owned())
}

/// Which cluster a command talks to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Directory of the cluster. Node addresses and the API token are read from it.
    #[arg(long, default_value = "./catamaran-data", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Connect to the API of this node instead of the nodes in DIR.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// File with the API token [default: DIR/api.token].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Total time limit of the command [default: 60; 900 to add or replace a zone; 3600 for a backup]. Exits with 11 if
    /// the change may have been made.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=CLI_TIMEOUT_S_MAX))]
    pub(crate) timeout: Option<u64>,
}

#[cfg(test)]
mod tests;
