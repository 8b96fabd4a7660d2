//! `join`: creates a node with a join token of the cluster.

use super::init::PeerAddresses;
use crate::limits::{ADMIN_WAIT_MS, TOKEN_TEXT_BYTES_MAX};
use crate::peer::join::{JoinGrant, JoinToken, NotJoined, ask};
use crate::replica_host::first_state;
use crate::tls::names::node_number;
use cli::node::join::JoinArgs;
use cli::output::print;
use cli::target::program;
use config::files::cluster_id;
use config::files::data_key::{self, DataKeyFile, DataKeys};
use config::files::layout::{Layout, cluster_id_of};
use config::files::tighten;
use config::files::token::Token;
use config::files::{Readers, write_atomic};
use config::{Config, Member};
use process::problem::{Exit, Problem};
use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub(crate) fn run(args: &JoinArgs) -> Result<(), Problem> {
    let addresses = PeerAddresses::of(&args.peer)?;
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
    // This check comes before the token is used up.
    try_directory(&args.dir)?;
    let failed = |error: io::Error| Problem::new(Exit::Failed, "cannot join", error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let wait = Duration::from_millis(2 * ADMIN_WAIT_MS);
    let grant = runtime.block_on(ask(&token, &addresses.advertised(), wait)).map_err(not_joined)?;
    let number = node_number(grant.id);
    let files = layout.node(number);
    let config = save(args, &layout, &grant, addresses).map_err(|error| {
        Problem::new(Exit::Failed, "cannot create the node's files", error).at(args.dir.display()).hint(format!(
            "the token is used, and the cluster expects node {number}: run `catamaran cluster remove {number}`, then \
             join with a new token"
        ))
    })?;
    first_state::make(&config.clone().based(files.dir()))?;
    super::init::finish(&files, &config)?;
    let (program, config) = (program(), files.config());
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
    let done = match file.as_os_str() == "-" {
        true => {
            if io::stdin().is_terminal() {
                // Without this line the command still works.
                let prompt = "paste the token that `catamaran cluster add` printed, then press Enter:";
                let _ = writeln!(io::stderr(), "{prompt}");
            }
            first_line(io::stdin().lock(), &mut text)
        }
        false => File::open(file).and_then(|file| file.take(TOKEN_TEXT_BYTES_MAX).read_to_string(&mut text)),
    };
    let unread = |error: io::Error| Problem::new(Exit::Input, "cannot read the token", error).at(file.display());
    done.map(|_| text).map_err(unread)
}

/// Reads the first line that is not empty, so that a pasted token needs no end of input.
fn first_line(from: impl BufRead, text: &mut String) -> io::Result<usize> {
    let mut from = from.take(TOKEN_TEXT_BYTES_MAX);
    loop {
        let count = from.read_line(text)?;
        if count == 0 || !text.trim().is_empty() {
            return Ok(text.len());
        }
    }
}

/// Creates all files but the state and the configuration.
fn save(args: &JoinArgs, layout: &Layout, grant: &JoinGrant, addresses: PeerAddresses) -> io::Result<Config> {
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
    members.push(Member { id: grant.id, address: addresses.advertised() });
    let api = args.api.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8053)));
    let listen = addresses.listen;
    let config = addresses.into_config(super::init::config(grant.id, args.dns.clone(), api, listen, members));
    Ok(Config { joined: true, wrapping_key_file: wrapping, ..config })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input that never ends, such as a terminal.
    struct Open;

    impl Read for Open {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("read past the line of the token"))
        }
    }

    #[test]
    fn a_pasted_token_ends_with_its_line() {
        let mut text = String::new();
        first_line(io::BufReader::new((&b"\n  token\n"[..]).chain(Open)), &mut text).unwrap();
        assert_eq!(text.trim(), "token");
        // A file without a newline at its end.
        let mut text = String::new();
        first_line(&b"token"[..], &mut text).unwrap();
        assert_eq!(text, "token");
    }
}
