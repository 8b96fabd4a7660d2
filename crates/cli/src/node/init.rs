//! The arguments of `init`.

use clap::Args;
use config::address::PeerAddress;
use std::net::SocketAddr;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  catamaran init --dir /var/lib/catamaran --dns 192.0.2.1:53 --dns [2001:db8::1]:53 --peer 10.0.0.1:5380
  catamaran init --dir /var/lib/catamaran --dns 192.0.2.1:53 --peer 0.0.0.0:5380 --advertise ns1.example.net:5380
  catamaran serve --config /var/lib/catamaran/node-1/catamaran.toml

Creates the cluster's CA, the API token and the files of node 1.";

/// Addresses for the other nodes.
#[derive(Args, Debug)]
pub struct PeerArgs {
    /// Address to listen on for other nodes. With a host name, the node listens on all its IPv4 addresses, or on all
    /// IPv6 addresses if the name has no IPv4 address. Other nodes connect to the name.
    #[arg(long, value_name = "HOST:PORT")]
    pub peer: PeerAddress,
    /// Address that other nodes connect to, if it differs from --peer, for example behind NAT. A host name is resolved
    /// at each connection.
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<PeerAddress>,
}

/// Arguments of `init`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct InitArgs {
    /// Directory to create.
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Address for DNS. Can be given several times. `[::]` covers IPv6 only: add 0.0.0.0 for IPv4.
    #[arg(long = "dns", required_unless_present = "no_dns", value_name = "ADDRESS:PORT")]
    pub dns: Vec<SocketAddr>,
    /// Answer no queries. The node only votes and stores data.
    #[arg(long, conflicts_with = "dns")]
    pub no_dns: bool,
    /// Addresses for the other nodes.
    #[command(flatten)]
    pub peer: PeerArgs,
    /// Address of the API.
    #[arg(long, default_value = "127.0.0.1:8053", value_name = "ADDRESS:PORT")]
    pub api: SocketAddr,
    /// File with this node's own key, which encrypts the cluster's data key. Created if missing [default:
    /// DIR/wrapping.key]
    #[arg(long, value_name = "FILE")]
    pub wrapping_key: Option<PathBuf>,
}
