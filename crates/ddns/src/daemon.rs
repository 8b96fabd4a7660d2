//! Drives the machine: gives it what happened, does what it wants done.

use crate::address::{Addresses, Family, InterfaceAddress};
use crate::config::Config;
use crate::files::{read_bounded, write_atomic};
use crate::limits::{ADDRESSES_MAX, EVENTS_MAX, ONCE_MS, STATE_BYTES_MAX};
use crate::machine::{Action, Machine, Notice, Options, Request, Standing, Trouble, Update};
use crate::metrics::{Counters, Shown, serve};
use crate::netlink::{Changes, look};
use crate::outcome::{Failure, Outcome};
use crate::state::Saved;
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

/// How it is to run.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// It ends when all names have what they shall have, or cannot get it.
    pub is_once: bool,
    /// Nothing is sent to servers and nothing is written; implies `is_once`.
    pub is_dry_run: bool,
    /// Each name takes the records over that are there.
    pub take_over: bool,
}

/// Why it cannot run, or how it ended.
#[derive(Debug)]
pub enum Ended {
    /// It was told to stop, or has done what it was to do once.
    Done,
    /// Of one run: the servers refuse, or a name is an alias.
    Refused(String),
    /// Of one run: a name has records of somebody else.
    Anothers(String),
    /// Of one run: no server, or no probe, answers.
    Unreachable(String),
    /// It cannot run: what it wanted, which file or address it is about, and why.
    Failed(&'static str, String, io::Error),
    /// Another process has the state file.
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

/// Tells a running daemon to stop.
pub struct Stopper(SyncSender<Event>);

impl Stopper {
    /// Gives the order.
    pub fn stop(&self) {
        // One that has ended needs no order.
        let _ = self.0.send(Event::Stop);
    }
}

/// A daemon that has not begun.
pub struct Daemon {
    config: Arc<Config>,
    key: Arc<ClientKey>,
    manner: Manner,
    clock: Clock,
    machine: Machine,
    counters: Counters,
    shown: Shown,
    page: String,
    can_save: bool,
    sender: SyncSender<Event>,
    events: Receiver<Event>,
    /// Held as long as this process runs.
    _lock: Option<File>,
}

impl Daemon {
    /// Reads what is remembered; sends nothing yet.
    ///
    /// # Errors
    /// Why it cannot run.
    pub fn new(config: Config, key: ClientKey, manner: Manner) -> Result<Self, Ended> {
        let lock = if manner.is_dry_run { None } else { Some(lock(&config)?) };
        let saved = load(&config);
        let mut seed = [0; 8];
        // Without chance, jitter is the same each time: no reason not to run.
        let _ = SystemRandom::new().fill(&mut seed);
        let options = Options {
            is_dry_run: manner.is_dry_run,
            take_over: manner.take_over,
            check_period_s: config.check_period_s,
            seed: u64::from_ne_bytes(seed),
        };
        let (sender, events) = sync_channel(EVENTS_MAX);
        Ok(Self {
            machine: Machine::new(&config, saved, options),
            config: Arc::new(config),
            key: Arc::new(key),
            manner,
            clock: Clock::start(),
            counters: Counters::default(),
            shown: Shown::default(),
            page: String::new(),
            can_save: true,
            sender,
            events,
            _lock: lock,
        })
    }

    /// To be kept by whoever may want it to stop.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// Runs until it is told to stop, or has done what it was to do once.
    pub fn run(mut self) -> Ended {
        if let Err(ended) = self.begin() {
            return ended;
        }
        let is_once = self.manner.is_once || self.manner.is_dry_run;
        loop {
            self.act();
            self.show();
            let now = self.clock.now();
            if is_once && let Some(ended) = self.verdict() {
                return ended;
            }
            if is_once && now.ms > ONCE_MS {
                return Ended::Unreachable("it took too long".into());
            }
            let wait_ms = self.machine.wake_ms(now).map_or(60_000, |wake| wake.saturating_sub(now.ms)).min(60_000);
            // What is due now is due when a millisecond has passed, and so it ends.
            match self.events.recv_timeout(Duration::from_millis(wait_ms.max(1))) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Ended::Done,
                // The machine would wait forever for the thread. The service manager restarts the process.
                Ok(Event::Panicked(thread)) => {
                    let bug = io::Error::other("it panicked, which is a bug, please report it");
                    return Ended::Failed("a thread has ended", thread.into(), bug);
                }
                Ok(event) => self.handle(event),
                Err(RecvTimeoutError::Timeout) => self.machine.handle_time(self.clock.now()),
            }
        }
    }

    fn begin(&self) -> Result<(), Ended> {
        let failed = |what, place: &str| {
            let place = place.to_owned();
            move |error| Ended::Failed(what, place, error)
        };
        if let Some(address) = self.config.metrics_listen.filter(|_| !self.manner.is_once && !self.manner.is_dry_run) {
            let listener =
                TcpListener::bind(address).map_err(failed("metrics cannot be served", &address.to_string()))?;
            let shown = self.shown.clone();
            self.spawn("metrics", move || serve(&listener, &shown))
                .map_err(failed("a thread cannot be started", "metrics"))?;
        }
        // First what hears of changes, then the first look: no change falls between them.
        let changes = Changes::subscribe().map_err(failed("addresses cannot be watched", "netlink"))?;
        let sender = self.sender.clone();
        let watch = move || {
            loop {
                match look() {
                    Ok(addresses) => {
                        // Nobody listens any more: the process ends.
                        let Ok(()) = sender.send(Event::Interfaces(addresses)) else { return };
                    }
                    Err(error) => tracing::warn!(%error, "addresses cannot be listed"),
                }
                if let Err(error) = changes.wait() {
                    tracing::warn!(%error, "changes of addresses cannot be heard");
                    sleep_ms(1_000);
                }
            }
        };
        self.spawn("addresses", watch).map_err(failed("a thread cannot be started", "addresses"))
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

    /// Does what the machine wants done.
    fn act(&mut self) {
        while let Some(action) = self.machine.poll_action() {
            match action {
                Action::Save(saved) => {
                    let written = write_atomic(&self.config.state_file, &saved.to_bytes(), true);
                    self.can_save = written.is_ok();
                    if let Err(error) = written {
                        self.counters.state_failed();
                        let file = self.config.state_file.display();
                        tracing::error!(%file, %error, "the state cannot be written, so nothing is sent");
                    }
                }
                Action::Send(request) => self.send(request),
                Action::Probe { token, probe, family } => self.probe(token, probe, family),
                Action::Tell(notice) => self.tell(&notice),
            }
        }
    }

    fn send(&mut self, request: Request) {
        let (Request::Update { token, server, .. } | Request::Look { token, server, .. }) = request;
        let fail = |why: String| Outcome::Unreachable(Failure::Network(why));
        if !self.can_save && matches!(request, Request::Update { .. }) {
            let outcome = fail("the state cannot be written".into());
            return self.machine.handle_outcome(token, outcome, self.clock.now());
        }
        let (config, key, sender) = (self.config.clone(), self.key.clone(), self.sender.clone());
        let ask = move || {
            let outcome = exchange::ask(&request, &config.servers[server], &config.zone, &key);
            // Nobody listens any more: the process ends.
            let _ = sender.send(Event::Outcome(token, outcome));
        };
        if let Err(error) = self.spawn("exchange", ask) {
            self.machine.handle_outcome(token, fail(error.to_string()), self.clock.now());
        }
    }

    fn probe(&mut self, token: u64, probe: usize, family: Family) {
        let (config, sender) = (self.config.clone(), self.sender.clone());
        let ask = move || {
            let (probe, authorities) = (&config.outside.probes[probe], &config.outside.authorities_file);
            let answer = probe::ask(probe, family, authorities);
            if let Err(why) = &answer {
                tracing::debug!(kind = probe.kind(), family = family.label(), %why, "a probe said nothing");
            }
            // Nobody listens any more: the process ends.
            let _ = sender.send(Event::Probe(token, probe.kind(), answer.ok()));
        };
        if self.spawn("probe", ask).is_err() {
            self.machine.handle_probe(token, None, self.clock.now());
        }
    }

    fn tell(&mut self, notice: &Notice) {
        self.counters.count(notice);
        let server = |index: &usize| self.config.servers[*index].to_string();
        match notice {
            Notice::Wanted { name, family, addresses } => {
                let addresses = addresses.as_ref().map_or("left alone".to_owned(), list);
                tracing::info!(%name, family = family.label(), addresses, "what the name shall have");
            }
            Notice::Updated { server: at, update } => {
                tracing::info!(server = server(at), name = %update.owner, change = describe(update), "updated");
            }
            Notice::Would { server: at, update } => {
                let would = format!("would ask {} to change {}: {}", server(at), update.owner, describe(update));
                // Who reads no more wants to know no more.
                let _ = writeln!(io::stdout(), "{would}");
            }
            Notice::Confirmed { server: at, name } => {
                tracing::info!(server = server(at), %name, "the server has it already");
            }
            Notice::ServerFailed { server: at, name, why } => {
                tracing::warn!(server = server(at), %name, why, "the server did not do it");
            }
            Notice::Resting { name, rest_ms, trouble } => {
                tracing::warn!(%name, rest_ms, why = explain(trouble), "tried again later");
            }
            Notice::Outside { family, found: Ok(address) } => {
                tracing::debug!(family = family.label(), %address, "the outside address");
            }
            Notice::Outside { family, found: Err(answered) } => {
                tracing::warn!(family = family.label(), answered, "no outside address that enough probes agree on");
            }
        }
    }

    /// Starts a thread; the daemon ends when it panics.
    fn spawn(&self, name: &'static str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        spawn(name, self.sender.clone(), run)
    }

    /// Shows metrics when they have changed.
    fn show(&mut self) {
        if self.manner.is_dry_run {
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
            tracing::warn!(file = %file.display(), %error, "metrics cannot be written");
        }
        *self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = page.clone();
        self.page = page;
    }

    /// How one run ended, when it has.
    fn verdict(&self) -> Option<Ended> {
        let mut unreachable = None;
        let mut refused = None;
        let mut anothers = None;
        for (name, standing) in self.machine.standings(self.clock.now()) {
            match standing {
                Standing::Busy => return None,
                Standing::Settled => {}
                Standing::Troubled(trouble @ Trouble::Unreachable(_)) => {
                    unreachable = Some(format!("{name}: {}", explain(&trouble)));
                }
                Standing::Troubled(trouble @ Trouble::Anothers(_)) if !self.manner.take_over && !is_alias(&trouble) => {
                    anothers = Some(format!("{name}: {}", explain(&trouble)));
                }
                Standing::Troubled(trouble) => refused = Some(format!("{name}: {}", explain(&trouble))),
            }
        }
        if let Some(family) = self.machine.without_outside().next() {
            unreachable.get_or_insert(format!("no outside address of {} was found", family.label()));
        }
        let ended =
            refused.map(Ended::Refused).or(anothers.map(Ended::Anothers)).or(unreachable.map(Ended::Unreachable));
        Some(ended.unwrap_or(Ended::Done))
    }
}

/// Reports a panic of the thread that holds it.
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

/// Two that keep the same names would take turns in undoing each other.
fn lock(config: &Config) -> Result<File, Ended> {
    let mut name = config.state_file.clone().into_os_string();
    name.push(".lock");
    let path = PathBuf::from(name);
    let failed = |error| Ended::Failed("the state cannot be kept", path.display().to_string(), error);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Ended::InUse(config.state_file.clone())),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn load(config: &Config) -> Saved {
    let zone = config.zone.to_string();
    let file = config.state_file.display();
    let why = match read_bounded(&config.state_file, STATE_BYTES_MAX) {
        Ok(bytes) => match Saved::parse(&bytes, &zone) {
            Ok(saved) => return saved,
            Err(why) => why,
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Saved::new(&zone),
        Err(error) => error.to_string(),
    };
    tracing::warn!(%file, why, "the state cannot be used: what is not as it shall be is taken for another's");
    Saved::new(&zone)
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

/// Nobody can take an alias over.
const fn is_alias(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Anothers(seen) if seen.is_alias)
}

fn explain(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Anothers(seen) if seen.is_alias => "the name is an alias".into(),
        Trouble::Anothers(seen) => format!("the name has records of somebody else: {}", list(&seen.addresses)),
        Trouble::Refused(refusal) => refusal.to_string(),
        Trouble::Unreachable(failure) => failure.to_string(),
    }
}
