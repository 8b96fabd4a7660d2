//! The state machine: decides what to do, without clocks, sockets and files. The caller passes events to `handle_*`,
//! executes the actions of [`Machine::poll_action`], and then waits until the next event or [`Machine::wake_ms`].
//!
//! ```text
//!   interfaces, probes --> targets (sources) --> name: differs? --> Save, then Send --> outcome --> Save
//! ```

// Inputs and outputs.
mod io;
pub use io::{Action, Change, NameError, Notice, Now, Options, Request, Update};
// Rate limits and backoff.
mod retry;
// Choice of the server.
mod servers;
// Target addresses.
mod public_address;
mod sources;
// The task of each name.
mod name;
pub use name::NameStatus;

#[cfg(test)]
mod tests;

use crate::address::{Addresses, Family, InterfaceAddress, PerFamily};
use crate::config::{Config, Source};
use crate::limits::{INTERFACE_ADDRESSES_MAX, SETTLE_MS, SETTLE_MS_MAX};
use crate::outcome::Outcome;
use crate::state::SavedState;
use name::{Context, FamilyTarget, NameTask, StatusContext};
use public_address::{Discovery, Plan, PublicAddress, RoundResult};
use retry::Rng;
use servers::Servers;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::Name;

/// The machine.
#[derive(Debug)]
pub struct Machine {
    options: Options,
    names: Vec<NameTask>,
    saved: SavedState,
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
    pub fn new(config: &Config, saved: SavedState, options: Options) -> Self {
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
            let (probes, result) = public_address.handle_answer(token, answer, now, &mut self.tokens, &mut self.rng);
            push_probes(&mut self.actions, probes, family);
            if let Some(result) = result {
                let found = match result {
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
        let context = StatusContext { now, options: &self.options };
        let names = self.names.iter().filter_map(|name| name.wake_ms(&context));
        let probes = Family::ALL.into_iter().filter_map(|family| self.public_address[family].wake_ms());
        names.chain(probes).chain(self.unsettled.as_ref().map(|(.., at)| *at)).min()
    }

    /// The status of each name, in the order of the configuration.
    pub fn name_statuses(&self, now: Now) -> impl Iterator<Item = (&Name, NameStatus)> {
        let is_unsettled = self.unsettled.is_some();
        self.names.iter().map(move |name| {
            let status = name.status(&StatusContext { now, options: &self.options });
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
            let probes = self.public_address[family].poll(now, &mut self.tokens);
            push_probes(&mut self.actions, probes, family);
        }
        for index in 0..self.names.len() {
            for family in Family::ALL {
                self.set_target(index, family, now);
            }
            self.with_name(index, now, |name, context| name.advance(context));
        }
    }

    fn set_target(&mut self, index: usize, family: Family, now: Now) {
        let name = &mut self.names[index];
        let target = match name.config.sources[family] {
            Source::Off => FamilyTarget::Unmanaged,
            Source::Interface => match &self.interfaces {
                None => FamilyTarget::Unknown,
                Some(interfaces) => FamilyTarget::Addresses(sources::of_interfaces(&name.config, family, interfaces)),
            },
            Source::Public => match self.public_address[family].discovery() {
                Discovery::Pending => FamilyTarget::Unknown,
                Discovery::Failed => FamilyTarget::Unmanaged,
                Discovery::Address(address) => FamilyTarget::Addresses(Addresses::from([*address])),
            },
        };
        let addresses = if let FamilyTarget::Addresses(addresses) = &target { Some(addresses.clone()) } else { None };
        if name.set_target(family, target, now) && name.config.sources[family] != Source::Off {
            let name = name.config.name.clone();
            self.actions.push_back(Action::Report(Notice::TargetChanged { name, family, addresses }));
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

fn push_probes(actions: &mut VecDeque<Action>, probes: Vec<(u64, usize)>, family: Family) {
    actions.extend(probes.into_iter().map(|(token, probe)| Action::Probe { token, probe, family }));
}
