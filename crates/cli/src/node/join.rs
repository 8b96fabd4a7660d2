//! The arguments of `join`.

use super::init::PeerArgs;
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  on a node of the cluster, print a token:
    catamaran cluster add --dir /var/lib/catamaran
  on the new machine, paste the token:
    catamaran join --token-file - --dir /var/lib/catamaran --dns 192.0.2.2:53 --peer 10.0.0.2:5380
    catamaran serve --config /var/lib/catamaran/node-2/catamaran.toml
  a third voter for a cluster on two sites, which answers no queries:
    catamaran join --token-file - --dir /var/lib/catamaran --no-dns --peer 10.0.3.1:5380

A token admits one node, and expires after one hour. Use --token only in tests: all users of a machine can read command
lines.";

/// Arguments of `join`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct JoinArgs {
    /// Directory to create.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// The token that `catamaran cluster add` printed.
    #[arg(long, required_unless_present = "token_file", conflicts_with = "token_file", value_name = "TEXT")]
    pub token: Option<String>,
    /// File with the token; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Address for DNS. Can be given several times. `[::]` covers IPv6 only: add 0.0.0.0 for IPv4.
    #[arg(long = "dns", required_unless_present = "no_dns", value_name = "ADDRESS:PORT")]
    pub dns: Vec<SocketAddr>,
    /// Answer no queries. The node only votes and stores data, for example on the third of three sites.
    #[arg(long, conflicts_with = "dns")]
    pub no_dns: bool,
    /// Addresses for the other nodes.
    #[command(flatten)]
    pub peer: PeerArgs,
    /// Address of the API [default: 127.0.0.1:8053].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub api: Option<SocketAddr>,
    /// File with this node's own key, which encrypts the cluster's data key. Created if missing [default:
    /// DIR/wrapping.key]
    #[arg(long, value_name = "FILE")]
    pub wrapping_key: Option<PathBuf>,
}
