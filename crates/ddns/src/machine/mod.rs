//! The state machine: decides what to do, without clocks, sockets and files. The caller passes events to `handle_*`,
//! executes the actions of [`Machine::poll_action`], and then waits until the next event or [`Machine::wake_ms`].
//!
//! ```text
//!   interfaces, probes --> wanted (sources) --> name: differs? --> Save, then Send --> outcome --> Save
//! ```

// Rate limits and backoff.
mod retry;
// Choice of the server.
mod servers;
// Target addresses.
mod public_address;
mod sources;
// The task of each name.
mod name;
pub use name::{Change, NameError, NameStatus, Update};

#[cfg(test)]
mod tests;

use crate::address::{Addresses, Family, InterfaceAddress, PerFamily};
use crate::config::{Config, Source};
use crate::limits::{INTERFACE_ADDRESSES_MAX, SETTLE_MS, SETTLE_MS_MAX};
use crate::outcome::Outcome;
use crate::state::Saved;
use name::{Context, NameTask, View, Wanted};
use public_address::{Discovery, Plan, PublicAddress, RoundResult};
use retry::Rng;
use servers::Servers;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::Name;

/// The time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Milliseconds of a monotonic clock.
    pub ms: u64,
    /// Seconds since 1970.
    pub unix_s: u64,
}

/// Options of the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nothing is sent to servers and nothing is written.
    pub is_dry_run: bool,
    /// The first query of each name may take over foreign records.
    pub take_over: bool,
    /// Interval of checks of published records; 0 means never.
    pub check_period_s: u64,
    /// Seed of the jitter.
    pub seed: u64,
}

/// Actions, in the order of execution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Write this to disk before the next actions.
    Save(Saved),
    /// Send a request, and pass its outcome to [`Machine::handle_outcome`].
    Send(Request),
    /// Query a probe over this family, and pass its answer to [`Machine::handle_probe`].
    Probe {
        /// Identifies the answer.
        token: u64,
        /// Its index in the configuration.
        probe: usize,
        /// Over which family.
        family: Family,
    },
    /// Log and count this.
    Report(Notice),
}

/// A request to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Updates a name.
    Update {
        /// Identifies the outcome.
        token: u64,
        /// Its index in the configuration.
        server: usize,
        /// The change.
        update: Update,
    },
    /// Queries the records of a name.
    Query {
        /// Identifies the outcome.
        token: u64,
        /// Its index in the configuration.
        server: usize,
        /// The name.
        owner: Name,
        /// A or AAAA.
        family: Family,
    },
}

/// Events for the log and the metrics.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The target addresses of a name have changed. `None`: its records are not managed.
    Wanted {
        /// The name.
        name: Name,
        /// A or AAAA.
        family: Family,
        /// The addresses.
        addresses: Option<Addresses>,
    },
    /// A server applied an update.
    Updated {
        /// Which server.
        server: usize,
        /// The update.
        update: Update,
    },
    /// In a dry run: this update would be sent.
    DryRun {
        /// Which server.
        server: usize,
        /// The update.
        update: Update,
    },
    /// A server already has the target records.
    Confirmed {
        /// Which server.
        server: usize,
        /// The name.
        name: Name,
    },
    /// A request to a server failed. The next server is tried.
    ServerFailed {
        /// Which server.
        server: usize,
        /// The name.
        name: Name,
        /// Why.
        why: String,
    },
    /// An update failed, and is retried later.
    RetryLater {
        /// The name.
        name: Name,
        /// When it is retried.
        pause_ms: u64,
        /// Why.
        error: NameError,
    },
    /// A round of probes has finished.
    PublicAddress {
        /// The family.
        family: Family,
        /// The address on which enough probes agree, or the number of probes that answered.
        found: Result<IpAddr, usize>,
    },
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    names: Vec<NameTask>,
    saved: Saved,
    servers: Servers,
    interfaces: Option<Vec<InterfaceAddress>>,
    /// Addresses that may still change, the time of the first change, and when they are used.
    unsettled: Option<(Vec<InterfaceAddress>, u64, u64)>,
    public_address: PerFamily<PublicAddress>,
    rng: Rng,
    tokens: u64,
    actions: VecDeque<Action>,
}

impl Machine {
    /// Starts with the saved state.
    #[must_use]
    pub fn new(config: &Config, saved: Saved, options: Options) -> Self {
        let plan = Plan {
            probes: config.public_address.probes.len(),
            agree: config.public_address.agree,
            period_ms: config.public_address.period_s * 1_000,
            allow_private: config.public_address.private,
        };
        let public_address = |family| {
            let is_wanted = config.names.iter().any(|name| name.sources[family] == Source::Public);
            PublicAddress::new(family, plan, is_wanted)
        };
        let names = config.names.iter().map(|name| {
            let known = saved.names.get(&name.name.to_string()).cloned().unwrap_or_default();
            NameTask::new(name.clone(), known, options.take_over)
        });
        Self {
            options,
            names: names.collect(),
            servers: Servers::new(config.servers.len()),
            saved,
            interfaces: None,
            unsettled: None,
            public_address: PerFamily { ipv4: public_address(Family::V4), ipv6: public_address(Family::V6) },
            rng: Rng::new(options.seed),
            tokens: 0,
            actions: VecDeque::new(),
        }
    }

    /// Handles a new list of all addresses of this machine.
    pub fn handle_interfaces(&mut self, mut addresses: Vec<InterfaceAddress>, now: Now) {
        addresses.sort();
        addresses.dedup();
        addresses.truncate(INTERFACE_ADDRESSES_MAX);
        let first = self.interfaces.is_none();
        let is_as_before = self.interfaces.as_ref() == Some(&addresses);
        if is_as_before {
            // The change was shorter than the settling time.
            self.unsettled = None;
        } else if first {
            self.interfaces = Some(addresses);
        } else if self.unsettled.as_ref().is_none_or(|(known, ..)| *known != addresses) {
            let since = self.unsettled.as_ref().map_or(now.ms, |(_, since, _)| *since);
            let at = (now.ms + SETTLE_MS).min(since + SETTLE_MS_MAX);
            self.unsettled = Some((addresses, since, at));
        }
        self.advance(now);
    }

    /// Handles the answer of a probe. `None` if it failed.
    pub fn handle_probe(&mut self, token: u64, answer: Option<IpAddr>, now: Now) {
        for family in Family::ALL {
            let public_address = &mut self.public_address[family];
            let (asked, ended) = public_address.handle_answer(token, answer, now, &mut self.tokens, &mut self.rng);
            push_probes(&mut self.actions, asked, family);
            if let Some(ended) = ended {
                let found = match ended {
                    RoundResult::Agreed(address) => Ok(address),
                    RoundResult::Disagreed(answered) => Err(answered),
                };
                self.actions.push_back(Action::Report(Notice::PublicAddress { family, found }));
            }
        }
        self.advance(now);
    }

    /// Handles the outcome of a request.
    pub fn handle_outcome(&mut self, token: u64, outcome: Outcome, now: Now) {
        if let Some(index) = self.names.iter().position(|name| name.is_waiting_for(token)) {
            self.with_name(index, now, |name, context| name.handle_outcome(token, outcome, context));
        }
        self.advance(now);
    }

    /// Handles the passing of time.
    pub fn handle_time(&mut self, now: Now) {
        self.advance(now);
    }

    /// The next action.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Machine::handle_time`] must be called at the latest.
    #[must_use]
    pub fn wake_ms(&self, now: Now) -> Option<u64> {
        let view = View { now, options: &self.options };
        let names = self.names.iter().filter_map(|name| name.wake_ms(&view));
        let probes = Family::ALL.into_iter().filter_map(|family| self.public_address[family].wake_ms());
        names.chain(probes).chain(self.unsettled.as_ref().map(|(.., at)| *at)).min()
    }

    /// The status of each name, in the order of the configuration.
    pub fn name_statuses(&self, now: Now) -> impl Iterator<Item = (&Name, NameStatus)> {
        let is_unsettled = self.unsettled.is_some();
        self.names.iter().map(move |name| {
            let status = name.status(&View { now, options: &self.options });
            (&name.config.name, if is_unsettled { NameStatus::Pending } else { status })
        })
    }

    /// When a server last confirmed the records of each name, in seconds since 1970; 0 means never.
    pub fn confirmed_at_s(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.names.iter().map(|name| (&name.config.name, name.saved.confirmed_at_s))
    }

    /// Families whose public address was not found, although a name needs it.
    pub fn without_public_address(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| *self.public_address[*family].discovery() == Discovery::Failed)
    }

    fn advance(&mut self, now: Now) {
        if let Some((addresses, ..)) = self.unsettled.take_if(|(.., at)| *at <= now.ms) {
            self.interfaces = Some(addresses);
            Family::ALL.into_iter().for_each(|family| self.public_address[family].handle_change(now));
        }
        for family in Family::ALL {
            let asked = self.public_address[family].poll(now, &mut self.tokens);
            push_probes(&mut self.actions, asked, family);
        }
        for index in 0..self.names.len() {
            for family in Family::ALL {
                self.want(index, family, now);
            }
            self.with_name(index, now, |name, context| name.advance(context));
        }
    }

    fn want(&mut self, index: usize, family: Family, now: Now) {
        let name = &mut self.names[index];
        let wanted = match name.config.sources[family] {
            Source::Off => Wanted::Leave,
            Source::Interface => match &self.interfaces {
                None => Wanted::Unknown,
                Some(interfaces) => Wanted::Set(sources::of_interfaces(&name.config, family, interfaces)),
            },
            Source::Public => match self.public_address[family].discovery() {
                Discovery::Pending => Wanted::Unknown,
                Discovery::Failed => Wanted::Leave,
                Discovery::Address(address) => Wanted::Set(Addresses::from([*address])),
            },
        };
        let addresses = if let Wanted::Set(addresses) = &wanted { Some(addresses.clone()) } else { None };
        if name.want(family, wanted, now) && name.config.sources[family] != Source::Off {
            let name = name.config.name.clone();
            self.actions.push_back(Action::Report(Notice::Wanted { name, family, addresses }));
        }
    }

    /// Runs a name's task. Its state is saved before its request is sent.
    fn with_name(
        &mut self,
        index: usize,
        now: Now,
        act: impl FnOnce(&mut NameTask, &mut Context<'_>) -> Option<Request>,
    ) {
        let mut notices = Vec::new();
        let mut context = Context {
            now,
            options: &self.options,
            servers: &mut self.servers,
            tokens: &mut self.tokens,
            rng: &mut self.rng,
            notices: &mut notices,
        };
        let task = &mut self.names[index];
        let request = act(task, &mut context);
        if std::mem::take(&mut task.is_dirty) && !self.options.is_dry_run {
            self.saved.names.insert(task.config.name.to_string(), task.saved.clone());
            self.saved.prune(|name| self.names.iter().any(|task| task.config.name.to_string() == name));
            self.actions.push_back(Action::Save(self.saved.clone()));
        }
        self.actions.extend(notices.into_iter().map(Action::Report));
        self.actions.extend(request.map(Action::Send));
    }
}

fn push_probes(actions: &mut VecDeque<Action>, asked: Vec<(u64, usize)>, family: Family) {
    actions.extend(asked.into_iter().map(|(token, probe)| Action::Probe { token, probe, family }));
}
