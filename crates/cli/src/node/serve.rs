//! The arguments of `serve`.

use clap::Args;
use config::address::PeerAddress;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  catamaran serve --config /var/lib/catamaran/node-1/catamaran.toml
  catamaran serve --config node-1/catamaran.toml --peer-address 2=10.1.0.2:5380 --peer-address 3=10.1.0.3:5380

Use --peer-address if all nodes of a cluster have moved to other IP addresses. Set `peer.listen` on each node, and start
one node with the option. The nodes then exchange their addresses. The option is needed only once.";

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ServeArgs {
    /// Configuration file of the node.
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Stop when standard input is closed. `catamaran up` stops its nodes this way.
    #[arg(long)]
    pub stop_with_stdin: bool,
    /// Number of nodes on this machine. They share the default memory limit for zones. Set by `catamaran up`.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub nodes_here: u64,
    /// New address of another node, if the cluster does not know it yet. Can be given several times.
    #[arg(long = "peer-address", value_name = "NODE=HOST:PORT", value_parser = node_address)]
    pub peer_addresses: Vec<(u64, PeerAddress)>,
}

/// `2=ns2.example.net:5380`
fn node_address(text: &str) -> Result<(u64, PeerAddress), String> {
    let (node, address) = text.split_once('=').ok_or("not NODE=HOST:PORT")?;
    let node = node.trim().parse().map_err(|_| format!("`{node}` is not a node number"))?;
    Ok((node, address.trim().parse()?))
}
