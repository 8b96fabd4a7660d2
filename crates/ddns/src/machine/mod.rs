//! What to do next, given addresses, answers and the time: no clock, no socket, no file. Whoever drives it calls
//! `handle_*` with what happened, then [`Machine::poll_action`] until there is nothing left, then waits until
//! [`Machine::wake_ms`] at the longest.
//!
//! ```text
//!   interfaces, probes --> wanted (sources) --> name: differs? --> Save, then Send --> outcome --> Save
//! ```

// How often, and how long to rest.
mod pace;
// Whom to ask.
mod servers;
// What a name shall have.
mod outside;
mod sources;
// What is done about it.
mod name;
pub use name::{Change, Standing, Trouble, Update};

#[cfg(test)]
mod tests;

use crate::address::{Addresses, Family, InterfaceAddress, PerFamily};
use crate::config::{Config, Source};
use crate::limits::{INTERFACE_ADDRESSES_MAX, SETTLE_MS, SETTLE_MS_MAX};
use crate::outcome::Outcome;
use crate::state::Saved;
use name::{NameTask, View, Wanted, World};
use outside::{Ended, Known, Outside, Plan};
use pace::Dice;
use servers::Servers;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::Name;

/// The time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Milliseconds of a clock that only goes on.
    pub ms: u64,
    /// Seconds of 1970.
    pub unix_s: u64,
}

/// What the command line says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Nothing is sent to servers and nothing is written.
    pub is_dry_run: bool,
    /// Each name takes the records over that its first look shows.
    pub take_over: bool,
    /// What is known is looked at again after this time; 0 is never.
    pub check_period_s: u64,
    /// Where jitter comes from.
    pub seed: u64,
}

/// What is to be done now, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Put this on stable storage before anything that follows.
    Save(Saved),
    /// Ask a server, and give the outcome to [`Machine::handle_outcome`].
    Send(Request),
    /// Ask a probe over this family, and give what it says to [`Machine::handle_probe`].
    Probe {
        /// Names the answer.
        token: u64,
        /// Its place in the configuration.
        probe: usize,
        /// Over which family.
        family: Family,
    },
    /// Tell the operator.
    Tell(Notice),
}

/// What a server is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// To change a name.
    Update {
        /// Names the outcome.
        token: u64,
        /// Its place in the configuration.
        server: usize,
        /// The change.
        update: Update,
    },
    /// What a name has.
    Look {
        /// Names the outcome.
        token: u64,
        /// Its place in the configuration.
        server: usize,
        /// The name.
        owner: Name,
        /// A or AAAA.
        family: Family,
    },
}

/// What an operator may want to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A name shall have other addresses; nothing where its records are left alone.
    Wanted {
        /// The name.
        name: Name,
        /// A or AAAA.
        family: Family,
        /// The addresses.
        addresses: Option<Addresses>,
    },
    /// A server has carried it out.
    Updated {
        /// Which server.
        server: usize,
        /// What it has done.
        update: Update,
    },
    /// This would have been sent.
    Would {
        /// Which server.
        server: usize,
        /// What it would have been asked to do.
        update: Update,
    },
    /// A server shows what the name shall have.
    Confirmed {
        /// Which server.
        server: usize,
        /// The name.
        name: Name,
    },
    /// A server did not do it; the next one is asked.
    ServerFailed {
        /// Which server.
        server: usize,
        /// The name.
        name: Name,
        /// Why.
        why: String,
    },
    /// Nothing more is done for a name for a while.
    Resting {
        /// The name.
        name: Name,
        /// For how long.
        rest_ms: u64,
        /// Why.
        trouble: Trouble,
    },
    /// So many probes agreed on an outside address.
    Outside {
        /// Of this family.
        family: Family,
        /// The address; without, this many answered with something that could be taken.
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
    /// Addresses that have not settled, since when they change, and when they are taken.
    unsettled: Option<(Vec<InterfaceAddress>, u64, u64)>,
    outside: PerFamily<Outside>,
    dice: Dice,
    tokens: u64,
    actions: VecDeque<Action>,
}

impl Machine {
    /// Begins with what is remembered.
    #[must_use]
    pub fn new(config: &Config, saved: Saved, options: Options) -> Self {
        let plan = Plan {
            probes: config.outside.probes.len(),
            agree: config.outside.agree,
            period_ms: config.outside.period_s * 1_000,
            allow_private: config.outside.private,
        };
        let outside = |family| {
            let is_wanted = config.names.iter().any(|name| name.sources[family] == Source::Outside);
            Outside::new(family, plan, is_wanted)
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
            outside: PerFamily { ipv4: outside(Family::V4), ipv6: outside(Family::V6) },
            dice: Dice::new(options.seed),
            tokens: 0,
            actions: VecDeque::new(),
        }
    }

    /// The addresses that this machine has now, all of them.
    pub fn handle_interfaces(&mut self, mut addresses: Vec<InterfaceAddress>, now: Now) {
        addresses.sort();
        addresses.dedup();
        addresses.truncate(INTERFACE_ADDRESSES_MAX);
        let first = self.interfaces.is_none();
        let is_as_before = self.interfaces.as_ref() == Some(&addresses);
        if is_as_before {
            // It was gone for less than the time to settle.
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

    /// What a probe said: an address, or nothing that could be read.
    pub fn handle_probe(&mut self, token: u64, answer: Option<IpAddr>, now: Now) {
        for family in Family::ALL {
            let outside = &mut self.outside[family];
            let (asked, ended) = outside.handle_answer(token, answer, now, &mut self.tokens, &mut self.dice);
            push_probes(&mut self.actions, asked, family);
            if let Some(ended) = ended {
                let found = match ended {
                    Ended::Agreed(address) => Ok(address),
                    Ended::Disagreed(answered) => Err(answered),
                };
                self.actions.push_back(Action::Tell(Notice::Outside { family, found }));
            }
        }
        self.advance(now);
    }

    /// What became of a request.
    pub fn handle_outcome(&mut self, token: u64, outcome: Outcome, now: Now) {
        if let Some(index) = self.names.iter().position(|name| name.is_waiting_for(token)) {
            self.with_name(index, now, |name, world| name.handle_outcome(token, outcome, world));
        }
        self.advance(now);
    }

    /// Some time has passed.
    pub fn handle_time(&mut self, now: Now) {
        self.advance(now);
    }

    /// What is to be done now.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Machine::handle_time`] wants to be called at the latest.
    #[must_use]
    pub fn wake_ms(&self, now: Now) -> Option<u64> {
        let view = View { now, options: &self.options };
        let names = self.names.iter().filter_map(|name| name.wake_ms(&view));
        let probes = Family::ALL.into_iter().filter_map(|family| self.outside[family].wake_ms());
        names.chain(probes).chain(self.unsettled.as_ref().map(|(.., at)| *at)).min()
    }

    /// How each name does, in the order of the configuration.
    pub fn standings(&self, now: Now) -> impl Iterator<Item = (&Name, Standing)> {
        let is_unsettled = self.unsettled.is_some();
        self.names.iter().map(move |name| {
            let standing = name.standing(&View { now, options: &self.options });
            (&name.config.name, if is_unsettled { Standing::Busy } else { standing })
        })
    }

    /// When a server has last shown or acknowledged what each name has, in seconds of 1970; 0 for never.
    pub fn confirmed_at_s(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.names.iter().map(|name| (&name.config.name, name.saved.confirmed_at_s))
    }

    /// Families whose outside address could not be found, though a name wants it.
    pub fn without_outside(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| *self.outside[*family].known() == Known::Nothing)
    }

    fn advance(&mut self, now: Now) {
        if let Some((addresses, ..)) = self.unsettled.take_if(|(.., at)| *at <= now.ms) {
            self.interfaces = Some(addresses);
            Family::ALL.into_iter().for_each(|family| self.outside[family].handle_change(now));
        }
        for family in Family::ALL {
            let asked = self.outside[family].poll(now, &mut self.tokens);
            push_probes(&mut self.actions, asked, family);
        }
        for index in 0..self.names.len() {
            for family in Family::ALL {
                self.want(index, family, now);
            }
            self.with_name(index, now, |name, world| name.advance(world));
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
            Source::Outside => match self.outside[family].known() {
                Known::NotYet => Wanted::Unknown,
                Known::Nothing => Wanted::Leave,
                Known::Address(address) => Wanted::Set(Addresses::from([*address])),
            },
        };
        let addresses = if let Wanted::Set(addresses) = &wanted { Some(addresses.clone()) } else { None };
        if name.want(family, wanted, now) && name.config.sources[family] != Source::Off {
            let name = name.config.name.clone();
            self.actions.push_back(Action::Tell(Notice::Wanted { name, family, addresses }));
        }
    }

    /// Has a name act; what it wants remembered is put before what it wants sent.
    fn with_name(
        &mut self,
        index: usize,
        now: Now,
        act: impl FnOnce(&mut NameTask, &mut World<'_>) -> Option<Request>,
    ) {
        let mut notices = Vec::new();
        let mut world = World {
            now,
            options: &self.options,
            servers: &mut self.servers,
            tokens: &mut self.tokens,
            dice: &mut self.dice,
            notices: &mut notices,
        };
        let task = &mut self.names[index];
        let request = act(task, &mut world);
        if std::mem::take(&mut task.is_dirty) && !self.options.is_dry_run {
            self.saved.names.insert(task.config.name.to_string(), task.saved.clone());
            self.saved.prune(|name| self.names.iter().any(|task| task.config.name.to_string() == name));
            self.actions.push_back(Action::Save(self.saved.clone()));
        }
        self.actions.extend(notices.into_iter().map(Action::Tell));
        self.actions.extend(request.map(Action::Send));
    }
}

fn push_probes(actions: &mut VecDeque<Action>, asked: Vec<(u64, usize)>, family: Family) {
    actions.extend(asked.into_iter().map(|(token, probe)| Action::Probe { token, probe, family }));
}
