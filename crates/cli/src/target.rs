//! Which cluster a command talks to, and the name of this program.

use crate::limits::CLI_TIMEOUT_S_MAX;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The path of this program, for commands that the user copies. `cargo run` starts it from the build directory.
pub fn program() -> String {
    std::env::args().next().filter(|name| name.contains('/')).unwrap_or_else(|| "catamaran".to_owned())
}

/// Which cluster a command talks to.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Directory of the cluster. Node addresses and the API token are read from it.
    #[arg(long, default_value = "./catamaran-data", value_name = "DIR")]
    pub dir: PathBuf,
    /// Connect to the API of this node instead of the nodes in DIR.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub api: Option<SocketAddr>,
    /// File with the API token [default: DIR/api.token].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Total time limit of the command [default: 60; 900 to add or replace a zone; 3600 for a backup]. Exits with 11 if
    /// the change may have been made.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=CLI_TIMEOUT_S_MAX))]
    pub timeout: Option<u64>,
}
