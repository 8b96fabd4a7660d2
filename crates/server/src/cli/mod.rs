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

use crate::config::address::PeerAddress;
use crate::limits::CLI_TIMEOUT_S_MAX;
use crate::problem::EXIT_CODES;
use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;

pub(crate) use domain_name::domain_name;
pub(crate) use key_arguments::{GrantArgs, KeyCommand, PolicyCommand, RightArgs};

/// An authoritative nameserver that is replicated by Raft: every node answers, every node takes updates, nothing that
/// was acknowledged is lost when a node dies.
#[derive(Parser, Debug)]
#[command(name = "catamaran", version = env!("CATAMARAN_VERSION"), after_help = EXIT_CODES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Log level on standard error [default: `log_level` in a node's configuration, else info].
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
    /// Build a cluster on this machine, or resume it, and run it.
    Up(UpArgs),
    /// Run one node.
    Serve(ServeArgs),
    /// Make the files of a new cluster of one node.
    Init(InitArgs),
    /// Make the files of a node that joins a cluster.
    Join(JoinArgs),
    /// Say how the cluster does.
    Status(StatusArgs),
    /// Add, replace, list, export, check and remove zones.
    #[command(subcommand, after_help = ZONE_EXAMPLES)]
    Zone(ZoneCommand),
    /// Add, list and remove TSIG keys.
    #[command(subcommand, after_help = KEY_EXAMPLES)]
    Key(KeyCommand),
    /// Say which key may write what, and ask what is said.
    #[command(subcommand, after_help = POLICY_EXAMPLES)]
    Policy(PolicyCommand),
    /// Check the audit log of a node.
    #[command(subcommand, after_help = audit::EXAMPLES)]
    Audit(audit::AuditCommand),
    /// Who belongs to the cluster, who votes, who leads.
    #[command(subcommand, after_help = cluster::EXAMPLES)]
    Cluster(cluster::ClusterCommand),
    /// Keep names on addresses that change, with updates to any server.
    Ddns(ddns::DdnsArgs),
}

/// How this program was called, for commands that are to be pasted: `cargo run` leaves it where it was built.
pub(crate) fn program() -> String {
    std::env::args().next().filter(|name| name.contains('/')).unwrap_or_else(|| "catamaran".to_owned())
}

const ZONE_EXAMPLES: &str = "\
Examples:
  catamaran zone check db.example
  catamaran zone add example.org=db.example
  catamaran zone replace example.org=db.example
  catamaran zone export example.org > db.example";

const KEY_EXAMPLES: &str = "\
Examples:
  catamaran key add dhcp --update --zone example.org --out dhcp.key
  catamaran key list
  catamaran key remove dhcp";

const POLICY_EXAMPLES: &str = "\
Examples:
  catamaran policy set example.org rules
  catamaran policy show
  catamaran policy check dhcp www.example.org AAAA
  catamaran policy import /etc/bind/named.conf";

const UP_EXAMPLES: &str = "\
Examples:
  catamaran up                                   three nodes, a small built-in example.test
  catamaran up --zone example.org.zone           serve a zone file; its SOA's owner is its origin
  catamaran up --zone example.org=db.example     name the origin
  catamaran up --zone root.zone.xz --nodes 5     .xz, .zst and .gz are read too
  catamaran up --dir /var/lib/catamaran          resume what is there, with all data
  catamaran up --dot-port 8530 --doh-port 8440 --doq-port 8530
                                                 over TLS, HTTPS and QUIC too; clients trust DIR/ca.pem

Node i answers DNS on 127.0.0.1:PORT+i and [::1]:PORT+i and HTTP on 127.0.0.1:API_PORT+i;
all nodes share 127.0.0.1:PORT and [::1]:PORT. It is the same with the ports for TLS, HTTPS and
QUIC, whose certificates (for localhost, 127.0.0.1 and ::1) `up` makes. Ctrl-C stops all nodes.";

/// Arguments of `up`.
#[derive(Args, Debug)]
#[command(after_help = UP_EXAMPLES)]
pub(crate) struct UpArgs {
    /// Number of nodes; one may fail of 3, two of 5. 3 in a new directory, else as many as are there.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=crate::limits::UP_NODES_MAX))]
    pub(crate) nodes: Option<u64>,
    /// Directory of the cluster; made if it is not there, resumed if it is.
    #[arg(long, default_value = "./catamaran-data", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Zone file to serve, `FILE` or `ORIGIN=FILE`; may be given several times. A zone that exists is not changed.
    /// A relative $INCLUDE is resolved from the directory of the file that contains it.
    #[arg(long = "zone", value_name = "[ORIGIN=]FILE")]
    pub(crate) zones: Vec<String>,
    /// Port that all nodes share; node i has PORT+i for itself.
    #[arg(long, default_value_t = 5300)]
    pub(crate) port: u16,
    /// Port for DNS over TLS that all nodes share; node i has DOT_PORT+i for itself. Closed unless given.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) dot_port: Option<u16>,
    /// Port for DNS over HTTPS (HTTP/2, path /dns-query), as --dot-port.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) doh_port: Option<u16>,
    /// Port for DNS over QUIC, which is on UDP: it may be that of --dot-port.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) doq_port: Option<u16>,
    /// Node i has its API on API_PORT+i.
    #[arg(long, default_value_t = 8053)]
    pub(crate) api_port: u16,
    /// Start a node again when it dies.
    #[arg(long)]
    pub(crate) supervise: bool,
}

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct ServeArgs {
    /// Configuration of the node.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Stop when standard input ends: so `up` stops its nodes, and so they never outlive it.
    #[arg(long)]
    pub(crate) stop_with_stdin: bool,
    /// Nodes that share this machine: by default the zones of each take its share of the memory. `up` says it.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    pub(crate) nodes_here: u64,
    /// New address of another node that the cluster does not know yet; may be given several times.
    #[arg(long = "peer-address", value_name = "NODE=HOST:PORT", value_parser = node_address)]
    pub(crate) peer_addresses: Vec<(u64, PeerAddress)>,
}

/// `2=ns2.example.net:5380`
fn node_address(text: &str) -> Result<(u64, PeerAddress), String> {
    let (node, address) = text.split_once('=').ok_or("not NODE=HOST:PORT")?;
    let node = node.trim().parse().map_err(|_| format!("`{node}` is not the number of a node"))?;
    Ok((node, address.trim().parse()?))
}

const SERVE_EXAMPLES: &str = "\
Examples:
  catamaran serve --config /var/lib/catamaran/node-1/catamaran.toml
  catamaran serve --config node-1/catamaran.toml --peer-address 2=10.1.0.2:5380 --peer-address 3=10.1.0.3:5380

The second example is for a cluster whose nodes have all moved to other IP addresses. Set `peer.listen` on each node,
and start one node with the option. The nodes then tell each other their addresses. The option is needed once.";

const INIT_EXAMPLES: &str = "\
Examples:
  catamaran init --dir /var/lib/catamaran --dns 192.0.2.1:53 --dns [2001:db8::1]:53 --peer 10.0.0.1:5380
  catamaran init --dir /var/lib/catamaran --dns 192.0.2.1:53 --peer 0.0.0.0:5380 --advertise ns1.example.net:5380
  catamaran serve --config /var/lib/catamaran/node-1/catamaran.toml

Makes the cluster's certificate authority, the API token and the files of node 1.";

/// Addresses for the other nodes.
#[derive(Args, Debug)]
pub(crate) struct PeerArgs {
    /// Address to listen on for the other nodes. With a host name the node listens on all its IPv4 addresses, or on
    /// all IPv6 addresses if the name has no IPv4 address. The other nodes connect to the name.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) peer: PeerAddress,
    /// Address that the other nodes connect to, if it differs from --peer: behind NAT, or by name. A name is resolved
    /// at each connection.
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) advertise: Option<PeerAddress>,
}

/// Arguments of `init`.
#[derive(Args, Debug)]
#[command(after_help = INIT_EXAMPLES)]
pub(crate) struct InitArgs {
    /// Directory to make.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Address for DNS; may be given several times. `[::]` covers IPv6 only: add 0.0.0.0 for IPv4.
    #[arg(long = "dns", required_unless_present = "no_dns", value_name = "ADDRESS:PORT")]
    pub(crate) dns: Vec<SocketAddr>,
    /// Answer no queries: vote and store only.
    #[arg(long, conflicts_with = "dns")]
    pub(crate) no_dns: bool,
    #[command(flatten)]
    pub(crate) peer: PeerArgs,
    /// Address of the API.
    #[arg(long, default_value = "127.0.0.1:8053", value_name = "ADDRESS:PORT")]
    pub(crate) api: SocketAddr,
    /// File of this node's own key, which wraps the cluster's data key; made if it is not there [default:
    /// DIR/wrapping.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) wrapping_key: Option<PathBuf>,
}

const JOIN_EXAMPLES: &str = "\
Examples:
  on a node of the cluster, for one new node:
    catamaran cluster add --dir /var/lib/catamaran
  on the new machine, with the text that it printed:
    catamaran join --token-file - --dir /var/lib/catamaran --dns 192.0.2.2:53 --peer 10.0.0.2:5380
    catamaran serve --config /var/lib/catamaran/node-2/catamaran.toml
  the third voter of two sites, which answers no queries:
    catamaran join --token-file - --dir /var/lib/catamaran --no-dns --peer 10.0.3.1:5380

A token is good for one node and for one hour. All users of a machine can read what stands on a command line, so --token
is for tests.";

/// Arguments of `join`.
#[derive(Args, Debug)]
#[command(after_help = JOIN_EXAMPLES)]
pub(crate) struct JoinArgs {
    /// Directory to make.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The token that `catamaran cluster add` printed.
    #[arg(long, required_unless_present = "token_file", conflicts_with = "token_file", value_name = "TEXT")]
    pub(crate) token: Option<String>,
    /// File that has the token; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Address for DNS; may be given several times. `[::]` covers IPv6 only: add 0.0.0.0 for IPv4.
    #[arg(long = "dns", required_unless_present = "no_dns", value_name = "ADDRESS:PORT")]
    pub(crate) dns: Vec<SocketAddr>,
    /// Answer no queries: vote and store only, as the third of two sites.
    #[arg(long, conflicts_with = "dns")]
    pub(crate) no_dns: bool,
    #[command(flatten)]
    pub(crate) peer: PeerArgs,
    /// Address of its API.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// File of this node's own key, which wraps the cluster's data key; made if it is not there [default:
    /// DIR/wrapping.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) wrapping_key: Option<PathBuf>,
}

/// Which cluster a command talks to.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Directory of the cluster: its nodes and its token are found there.
    #[arg(long, default_value = "./catamaran-data", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Talk to this node's API instead of those that DIR names.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// File with the API token, instead of DIR/api.token.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Total time limit of the command [default: 60; 900 for a change that carries a zone, 3600 for a backup]. Exits
    /// with 11 if a change may have been made.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=CLI_TIMEOUT_S_MAX))]
    pub(crate) timeout: Option<u64>,
}

/// Arguments of `status`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  catamaran status\n  catamaran status --dir /var/lib/catamaran --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print what each node says, as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

const ZONE_ADD_EXAMPLES: &str = "\
Examples:
  catamaran zone add example.org.zone
  catamaran zone add example.org=db.example.gz";

const ZONE_REPLACE_EXAMPLES: &str = "\
Examples:
  catamaran zone replace example.org.zone        asks before it does
  catamaran zone replace example.org=db --yes    does not";

const ZONE_SET_EXAMPLES: &str = "\
Examples:
  catamaran zone set example.org --serial unixtime
  catamaran zone set example.org --stale expire
  catamaran zone set example.org --ack all-live";

const ZONE_LIST_EXAMPLES: &str = "\
Examples:
  catamaran zone list
  catamaran zone list --consistent           with all that any node has acknowledged";

const ZONE_EXPORT_EXAMPLES: &str = "\
Examples:
  catamaran zone export example.org > example.org.zone
  catamaran zone export example.org --consistent > example.org.zone";

const ZONE_CHECK_EXAMPLES: &str = "\
Examples:
  catamaran zone check example.org.zone
  catamaran zone check example.org=db.example.xz

Each finding is a line `file:line: reason`; the exit code is 3 if the file cannot be served.";

const ZONE_REMOVE_EXAMPLES: &str = "\
Examples:
  catamaran zone remove example.org          asks before it does
  catamaran zone remove example.org --yes    does not";

/// Options of a zone.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ZoneOptionArgs {
    /// How each effective update sets the serial: plus one (`increment`), the seconds since 1970 (`unixtime`), or
    /// YYYYMMDD00 of the day in UTC (`date`). The last two add one if the result would not be newer.
    #[arg(long = "serial", value_name = "POLICY", value_parser = ["increment", "unixtime", "date"])]
    pub(crate) serial_policy: Option<String>,
    /// What a node does that hears no leader: `serve` goes on, `expire` stops after the SOA's EXPIRE.
    #[arg(long, value_name = "OPTION", value_parser = ["serve", "expire"])]
    pub(crate) stale: Option<String>,
    /// When an update is acknowledged: durable at a `majority`, or also shown by all nodes that answer, `all-live`.
    #[arg(long, value_name = "OPTION", value_parser = ["majority", "all-live"])]
    pub(crate) ack: Option<String>,
    /// Maximum TTL in the zone; 0 removes the limit. Limits apply to zone files and to updates with any key.
    /// Existing records over a limit may stay or be deleted, but an update may not set a TTL over it.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) ttl_max: Option<u32>,
    /// Maximum number of records of one type at a name; 0 removes the limit.
    #[arg(long, value_name = "COUNT")]
    pub(crate) rrset_records_max: Option<u32>,
    /// Maximum number of records in the zone; 0 removes the limit.
    #[arg(long, value_name = "COUNT")]
    pub(crate) records_max: Option<u32>,
}

/// How new an answer must be.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ReadArgs {
    /// Show all that was acknowledged before, by whichever node; needs a majority.
    #[arg(long)]
    pub(crate) consistent: bool,
}

/// `zone ...`
#[derive(Subcommand, Debug)]
pub(crate) enum ZoneCommand {
    /// Add a zone from a file.
    #[command(
        after_help = ZONE_ADD_EXAMPLES
    )]
    Add {
        /// The zone file: `FILE` or `ORIGIN=FILE`. A relative $INCLUDE is resolved from the including file's directory.
        #[arg(value_name = "[ORIGIN=]FILE")]
        file: String,
        #[command(flatten)]
        options: ZoneOptionArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Show how a file differs from the zone that is served, and replace the zone by it, all at once.
    #[command(
        after_help = ZONE_REPLACE_EXAMPLES
    )]
    Replace {
        /// The zone file: `FILE` or `ORIGIN=FILE`. A relative $INCLUDE is resolved from the including file's directory.
        #[arg(value_name = "[ORIGIN=]FILE")]
        file: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        target: Target,
    },
    /// Change the options of a zone.
    #[command(
        after_help = ZONE_SET_EXAMPLES
    )]
    Set {
        /// The zone's apex.
        zone: String,
        #[command(flatten)]
        options: ZoneOptionArgs,
        #[command(flatten)]
        target: Target,
    },
    /// List all zones with their serials.
    #[command(after_help = ZONE_LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        read: ReadArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Print a zone as a zone file.
    #[command(after_help = ZONE_EXPORT_EXAMPLES)]
    Export {
        /// The zone's apex.
        zone: String,
        #[command(flatten)]
        read: ReadArgs,
        #[command(flatten)]
        target: Target,
    },
    /// Check a zone file; needs no cluster.
    #[command(
        after_help = ZONE_CHECK_EXAMPLES
    )]
    Check {
        /// The zone file: `FILE` or `ORIGIN=FILE`. A relative $INCLUDE is resolved from the including file's directory.
        #[arg(value_name = "[ORIGIN=]FILE")]
        file: String,
    },
    /// Remove a zone with its options and grants.
    #[command(
        after_help = ZONE_REMOVE_EXAMPLES
    )]
    Remove {
        /// The zone's apex.
        zone: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        target: Target,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_definition_is_consistent_and_every_command_has_examples() {
        fn look(command: &clap::Command, path: &str) {
            command.get_subcommands().for_each(|below| look(below, &format!("{path} {}", below.get_name())));
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(path == "catamaran" || help.contains("Examples:"), "{path} has no examples");
            // Each example parses as a command line.
            for example in help.lines().filter(|line| line.trim_start().starts_with("catamaran ")) {
                let line =
                    example.trim().split("  ").next().unwrap_or_default().split(" > ").next().unwrap_or_default();
                assert!(parse(line).is_ok(), "{line}: {}", parse(line).unwrap_err());
            }
        }
        Cli::command().debug_assert();
        look(&Cli::command(), "catamaran");
        assert!(Cli::command().get_after_help().unwrap().to_string().contains("Exit codes"));
    }

    #[test]
    fn defaults_are_those_of_the_contract() {
        let Command::Up(up) = parse("catamaran up").unwrap().command else { panic!() };
        assert_eq!((up.nodes, up.port, up.api_port, up.supervise), (None, 5300, 8053, false));
        assert_eq!((up.dot_port, up.doh_port, up.doq_port), (None, None, None));
        assert_eq!(up.dir, PathBuf::from("./catamaran-data"));
        let Command::Up(up) = parse("catamaran up --zone a --zone b=c --nodes 5").unwrap().command else { panic!() };
        assert_eq!((up.zones, up.nodes), (vec!["a".to_owned(), "b=c".to_owned()], Some(5)));
    }

    #[test]
    fn wrong_lines_are_refused() {
        for line in [
            "catamaran",
            "catamaran down",
            "catamaran up --nodes 0",
            "catamaran up --nodes 10",
            "catamaran up --port 70000",
            "catamaran up --dot-port 0",
            "catamaran serve",
            "catamaran key add",
            "catamaran key add a --file b",
            "catamaran join --dir a",
            "catamaran join --dir a --token b",
            "catamaran init --dir a --peer 1.2.3.4:5",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
