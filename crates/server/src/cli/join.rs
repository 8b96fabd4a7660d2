//! `join`: creates a node with a join token of the cluster.

use super::init::{PeerAddresses, PeerArgs};
use super::output::print;
use crate::config::{Config, Member};
use crate::files::cluster_id;
use crate::files::data_key::{self, DataKeyFile, DataKeys};
use crate::files::layout::{Layout, cluster_id_of};
use crate::files::tighten;
use crate::files::token::Token;
use crate::files::{Readers, write_atomic};
use crate::limits::{ADMIN_WAIT_MS, TOKEN_TEXT_BYTES_MAX};
use crate::node::first_state;
use crate::peer::join::{JoinGrant, JoinToken, NotJoined, ask};
use crate::peer::node_number;
use crate::problem::{Exit, Problem};
use clap::Args;
use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
pub(crate) struct JoinArgs {
    /// Directory to create.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The token that `catamaran cluster add` printed.
    #[arg(long, required_unless_present = "token_file", conflicts_with = "token_file", value_name = "TEXT")]
    pub(crate) token: Option<String>,
    /// File with the token; `-` for standard input.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Address for DNS. Can be given several times. `[::]` covers IPv6 only: add 0.0.0.0 for IPv4.
    #[arg(long = "dns", required_unless_present = "no_dns", value_name = "ADDRESS:PORT")]
    pub(crate) dns: Vec<SocketAddr>,
    /// Answer no queries. The node only votes and stores data, for example on the third of three sites.
    #[arg(long, conflicts_with = "dns")]
    pub(crate) no_dns: bool,
    #[command(flatten)]
    pub(crate) peer: PeerArgs,
    /// Address of the API [default: 127.0.0.1:8053].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) api: Option<SocketAddr>,
    /// File with this node's own key, which encrypts the cluster's data key. Created if missing [default:
    /// DIR/wrapping.key]
    #[arg(long, value_name = "FILE")]
    pub(crate) wrapping_key: Option<PathBuf>,
}

pub(crate) fn run(args: &JoinArgs) -> Result<(), Problem> {
    let place = PeerAddresses::of(&args.peer)?;
    let token = JoinToken::from_text(token_of(args)?.trim()).ok_or_else(|| {
        Problem::new(Exit::Usage, "cannot read the token", "a part of it is missing or altered")
            .hint("copy the whole line that `catamaran cluster add` printed")
    })?;
    let layout = Layout::new(&args.dir);
    if layout.ca_cert().exists() {
        return Err(Problem::new(
            Exit::Refused,
            "cannot create a node",
            "the directory has a node, which is never overwritten",
        )
        .at(args.dir.display())
        .hint("choose another --dir"));
    }
    // Before the token is used.
    try_directory(&args.dir)?;
    let failed = |error: io::Error| Problem::new(Exit::Failed, "cannot join", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let wait = Duration::from_millis(2 * ADMIN_WAIT_MS);
    let grant = runtime.block_on(ask(&token, &place.advertised(), wait)).map_err(not_joined)?;
    let number = node_number(grant.id);
    let files = layout.node(number);
    let config = save(args, &layout, &grant, place).map_err(|error| {
        Problem::new(Exit::Failed, "cannot create the node's files", error).at(args.dir.display()).hint(format!(
            "the token is used, and the cluster expects node {number}: run `catamaran cluster remove {number}`, then \
             join with a new token"
        ))
    })?;
    first_state::make(&config.clone().based(files.dir()))?;
    super::init::finish(&files, &config)?;
    let (program, config) = (super::program(), files.config());
    print(&format!("joined as node {number}; run it with:\n  {program} serve --config {}", config.display()))
}

fn not_joined(why: NotJoined) -> Problem {
    let what = "cannot join the cluster";
    match why {
        NotJoined::Unreachable(why) => Problem::new(Exit::Unreachable, what, why)
            .hint("the token was not used: try again when that node runs and the cluster has a leader"),
        NotJoined::Unknown(why) => Problem::unknown(why)
            .hint("check `catamaran cluster status`: remove the node if it is there, then join with a new token"),
        NotJoined::Refused(why) => Problem::new(Exit::Refused, what, why).hint(
            "if it is the token, print a new one with `catamaran cluster add`: each admits one node within one hour, \
             and only to the cluster that made it",
        ),
    }
}

/// Creates the directory, and tests that files can be created in it.
fn try_directory(dir: &Path) -> Result<(), Problem> {
    let probe = dir.join(".catamaran-join");
    let tried = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&probe, [])).and_then(|()| {
        // A file that stays does no harm.
        std::fs::remove_file(&probe)
    });
    tried.map_err(|error| Problem::new(Exit::Failed, "cannot create the node's files", error).at(dir.display()))
}

/// Reads the token from the command line, a file or standard input.
fn token_of(args: &JoinArgs) -> Result<String, Problem> {
    let Some(file) = &args.token_file else { return Ok(args.token.clone().unwrap_or_default()) };
    let mut text = String::new();
    let read = |from: &mut dyn Read, text: &mut String| from.take(TOKEN_TEXT_BYTES_MAX).read_to_string(text);
    let done = match file.as_os_str() == "-" {
        true => read(&mut io::stdin().lock(), &mut text),
        false => File::open(file).and_then(|mut file| read(&mut file, &mut text)),
    };
    let unread = |error: io::Error| Problem::new(Exit::Input, "cannot read the token", error).at(file.display());
    done.map(|_| text).map_err(unread)
}

/// Creates all files but the state and the configuration.
fn save(args: &JoinArgs, layout: &Layout, grant: &JoinGrant, place: PeerAddresses) -> io::Result<Config> {
    let files = layout.node(node_number(grant.id));
    std::fs::create_dir_all(files.data())?;
    tighten::cluster(&args.dir);
    let key =
        |text: &str| data_key::from_base64(text.as_bytes()).ok_or_else(|| io::Error::other("the data key is damaged"));
    let mut keys = DataKeys::first(key(&grant.data_key)?);
    if !grant.data_keys.is_empty() {
        let all = grant.data_keys.iter().map(|(number, text)| Ok((*number, key(text)?)));
        keys = DataKeys { keys: all.collect::<io::Result<_>>()?, clients: key(&grant.clients)? };
    }
    let wrapping = super::init::absolute(args.wrapping_key.as_deref())?;
    DataKeyFile::new(&layout.data_key(), wrapping.as_deref()).save(&keys)?;
    Token::save(&layout.api_token(), &grant.api_token)?;
    write_atomic(&layout.ca_cert(), grant.ca_pem.as_bytes(), Readers::All)?;
    if let Some(id) = &grant.cluster_id {
        cluster_id::save(&cluster_id_of(&layout.ca_cert()), cluster_id::from_text(id.as_bytes())?)?;
    }
    write_atomic(&files.key(), grant.key_pem.as_bytes(), Readers::Owner)?;
    write_atomic(&files.cert(), grant.cert_pem.as_bytes(), Readers::All)?;
    let member =
        |(id, address): &(u64, String)| Ok(Member { id: *id, address: address.parse().map_err(io::Error::other)? });
    let mut members: Vec<Member> = grant.members.iter().map(member).collect::<io::Result<_>>()?;
    members.push(Member { id: grant.id, address: place.advertised() });
    let api = args.api.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8053)));
    let listen = place.listen;
    let config = place.into_config(super::init::config(grant.id, args.dns.clone(), api, listen, members));
    Ok(Config { joined: true, wrapping_key_file: wrapping, ..config })
}
