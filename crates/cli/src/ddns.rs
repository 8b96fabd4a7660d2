//! `ddns`: updates names when addresses change. All but the command line is in the crate `ddns`.

use clap::Args;
use config::files::key_file::TsigKey;
use ddns::config::{Config, ConfigError};
use ddns::{Daemon, ExitReason, RunOptions};
use process::problem::{Exit, Problem};
use process::sandbox;
use process::signals::{self, Hangup};
use process::stop::Stop;
use process::user::effective_user;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tsig::client::ClientKey;

const EXAMPLES: &str = "\
Examples:
  catamaran ddns --config home.toml              run until stopped
  catamaran ddns --config home.toml --dry-run    print the changes, but make none
  catamaran ddns --config home.toml --once       for cron: exit when all names are up to date
  catamaran ddns --config home.toml --once --take-over
                                                 also replace records that another client wrote

A minimal configuration, with a key from `catamaran key add home --update --zone example.org`:
  zone = \"example.org\"
  servers = [\"192.0.2.1\", \"192.0.2.2\"]
  key_file = \"home.key\"
  [[name]]
  name = \"home.example.org\"

With --once, exits with 0 if all names are up to date, with 4 if no server or no probe answers, and with 5 if a name
has foreign records or the servers refuse an update. docs/how-to/ddns-client.md describes all settings.";

/// Arguments of `ddns`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DdnsArgs {
    /// Configuration file: zone, servers, key and names.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Exit when all names are up to date or have failed.
    #[arg(long)]
    once: bool,
    /// Print what would change. Contacts no server and writes no file.
    #[arg(long)]
    dry_run: bool,
    /// Replace records that this client did not write, once for each name.
    #[arg(long)]
    take_over: bool,
}

pub(crate) fn run(args: &DdnsArgs) -> Result<(), Problem> {
    // Set by systemd: the directory that the service may write to.
    let writable = std::env::var_os("STATE_DIRECTORY").map(PathBuf::from);
    let config = Config::load(&args.config, writable.as_deref()).map_err(|error| wrong(&args.config, error))?;
    let key = load_key(&config.key_file)?;
    let run_options = RunOptions { is_once: args.once, is_dry_run: args.dry_run, take_over: args.take_over };
    let (is_confined, metrics) = (config.sandbox, config.metrics_listen);
    let written: Vec<PathBuf> = [config.state_file.clone()].into_iter().chain(config.metrics_file.clone()).collect();
    let daemon =
        Daemon::new(config, key, run_options).map_err(|ended| problem(ended).expect_err("an error at the start"))?;
    if is_confined {
        // Before the first thread: threads that already run would not be confined.
        sandbox::enter_as_ddns(written.iter().map(PathBuf::as_path), metrics);
    }
    process::log::start();
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
        .map_err(|error| Problem::new(Exit::Failed, "cannot start a thread", error))?;
    problem(daemon.run())
}

fn wrong(file: &Path, error: ConfigError) -> Problem {
    let problem = Problem::new(Exit::Input, "invalid configuration", error.what);
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
            .hint("create a key with hmac-sha256 on the server"));
    }
    ClientKey::new(key.name.as_ref(), key.algorithm, &key.secret)
        .map_err(|error| Problem::new(Exit::Input, "the key file cannot be used", error).at(file.display()))
}

/// Refuses a key file that other users can access, as OpenSSH does. Group access is allowed if another user owns the
/// file: systemd shares credentials that way.
fn check_readers(file: &Path) -> Result<(), Problem> {
    const OTHERS: u32 = 0o007;
    const GROUP_AND_OTHERS: u32 = 0o077;
    // The file cannot be read either, and reading gives a better error.
    let Ok(data) = std::fs::metadata(file) else { return Ok(()) };
    let refused = if data.uid() == effective_user() { GROUP_AND_OTHERS } else { OTHERS };
    // Only regular files can be read again by other users.
    if !data.is_file() || data.mode() & refused == 0 {
        return Ok(());
    }
    let why = format!("other users may read or change it (mode {:04o})", data.mode() & 0o7777);
    let hint = format!("run `chmod 600 {}`; if another user may have read it, create a new key", file.display());
    Err(Problem::new(Exit::Input, "the key file cannot be used", why).at(file.display()).hint(hint))
}

fn problem(ended: ExitReason) -> Result<(), Problem> {
    Err(match ended {
        ExitReason::Done => return Ok(()),
        ExitReason::Refused(why) => Problem::new(Exit::Refused, "a name was not updated", why),
        ExitReason::ForeignRecord(why) => Problem::new(Exit::Refused, "a name was not updated", why)
            .hint("to replace these records once, use --take-over"),
        ExitReason::Unreachable(why) => Problem::new(Exit::Unreachable, "a name may not be up to date", why),
        ExitReason::Failed(what, place, error) => Problem::new(Exit::Failed, what, error).at(place),
        ExitReason::InUse(file) => {
            Problem::new(Exit::InUse, "another process updates these names", "it has locked the state file")
                .at(file.display())
                .hint("stop that process, or set another `state_file` for this one")
        }
    })
}
