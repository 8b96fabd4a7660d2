//! `init`: creates the files of a new cluster of one node.

use crate::replica_host::first_state;
use crate::tls::ca::Ca;
use cli::node::init::{InitArgs, PeerArgs};
use cli::output::print;
use cli::target::program;
use config::address::PeerAddress;
use config::files::data_key::DataKeyFile;
use config::files::layout::{Layout, NodeLayout};
use config::files::tighten;
use config::files::token::Token;
use config::files::{Readers, write_atomic};
use config::limits::UDP_PAYLOAD_DEFAULT;
use config::rate_limit::RateLimit;
use config::transfer::Transfer;
use config::zones::Zones;
use config::{Api, Config, Dns, Log, Member, Peer, Tcp};
use process::problem::{Exit, Problem};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &InitArgs) -> Result<(), Problem> {
    let (files, config) = prepare(args)?;
    first_state::make(&config.clone().based(files.dir()))?;
    finish(&files, &config)?;
    let program = program();
    print(&format!(
        "created a cluster of one node in {}; run it with:\n  {program} serve --config {}\n\
         to add a node, print a join token with:\n  {program} cluster add --dir {}",
        args.dir.display(),
        files.config().display(),
        args.dir.display(),
    ))
}

/// Makes all files but the state and the configuration. The configuration is written last, after the state.
pub(super) fn prepare(args: &InitArgs) -> Result<(NodeLayout, Config), Problem> {
    let layout = Layout::new(&args.dir);
    let files = layout.node(1);
    if files.config().exists() {
        return Err(Problem::new(
            Exit::Refused,
            "cannot create a cluster",
            "the directory has a cluster, which is never overwritten",
        )
        .at(files.config().display())
        .hint(format!(
            "run that cluster with `catamaran serve --config {}`, or choose another --dir",
            files.config().display()
        )));
    }
    let addresses = PeerAddresses::of(&args.peer)?;
    let config = make_files(args, addresses, &layout, &files).map_err(|error| unmade(&args.dir, error))?;
    Ok((files, config))
}

/// Writes the configuration.
pub(super) fn finish(files: &NodeLayout, config: &Config) -> Result<(), Problem> {
    let written = write_atomic(&files.config(), config.to_text().as_bytes(), Readers::Owner);
    written.map_err(|error| unmade(files.dir(), error))
}

/// The addresses of a new node for its peers.
#[derive(Debug)]
pub(super) struct PeerAddresses {
    pub(super) listen: SocketAddr,
    /// The address that peers connect to, if it is not the listen address.
    advertise: Option<PeerAddress>,
}

impl PeerAddresses {
    /// With a host name the node listens on all addresses, because the address behind the name may change.
    pub(super) fn of(PeerArgs { peer, advertise }: &PeerArgs) -> Result<Self, Problem> {
        let (listen, advertise) = match peer.socket() {
            Some(listen) => (listen, advertise.clone()),
            None => (any_address(peer), Some(advertise.as_ref().unwrap_or(peer).clone())),
        };
        let addresses = Self { listen, advertise };
        let advertised = addresses.advertised();
        if advertised.is_reachable() {
            return Ok(addresses);
        }
        let option = if addresses.advertise.is_some() { "--advertise" } else { "--peer" };
        Err(Problem::new(
            Exit::Usage,
            format!("{option} {advertised} is not an address for other nodes"),
            "they cannot connect to it",
        )
        .hint("give a host name or an address that other nodes can reach, and a port, with --advertise or --peer"))
    }

    pub(super) fn advertised(&self) -> PeerAddress {
        self.advertise.clone().unwrap_or_else(|| self.listen.into())
    }

    pub(super) fn into_config(self, config: Config) -> Config {
        Config { peer: Peer { advertise: self.advertise, ..config.peer }, ..config }
    }
}

/// All IPv4 addresses of this machine, or all IPv6 addresses if the name has no others. A socket serves one family.
fn any_address(peer: &PeerAddress) -> SocketAddr {
    let found: Vec<SocketAddr> = peer.to_string().to_socket_addrs().map(Iterator::collect).unwrap_or_default();
    let is_ipv6 = !found.is_empty() && found.iter().all(SocketAddr::is_ipv6);
    let any = if is_ipv6 { IpAddr::from(Ipv6Addr::UNSPECIFIED) } else { IpAddr::from(Ipv4Addr::UNSPECIFIED) };
    SocketAddr::new(any, peer.port())
}

fn unmade(dir: &Path, error: io::Error) -> Problem {
    Problem::new(Exit::Failed, "cannot create the cluster's files", error).at(dir.display())
}

fn make_files(args: &InitArgs, addresses: PeerAddresses, layout: &Layout, files: &NodeLayout) -> io::Result<Config> {
    std::fs::create_dir_all(files.data())?;
    tighten::cluster(&args.dir);
    let ca = Ca::load_or_make(&layout.ca_cert(), &layout.ca_key())?;
    Token::load_or_make(&layout.api_token())?;
    let wrapping = absolute(args.wrapping_key.as_deref())?;
    DataKeyFile::new(&layout.data_key(), wrapping.as_deref()).load_or_make()?;
    let issued = ca.issue(1)?;
    write_atomic(&files.key(), issued.key_pem.as_bytes(), Readers::Owner)?;
    write_atomic(&files.cert(), issued.cert_pem.as_bytes(), Readers::All)?;
    let members = vec![Member { id: 1, address: addresses.advertised() }];
    let listen = addresses.listen;
    let config = addresses.into_config(config(1, args.dns.clone(), args.api, listen, members));
    Ok(Config { wrapping_key_file: wrapping, ..config })
}

/// An absolute path, since the configuration is in another directory.
pub(super) fn absolute(path: Option<&Path>) -> io::Result<Option<PathBuf>> {
    path.map(std::path::absolute).transpose()
}

/// The configuration of a node with the standard [`Layout`].
pub(crate) fn config(
    raft_id: u64,
    dns: Vec<SocketAddr>,
    api: SocketAddr,
    peer: SocketAddr,
    members: Vec<Member>,
) -> Config {
    let id = crate::tls::names::node_number(raft_id);
    Config {
        id: id as u32,
        incarnation: (raft_id >> 32) as u32,
        joined: false,
        dir: "data".into(),
        data_key_file: "../data.key".into(),
        wrapping_key_file: None,
        log_level: None,
        sandbox: Default::default(),
        dns: Dns {
            listen: dns,
            udp_workers: 0,
            udp_payload: UDP_PAYLOAD_DEFAULT,
            // By default, the node does not identify itself to clients.
            nsid: None,
            chaos_id: None,
            chaos_version: None,
            cookie_secrets_file: None,
            rate_limit: RateLimit::default(),
            tcp: Tcp::default(),
            transfer: Transfer::default(),
            tls: None,
        },
        api: Api { listen: api, token_file: "../api.token".into(), socket: None, hosts: Vec::new() },
        peer: Peer {
            listen: peer,
            advertise: None,
            ca_file: "../ca.pem".into(),
            cert_file: "node.pem".into(),
            key_file: "node.key".into(),
            members,
            extra_addresses: Vec::new(),
        },
        log: Log::default(),
        audit: Default::default(),
        zones: Zones::default(),
    }
}
