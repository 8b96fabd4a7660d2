//! The event loop: passes events to the state machine, and executes its actions.

use crate::address::{Addresses, Family, InterfaceAddress};
use crate::config::Config;
use crate::files::{read_bounded, write_atomic};
use crate::limits::{ADDRESSES_MAX, EVENTS_MAX, ONCE_MS, STATE_BYTES_MAX};
use crate::machine::{Action, Machine, NameError, NameStatus, Notice, Options, Request, Update};
use crate::metrics::{Counters, SharedPage, serve};
use crate::netlink::{Changes, list_addresses};
use crate::outcome::{Failure, Outcome};
use crate::state::SavedState;
use crate::time::{Clock, sleep_ms};
use crate::{exchange, probe};
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tsig::client::ClientKey;

/// Options of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Exit when all names are up to date or have failed.
    pub is_once: bool,
    /// Send nothing to servers, and write no files. Implies `is_once`.
    pub is_dry_run: bool,
    /// Each name may take over foreign records once.
    pub take_over: bool,
}

/// Why the daemon exited or cannot start.
#[derive(Debug)]
pub enum ExitReason {
    /// It was stopped, or a single run succeeded.
    Done,
    /// Single run: the servers refuse, or a name is an alias.
    Refused(String),
    /// Single run: a name has foreign records.
    ForeignRecord(String),
    /// Single run: no server or no probe answers.
    Unreachable(String),
    /// It cannot run: the error, the file or address, and the reason.
    Failed(&'static str, String, io::Error),
    /// Another process has locked the state file.
    InUse(PathBuf),
}

enum Event {
    Interfaces(Vec<InterfaceAddress>),
    Outcome(u64, Outcome),
    Probe(u64, &'static str, Option<IpAddr>),
    /// A thread panicked; this is its name.
    Panicked(&'static str),
    Stop,
}

/// Stops a running daemon.
pub struct Stopper(SyncSender<Event>);

impl Stopper {
    /// Stops the daemon.
    pub fn stop(&self) {
        // Fails only if the daemon has exited.
        let _ = self.0.send(Event::Stop);
    }
}

/// The daemon.
pub struct Daemon {
    config: Arc<Config>,
    key: Arc<ClientKey>,
    run_options: RunOptions,
    clock: Clock,
    machine: Machine,
    counters: Counters,
    shared_page: SharedPage,
    page: String,
    can_save: bool,
    sender: SyncSender<Event>,
    events: Receiver<Event>,
    /// Keeps the state file locked.
    _lock: Option<File>,
}

impl Daemon {
    /// Reads the state file. Sends nothing yet.
    ///
    /// # Errors
    /// Why it cannot run.
    pub fn new(config: Config, key: ClientKey, run_options: RunOptions) -> Result<Self, ExitReason> {
        let lock = if run_options.is_dry_run { None } else { Some(lock(&config)?) };
        let saved = load(&config);
        let mut seed = [0; 8];
        // Without random bytes, only the jitter is always the same.
        let _ = SystemRandom::new().fill(&mut seed);
        let options = Options {
            is_dry_run: run_options.is_dry_run,
            take_over: run_options.take_over,
            check_period_s: config.check_period_s,
            seed: u64::from_ne_bytes(seed),
        };
        let (sender, events) = sync_channel(EVENTS_MAX);
        Ok(Self {
            machine: Machine::new(&config, saved, options),
            config: Arc::new(config),
            key: Arc::new(key),
            run_options,
            clock: Clock::start(),
            counters: Counters::default(),
            shared_page: SharedPage::default(),
            page: String::new(),
            can_save: true,
            sender,
            events,
            _lock: lock,
        })
    }

    /// A handle that stops the daemon.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Runs until it is stopped, or until a single run has finished.
    pub fn run(mut self) -> ExitReason {
        if let Err(reason) = self.begin() {
            return reason;
        }
        let is_once = self.run_options.is_once || self.run_options.is_dry_run;
        loop {
            self.act();
            self.show();
            let now = self.clock.now();
            if is_once && let Some(reason) = self.run_result() {
                return reason;
            }
            if is_once && now.ms > ONCE_MS {
                return ExitReason::Unreachable("the time limit of --once is reached".into());
            }
            let wait_ms = self.machine.wake_ms(now).map_or(60_000, |wake| wake.saturating_sub(now.ms)).min(60_000);
            // At least a millisecond, so that the loop always makes progress.
            match self.events.recv_timeout(Duration::from_millis(wait_ms.max(1))) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return ExitReason::Done,
                // The machine would wait forever for the thread. The service manager restarts the process.
                Ok(Event::Panicked(thread)) => {
                    let bug = io::Error::other("this is a bug, please report it");
                    return ExitReason::Failed("a thread panicked", thread.into(), bug);
                }
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => self.machine.handle_time(self.clock.now()),
            }
        }
    }

    fn begin(&self) -> Result<(), ExitReason> {
        let failed = |what, path: &str| {
            let path = path.to_owned();
            move |error| ExitReason::Failed(what, path, error)
        };
        if let Some(address) =
            self.config.metrics_listen.filter(|_| !self.run_options.is_once && !self.run_options.is_dry_run)
        {
            let listener = TcpListener::bind(address).map_err(failed("cannot serve metrics", &address.to_string()))?;
            let shared_page = self.shared_page.clone();
            self.spawn("metrics", move || serve(&listener, &shared_page))
                .map_err(failed("cannot start a thread", "metrics"))?;
        }
        // Subscribe before the first list, so that no change is missed.
        let changes = Changes::subscribe().map_err(failed("cannot watch addresses", "netlink"))?;
        let sender = self.sender.clone();
        let watch = move || {
            loop {
                match list_addresses() {
                    Ok(addresses) => {
                        // The send fails only if the process is exiting.
                        let Ok(()) = sender.send(Event::Interfaces(addresses)) else { return };
                    }
                    Err(error) => tracing::warn!(%error, "cannot list addresses"),
                }
                if let Err(error) = changes.wait() {
                    tracing::warn!(%error, "cannot watch addresses");
                    sleep_ms(1_000);
                }
            }
        };
        self.spawn("addresses", watch).map_err(failed("cannot start a thread", "addresses"))
    }

    fn handle(&mut self, event: Event) {
        let now = self.clock.now();
        match event {
            Event::Interfaces(addresses) => self.machine.handle_interfaces(addresses, now),
            Event::Outcome(token, outcome) => self.machine.handle_outcome(token, outcome, now),
            Event::Probe(token, kind, answer) => {
                self.counters.probed(kind, answer.is_some());
                self.machine.handle_probe(token, answer, now);
            }
            Event::Stop | Event::Panicked(_) => {}
        }
    }

    /// Executes the actions of the state machine.
    fn act(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Save(saved) => {
                    let result = write_atomic(&self.config.state_file, &saved.to_bytes(), true);
                    self.can_save = result.is_ok();
                    if let Err(error) = result {
                        self.counters.state_failed();
                        let file = self.config.state_file.display();
                        tracing::error!(%file, %error, "cannot write the state file, so no updates are sent");
                    }
                }
                Action::Send(request) => self.send(request),
                Action::Probe { token, probe, family } => self.probe(token, probe, family),
                Action::Report(notice) => self.report(&notice),
            }
        }
    }

    fn send(&mut self, request: Request) {
        let (Request::Update { token, server, .. } | Request::Query { token, server, .. }) = request;
        let fail = |why: String| Outcome::Unreachable(Failure::Network(why));
        if !self.can_save && matches!(request, Request::Update { .. }) {
            let outcome = fail("cannot write the state file".into());
            return self.machine.handle_outcome(token, outcome, self.clock.now());
        }
        let (config, key, sender) = (self.config.clone(), self.key.clone(), self.sender.clone());
        let ask = move || {
            let outcome = exchange::ask(&request, &config.servers[server], &config.zone, &key);
            // The send fails only if the process is exiting.
            let _ = sender.send(Event::Outcome(token, outcome));
        };
        if let Err(error) = self.spawn("exchange", ask) {
            self.machine.handle_outcome(token, fail(error.to_string()), self.clock.now());
        }
    }

    fn probe(&mut self, token: u64, probe: usize, family: Family) {
        let (config, sender) = (self.config.clone(), self.sender.clone());
        let ask = move || {
            let (probe, authorities) = (&config.public_address.probes[probe], &config.public_address.authorities_file);
            let answer = probe::ask(probe, family, authorities);
            if let Err(why) = &answer {
                tracing::debug!(kind = probe.kind(), family = family.label(), %why, "a probe failed");
            }
            // The send fails only if the process is exiting.
            let _ = sender.send(Event::Probe(token, probe.kind(), answer.ok()));
        };
        if self.spawn("probe", ask).is_err() {
            self.machine.handle_probe(token, None, self.clock.now());
        }
    }

    fn report(&mut self, notice: &Notice) {
        self.counters.count(notice);
        let server = |index: &usize| self.config.servers[*index].to_string();
        match notice {
            Notice::TargetChanged { name, family, addresses } => {
                let addresses = addresses.as_ref().map_or("not managed".to_owned(), list);
                tracing::info!(%name, family = family.label(), addresses, "target addresses changed");
            }
            Notice::Updated { server: at, update } => {
                tracing::info!(server = server(at), name = %update.owner, change = describe(update), "updated");
            }
            Notice::DryRun { server: at, update } => {
                let would = format!("would update {} on {}: {}", update.owner, server(at), describe(update));
                // The reader may have closed the pipe.
                let _ = writeln!(io::stdout(), "{would}");
            }
            Notice::Confirmed { server: at, name } => {
                tracing::info!(server = server(at), %name, "already up to date");
            }
            Notice::ServerFailed { server: at, name, why } => {
                tracing::warn!(server = server(at), %name, why, "request failed");
            }
            Notice::RetryLater { name, pause_ms, error } => {
                tracing::warn!(%name, pause_ms, why = explain(error), "update failed; it is retried later");
            }
            Notice::PublicAddress { family, found: Ok(address) } => {
                tracing::debug!(family = family.label(), %address, "found the public address");
            }
            Notice::PublicAddress { family, found: Err(answered) } => {
                tracing::warn!(family = family.label(), answered, "not enough probes agree on a public address");
            }
        }
    }

    /// Starts a thread. The daemon exits if it panics.
    fn spawn(&self, name: &'static str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        spawn(name, self.sender.clone(), run)
    }

    /// Updates the metrics if they have changed.
    fn show(&mut self) {
        if self.run_options.is_dry_run {
            return;
        }
        let servers: Vec<String> = self.config.servers.iter().map(ToString::to_string).collect();
        let page = self.counters.page(&self.machine, &servers, self.clock.now());
        if page == self.page {
            return;
        }
        if let Some(file) = &self.config.metrics_file
            && let Err(error) = write_atomic(file, page.as_bytes(), false)
        {
            tracing::warn!(file = %file.display(), %error, "cannot write metrics");
        }
        *self.shared_page.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = page.clone();
        self.page = page;
    }

    /// The result of a single run. `None` while it is running.
    fn run_result(&self) -> Option<ExitReason> {
        let mut unreachable = None;
        let mut refused = None;
        let mut foreign = None;
        for (name, status) in self.machine.name_statuses(self.clock.now()) {
            match status {
                NameStatus::Pending => return None,
                NameStatus::UpToDate => {}
                NameStatus::Failed(error @ NameError::Unreachable(_)) => {
                    unreachable = Some(format!("{name}: {}", explain(&error)));
                }
                NameStatus::Failed(error @ NameError::ForeignRecord(_))
                    if !self.run_options.take_over && !is_alias(&error) =>
                {
                    foreign = Some(format!("{name}: {}", explain(&error)));
                }
                NameStatus::Failed(error) => refused = Some(format!("{name}: {}", explain(&error))),
            }
        }
        if let Some(family) = self.machine.without_public_address().next() {
            unreachable.get_or_insert(format!("no public {} address was found", family.label()));
        }
        let reason = refused
            .map(ExitReason::Refused)
            .or(foreign.map(ExitReason::ForeignRecord))
            .or(unreachable.map(ExitReason::Unreachable));
        Some(reason.unwrap_or(ExitReason::Done))
    }
}

/// Reports a panic of its thread when it is dropped.
struct PanicReport(&'static str, SyncSender<Event>);

impl Drop for PanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The send fails only after the daemon has ended.
            let _ = self.1.send(Event::Panicked(self.0));
        }
    }
}

fn spawn(name: &'static str, events: SyncSender<Event>, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let report = PanicReport(name, events);
    let run = move || {
        let _report = report;
        run();
    };
    std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
}

/// Locks the state file: two processes with the same names would undo each other's updates.
fn lock(config: &Config) -> Result<File, ExitReason> {
    let mut name = config.state_file.clone().into_os_string();
    name.push(".lock");
    let path = PathBuf::from(name);
    let failed = |error| ExitReason::Failed("cannot lock the state file", path.display().to_string(), error);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ExitReason::InUse(config.state_file.clone())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn load(config: &Config) -> SavedState {
    let zone = config.zone.to_string();
    let file = config.state_file.display();
    let why = match read_bounded(&config.state_file, STATE_BYTES_MAX) {
        Ok(bytes) => match SavedState::parse(&bytes, &zone) {
            Ok(saved) => return saved,
            Err(why) => why,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return SavedState::new(&zone),
        Err(error) => error.to_string(),
    };
    tracing::warn!(%file, why, "cannot use the state file; records that differ from the target are treated as foreign");
    SavedState::new(&zone)
}

fn list(addresses: &Addresses) -> String {
    let texts: Vec<String> = addresses.iter().take(ADDRESSES_MAX).map(ToString::to_string).collect();
    let more = if addresses.len() > ADDRESSES_MAX { " and more" } else { "" };
    if texts.is_empty() { "none".into() } else { texts.join(", ") + more }
}

fn describe(update: &Update) -> String {
    let changes = update.changes.iter().map(|change| {
        let rtype = change.family.rtype().mnemonic().unwrap_or_default();
        format!("{rtype} from {} to {}", list(&change.from), list(&change.to))
    });
    format!("{}, TTL {}", changes.collect::<Vec<_>>().join("; "), update.ttl)
}

/// An alias cannot be taken over.
const fn is_alias(error: &NameError) -> bool {
    matches!(error, NameError::ForeignRecord(observed) if observed.is_alias)
}

fn explain(error: &NameError) -> String {
    match error {
        NameError::ForeignRecord(observed) if observed.is_alias => "the name is an alias".into(),
        NameError::ForeignRecord(observed) => format!("the name has foreign records: {}", list(&observed.addresses)),
        NameError::Refused(refusal) => refusal.to_string(),
        NameError::Unreachable(failure) => failure.to_string(),
    }
}
