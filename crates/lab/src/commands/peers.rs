//! `catlab peers`: the servers that experiments and comparisons can start.

use clap::{Args, Subcommand};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use testbed::Kind;
use testbed::peer_tree::{self, Source, TreeError, VARIABLE};

/// Ends the examples of `--help`.
pub(crate) const EXAMPLES: &str = "Examples:
  catlab peers list
  catlab peers install newest
  CATAMARAN_PEERS=newest catlab experiment run read-rate

`list` and all commands that start servers prefer the programs in the folder that CATAMARAN_PEERS names.";

const INSTALL_EXAMPLES: &str = "Examples:
  catlab peers install newest
  catlab peers install trixie --suite trixie

Needs apt-get and the keys of Debian (package debian-archive-keyring), but not root. Nothing outside of DIR changes: no
service starts, and the packages of this system stay as they are. DIR/packages lists all versions.

An interrupted installation starts over if the same command runs again.

Exit code 0: the packages are installed; 2: they are not, and DIR is as before.";

/// The commands for servers.
#[derive(Subcommand)]
pub(crate) enum PeersCommand {
    /// List the servers that are installed, with version and path, and how to install the others.
    List,
    /// Unpack the newest Debian packages of BIND, Knot, NSD, PowerDNS, Unbound, dnsdist and HAProxy into a folder.
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(Install),
}

#[derive(Args)]
pub(crate) struct Install {
    /// New or empty folder.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Debian suite.
    #[arg(long, default_value = "sid")]
    suite: String,
    /// Debian mirror.
    #[arg(long, value_name = "URL", default_value = "http://deb.debian.org/debian")]
    mirror: String,
    /// Accept an expired list of packages, for example of a mirror that is no longer updated. Signatures are checked in
    /// any case.
    #[arg(long)]
    accept_expired: bool,
}

/// Runs the command.
pub(crate) fn main(command: &PeersCommand) -> ExitCode {
    let done = match command {
        PeersCommand::List => {
            list();
            Ok(())
        }
        PeersCommand::Install(arguments) => install(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("catlab peers: {error}");
            ExitCode::from(2)
        }
    }
}

fn list() {
    let width = Kind::ALL.iter().map(|kind| kind.label().len()).max().unwrap_or_default();
    for kind in Kind::ALL {
        let label = kind.label();
        let text = match kind.program() {
            Some(program) => format!("{}\n{:width$}  {}", kind.version(&program), "", program.display()),
            None => format!("not installed; to install it: {}", kind.how_to_install()),
        };
        lab::print(format_args!("{label:width$}  {text}\n"));
    }
}

fn install(arguments: &Install) -> Result<(), Box<dyn Error>> {
    let Install { dir, suite, mirror, accept_expired } = arguments;
    let source = Source { mirror: mirror.clone(), suite: suite.clone(), accepts_expired: *accept_expired };
    let versions = peer_tree::install(dir, &source, &mut |step| eprintln!("catlab peers: {step}"));
    let versions = versions.map_err(|error| {
        let hint = if matches!(error, TreeError::Expired) { " with --accept-expired" } else { "" };
        format!("cannot install into {}: {error}{hint}", dir.display())
    })?;
    for (name, version) in versions {
        lab::print(format_args!("{name} {version}\n"));
    }
    lab::print(format_args!("To use them: export {VARIABLE}={}\n", dir.canonicalize()?.display()));
    Ok(())
}
