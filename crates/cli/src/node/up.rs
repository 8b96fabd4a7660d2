//! The arguments of `up`.

use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  catamaran up                                   run three nodes with a built-in zone, example.test
  catamaran up --zone example.org.zone           serve a zone file; the owner of its SOA is the origin
  catamaran up --zone example.org=db.example     serve a zone file with this origin
  catamaran up --zone root.zone.xz --nodes 5     read a compressed file (.xz, .zst or .gz)
  catamaran up --dir /var/lib/catamaran          resume the cluster in this directory
  catamaran up --dot-port 8530 --doh-port 8440 --doq-port 8530
                                                 also serve TLS, HTTPS and QUIC; the CA is DIR/ca.pem

All nodes answer DNS on 127.0.0.1:PORT and [::1]:PORT. Node i also answers on PORT+i. The ports for TLS, HTTPS and QUIC
work in the same way. Their certificates are for localhost, 127.0.0.1 and ::1. Node i serves the API on
127.0.0.1:API_PORT+i. Ctrl-C stops all nodes.";

/// Arguments of `up`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct UpArgs {
    /// Number of nodes [default: 3 in a new directory, else the number in the directory]. 3 nodes tolerate one failure,
    /// 5 tolerate two.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=crate::limits::UP_NODES_MAX))]
    pub nodes: Option<u64>,
    /// Directory of the cluster. If it has a cluster, that cluster is resumed, else a new one is created.
    #[arg(long, default_value = "./catamaran-data", value_name = "DIR")]
    pub dir: PathBuf,
    /// Zone file to serve: `FILE` or `ORIGIN=FILE`. Can be given several times. Existing zones are not changed. A
    /// relative $INCLUDE is resolved from the including file's directory.
    #[arg(long = "zone", value_name = "[ORIGIN=]FILE")]
    pub zones: Vec<String>,
    /// Port for DNS. All nodes share it, and node i also listens on PORT+i.
    #[arg(long, default_value_t = 5300)]
    pub port: u16,
    /// Port for DNS over TLS. All nodes share it, and node i also listens on DOT_PORT+i [default: closed].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub dot_port: Option<u16>,
    /// Port for DNS over HTTPS (HTTP/2, path /dns-query). Node i also listens on DOH_PORT+i [default: closed].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub doh_port: Option<u16>,
    /// Port for DNS over QUIC. Node i also listens on DOQ_PORT+i [default: closed]. It uses UDP, so it may equal
    /// --dot-port.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub doq_port: Option<u16>,
    /// Base port of the API. Node i listens on API_PORT+i.
    #[arg(long, default_value_t = 8053)]
    pub api_port: u16,
    /// Restart a node when it exits, unless it would exit again at once (exit codes 7, 8 and 9).
    #[arg(long)]
    pub supervise: bool,
}
