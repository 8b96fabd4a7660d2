//! `ddns`: the client that keeps names on changing addresses; all but the command line is in the crate `ddns`.

use crate::files::key_file::TsigKey;
use crate::node::system::effective_user;
use crate::problem::{Exit, Problem};
use crate::sandbox;
use crate::signals::{self, Hangup};
use crate::stop::Stop;
use clap::Args;
use ddns::config::{Config, ConfigError};
use ddns::{Daemon, Ended, Manner};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tsig::client::ClientKey;

const EXAMPLES: &str = "\
Examples:
  catamaran ddns --config home.toml              keeps the names until it is stopped
  catamaran ddns --config home.toml --dry-run    says what it would change, and changes nothing
  catamaran ddns --config home.toml --once       for cron: ends when the names are right
  catamaran ddns --config home.toml --once --take-over
                                                 takes records over that somebody else has written

A configuration that is enough, with a key from `catamaran key add home --update --zone example.org`:
  zone = \"example.org\"
  servers = [\"192.0.2.1\", \"192.0.2.2\"]
  key_file = \"home.key\"
  [[name]]
  name = \"home.example.org\"

With --once the exit code is 0 when all names have what they shall have, 4 when no server or no probe
answers, 5 when a name is another's or the servers refuse. docs/how-to/ddns-client.md has all keys.";

/// Arguments of `ddns`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DdnsArgs {
    /// Configuration: zone, servers, key and names.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// End when all names have what they shall have, or cannot get it.
    #[arg(long)]
    once: bool,
    /// Say what would be changed; ask no server, write no file.
    #[arg(long)]
    dry_run: bool,
    /// Take over records that are there and that this client has not written, once for each name.
    #[arg(long)]
    take_over: bool,
}

pub(crate) fn run(args: &DdnsArgs) -> Result<(), Problem> {
    // systemd tells where a service may write.
    let writable = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    let config = Config::load(&args.config, writable.as_deref()).map_err(|error| wrong(&args.config, error))?;
    let key = load_key(&config.key_file)?;
    let manner = Manner { is_once: args.once, is_dry_run: args.dry_run, take_over: args.take_over };
    let (is_confined, metrics) = (config.sandbox, config.metrics_listen);
    let written: Vec<PathBuf> = [config.state_file.clone()].into_iter().chain(config.metrics_file.clone()).collect();
    let daemon = Daemon::new(config, key, manner).map_err(|ended| problem(ended).expect_err("it has not begun"))?;
    if is_confined {
        // Before the first thread: a thread that ran already would keep what the others give up.
        sandbox::enter_as_ddns(written.iter().map(PathBuf::as_path), metrics);
    }
    crate::log::start();
    let stop = Stop::default();
    signals::handle(&stop, Hangup::Ignored)?;
    let stopper = daemon.stopper();
    let wait = move || {
        while !stop.wait(Duration::from_secs(3_600)) {}
        stopper.stop();
    };
    std::thread::Builder::new()
        .name("stop".into())
        .spawn(wait)
        .map_err(|error| Problem::new(Exit::Failed, "a thread cannot be started", error))?;
    problem(daemon.run())
}

fn wrong(file: &Path, error: ConfigError) -> Problem {
    let problem = Problem::new(Exit::Input, "the configuration is wrong", error.what);
    let problem = match error.line {
        Some(line) => problem.at(format!("{}:{line}", file.display())),
        None => problem.at(file.display()),
    };
    match error.hint {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn load_key(file: &Path) -> Result<ClientKey, Problem> {
    check_readers(file)?;
    let key = TsigKey::load(file)?;
    if key.algorithm.is_weak() {
        let why = format!("{} is weak (RFC 8945 6)", key.algorithm.mnemonic());
        return Err(Problem::new(Exit::Input, "the key file cannot be used", why)
            .at(file.display())
            .hint("make a key of hmac-sha256 at the server"));
    }
    ClientKey::new(key.name.as_ref(), key.algorithm, &key.secret)
        .map_err(|error| Problem::new(Exit::Input, "the key file cannot be used", error).at(file.display()))
}

/// Refuses a key that others on this machine can read, as OpenSSH does. What its owner shares with a group or by an
/// access list, as systemd does with credentials, is the owner's business: then the owner is another user.
fn check_readers(file: &Path) -> Result<(), Problem> {
    const OTHERS: u32 = 0o007;
    const GROUP_AND_OTHERS: u32 = 0o077;
    // What cannot be looked at cannot be read either, and reading says why.
    let Ok(data) = std::fs::metadata(file) else { return Ok(()) };
    let refused = if data.uid() == effective_user() { GROUP_AND_OTHERS } else { OTHERS };
    // A pipe or a terminal is nobody's to read twice.
    if !data.is_file() || data.mode() & refused == 0 {
        return Ok(());
    }
    let why = format!("other users may read or change it (mode {:04o})", data.mode() & 0o7777);
    let hint = format!("`chmod 600 {}`; and make another key if somebody may have read it", file.display());
    Err(Problem::new(Exit::Input, "the key file cannot be used", why).at(file.display()).hint(hint))
}

fn problem(ended: Ended) -> Result<(), Problem> {
    Err(match ended {
        Ended::Done => return Ok(()),
        Ended::Refused(why) => Problem::new(Exit::Refused, "a name does not have what it shall have", why),
        Ended::Anothers(why) => Problem::new(Exit::Refused, "a name does not have what it shall have", why)
            .hint("if the records there are yours to replace, once: --take-over"),
        Ended::Unreachable(why) => Problem::new(Exit::Unreachable, "a name may not have what it shall have", why),
        Ended::Failed(what, place, error) => Problem::new(Exit::Failed, what, error).at(place),
        Ended::InUse(file) => Problem::new(Exit::InUse, "another process keeps these names", "it has the state file")
            .at(file.display())
            .hint("stop it, or give this one a `state_file` of its own"),
    })
}
