//! `join`: a token on the one side, the files of a new node on the other.

use super::init::{PeerArgs, PeerPlace};
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
#[command(after_help = EXAMPLES)]
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

pub(crate) fn run(args: &JoinArgs) -> Result<(), Problem> {
    let place = PeerPlace::of(&args.peer)?;
    let token = JoinToken::from_text(token_of(args)?.trim()).ok_or_else(|| {
        Problem::new(Exit::Usage, "the token cannot be read", "a part of it is missing or altered")
            .hint("copy the whole line that `catamaran cluster add` printed")
    })?;
    let layout = Layout::new(&args.dir);
    if layout.ca_cert().exists() {
        return Err(Problem::new(Exit::Refused, "a node was made there before", "it is never overwritten")
            .at(args.dir.display())
            .hint("choose another --dir"));
    }
    // Before the token is used up.
    try_directory(&args.dir)?;
    let failed = |error: io::Error| Problem::new(Exit::Failed, "cannot join", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let wait = Duration::from_millis(2 * ADMIN_WAIT_MS);
    let grant = runtime.block_on(ask(&token, &place.advertised(), wait)).map_err(not_joined)?;
    let number = node_number(grant.id);
    let files = layout.node(number);
    let config = save(args, &layout, &grant, place).map_err(|error| {
        Problem::new(Exit::Failed, "the node's files cannot be made", error).at(args.dir.display()).hint(format!(
            "the token is used and the cluster waits for node {number}: `catamaran cluster remove {number}`, and join \
             with a new token"
        ))
    })?;
    first_state::make(&config.clone().based(files.dir()))?;
    super::init::finish(&files, &config)?;
    let (program, config) = (super::program(), files.config());
    print(&format!("joined as node {number}; run it with:\n  {program} serve --config {}", config.display()))
}

fn not_joined(why: NotJoined) -> Problem {
    let what = "the cluster did not let this node in";
    match why {
        NotJoined::Unreachable(why) => Problem::new(Exit::Unreachable, what, why)
            .hint("the token is as good as before: try again when that node runs and the cluster has a leader"),
        NotJoined::Unknown(why) => Problem::unknown(why)
            .hint("look first (`catamaran cluster status`): remove the node if it is there, and make a new token"),
        NotJoined::Refused(why) => Problem::new(Exit::Refused, what, why).hint(
            "if it is the token, make a new one with `catamaran cluster add`: each is good for one node and one hour, \
             and for the cluster that made it and no other",
        ),
    }
}

/// Makes the directory, and a file in it for a moment.
fn try_directory(dir: &Path) -> Result<(), Problem> {
    let probe = dir.join(".catamaran-join");
    let tried = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&probe, [])).and_then(|()| {
        // One that stays harms nobody.
        std::fs::remove_file(&probe)
    });
    tried.map_err(|error| Problem::new(Exit::Failed, "the node's files cannot be made", error).at(dir.display()))
}

/// The text of the token, wherever it stands.
fn token_of(args: &JoinArgs) -> Result<String, Problem> {
    let Some(file) = &args.token_file else { return Ok(args.token.clone().unwrap_or_default()) };
    let mut text = String::new();
    let read = |from: &mut dyn Read, text: &mut String| from.take(TOKEN_TEXT_BYTES_MAX).read_to_string(text);
    let done = match file.as_os_str() == "-" {
        true => read(&mut io::stdin().lock(), &mut text),
        false => File::open(file).and_then(|mut file| read(&mut file, &mut text)),
    };
    let unread = |error: io::Error| Problem::new(Exit::Input, "the token cannot be read", error).at(file.display());
    done.map(|_| text).map_err(unread)
}

/// Makes everything but the state and the configuration.
fn save(args: &JoinArgs, layout: &Layout, grant: &JoinGrant, place: PeerPlace) -> io::Result<Config> {
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
