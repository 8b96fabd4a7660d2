//! The machine against a model of a zone, with virtual time. Each server behaves as its `ServerMode` says.

mod late_updates;
mod ownership;
mod publishing;
mod random;
mod restarts;
mod servers;

use super::*;
use crate::address::Addresses;
use crate::limits::{CONFLICT_PAUSE_MS, LATE_MS, NAMES_MAX, UPDATES_BURST};
use crate::outcome::{Failure, ObservedRrset, Refusal};
use proptest::prelude::*;
use wire::number::Rcode;

const START: Now = Now { ms: 5_000_000, unix_s: 1_700_000_000 };

/// How long a server delays an update after its client gave up.
const DELAY_MS: u64 = 2_500;

/// How a server handles requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ServerMode {
    /// Works correctly.
    Works,
    /// Executes the request, but the response is lost.
    LosesResponses,
    /// Applies an update late and without a response, as during an election. It answers queries.
    Delays,
    /// Receives nothing.
    Unreachable,
    /// Responds with SERVFAIL.
    Fails,
    /// Responds with REFUSED.
    Refuses,
}

/// The machine, the zone that its servers share, and the clock.
struct Simulation {
    config: Config,
    machine: Machine,
    now: Now,
    zone: PerFamily<(Addresses, u32)>,
    /// Addresses of a wildcard, which matches if the name has no records.
    wildcard: Addresses,
    is_alias: bool,
    /// Foreign contents, written directly after the next query.
    after_query: Option<Addresses>,
    modes: Vec<ServerMode>,
    /// The saved state on disk.
    disk: SavedState,
    interfaces: Vec<InterfaceAddress>,
    /// Updates that reached a server: the time, the server and the update.
    updates: Vec<(u64, usize, Update)>,
    queries: usize,
    /// Delayed updates, and when they are applied.
    delayed: Vec<(u64, Update)>,
    notices: Vec<Notice>,
    take_over: bool,
}

impl Simulation {
    fn new(servers: usize) -> Self {
        Self::with("", servers)
    }

    fn with(more: &str, servers: usize) -> Self {
        let names: Vec<String> = (0..servers).map(|number| format!("\"192.0.2.{}\"", number + 1)).collect();
        let text = format!(
            "zone = \"example.test\"\nservers = [{}]\nkey_file = \"k\"\n\
             [[name]]\nname = \"home.example.test\"\nprivate = true\nwithdraw_after_s = 10\n{more}",
            names.join(", ")
        );
        let config = Config::parse(&text).unwrap();
        let disk = SavedState::new("example.test.");
        Self {
            machine: Machine::new(&config, disk.clone(), options(false)),
            config,
            now: START,
            zone: PerFamily::default(),
            wildcard: Addresses::new(),
            is_alias: false,
            after_query: None,
            modes: vec![ServerMode::Works; servers],
            disk,
            interfaces: Vec::new(),
            updates: Vec::new(),
            queries: 0,
            delayed: Vec::new(),
            notices: Vec::new(),
            take_over: false,
        }
    }

    /// Kills the process, and starts it again with the state on disk.
    fn restart(&mut self) {
        let disk = SavedState::parse(&self.disk.to_bytes(), "example.test.").unwrap();
        self.machine = Machine::new(&self.config, disk, options(self.take_over));
        self.machine.handle_interfaces(self.interfaces.clone(), self.now);
        self.act();
    }

    fn set_addresses(&mut self, addresses: &[&str]) {
        self.interfaces = addresses
            .iter()
            .map(|address| InterfaceAddress {
                interface: "eth0".into(),
                address: address.parse().unwrap(),
                is_temporary: false,
                is_deprecated: false,
            })
            .collect();
        self.machine.handle_interfaces(self.interfaces.clone(), self.now);
        self.act();
    }

    /// Executes all actions of the machine, each request immediately.
    fn act(&mut self) {
        for steps in 0.. {
            assert!(steps < 1_000, "the machine never stops sending requests");
            let Some(action) = self.machine.poll_action() else { break };
            match action {
                Action::Save(saved) => self.disk = saved,
                Action::Send(request) => {
                    let (token, outcome) = self.serve(&request);
                    self.machine.handle_outcome(token, outcome, self.now);
                }
                Action::Report(notice) => self.notices.push(notice),
                Action::Probe { token, .. } => self.machine.handle_probe(token, None, self.now),
            }
        }
    }

    fn serve(&mut self, request: &Request) -> (u64, Outcome) {
        let (Request::Update { token, server, .. } | Request::Query { token, server, .. }) = request;
        let mode = self.modes[*server];
        let timeout = Outcome::Unreachable(Failure::Timeout);
        match mode {
            ServerMode::Unreachable => return (*token, timeout),
            ServerMode::Fails => return (*token, Outcome::Unreachable(Failure::Rcode(Rcode::SERVFAIL))),
            ServerMode::Refuses => return (*token, Outcome::Refused(Refusal::Rcode(Rcode::REFUSED))),
            ServerMode::Works | ServerMode::LosesResponses | ServerMode::Delays => {}
        }
        let outcome = match request {
            Request::Update { update, .. } => {
                // Every update is saved on disk before it is sent.
                let known = &self.disk.names["home.example.test."];
                for change in &update.changes {
                    let is_there =
                        |sets: &PerFamily<Option<Addresses>>| sets[change.family].as_ref() == Some(&change.to);
                    assert!(known.attempts.iter().any(|attempt| is_there(&attempt.sets)), "sent before it was saved");
                }
                self.updates.push((self.now.ms, *server, update.clone()));
                if mode == ServerMode::Delays {
                    self.delayed.push((self.now.ms + DELAY_MS, update.clone()));
                    return (*token, timeout);
                }
                self.apply(update)
            }
            Request::Query { family, .. } => {
                self.queries += 1;
                let (addresses, ttl) = self.published(*family);
                if let Some(foreign) = self.after_query.take() {
                    self.zone.ipv4 = (foreign, 300);
                }
                let ttl = (!addresses.is_empty()).then_some(ttl);
                Outcome::Observed(ObservedRrset { addresses, ttl, is_alias: self.is_alias })
            }
        };
        (*token, if mode == ServerMode::LosesResponses { timeout } else { outcome })
    }

    /// The answer to a query. RFC 4592 2.2.1: a wildcard matches only if the name has no records of any type.
    fn published(&self, family: Family) -> (Addresses, u32) {
        let exists = Family::ALL.into_iter().any(|family| !self.zone[family].0.is_empty());
        if exists {
            return self.zone[family].clone();
        }
        (self.wildcard.iter().copied().filter(|address| Family::of(address) == family).collect(), 60)
    }

    /// RFC 2136 3.2 and 3.4.
    fn apply(&mut self, update: &Update) -> Outcome {
        for change in &update.changes {
            let records = &self.zone[change.family].0;
            match (change.from.is_empty(), records.is_empty()) {
                (true, false) => return Outcome::Prerequisite(Rcode::YXRRSET),
                (false, _) if *records != change.from => return Outcome::Prerequisite(Rcode::NXRRSET),
                _ => {}
            }
        }
        if self.is_alias {
            return Outcome::Prerequisite(Rcode::YXRRSET);
        }
        for change in &update.changes {
            self.zone[change.family] = (change.to.clone(), update.ttl);
        }
        Outcome::Done
    }

    /// Lets time pass, and wakes the machine when it asks for that.
    fn advance_time(&mut self, ms: u64) {
        let end = self.now.ms + ms;
        for steps in 0.. {
            assert!(steps < 10_000, "the machine asks for wake-ups without end");
            let wake = self.machine.wake_ms(self.now).unwrap_or(u64::MAX).max(self.now.ms);
            let delayed = self.delayed.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
            let next = wake.min(delayed).min(end);
            self.now = Now { ms: next, unix_s: START.unix_s + (next - START.ms) / 1_000 };
            for (_, update) in self.delayed.extract_if(.., |(at, _)| *at <= next).collect::<Vec<_>>() {
                self.apply(&update);
            }
            self.machine.handle_time(self.now);
            self.act();
            if next == end {
                break;
            }
        }
    }

    fn status(&self) -> NameStatus {
        self.machine.name_statuses(self.now).next().unwrap().1
    }

    fn has(&self, family: Family) -> Vec<String> {
        self.zone[family].0.iter().map(ToString::to_string).collect()
    }
}

fn options(take_over: bool) -> Options {
    Options { is_dry_run: false, take_over, check_period_s: 3_600, seed: 1 }
}

fn set(addresses: &[&str]) -> Addresses {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}
