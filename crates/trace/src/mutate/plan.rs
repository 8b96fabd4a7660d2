//! The plan of changes: rules in their order, each with the messages to which it applies.

use super::options::OptionToAdd;
use super::template::Template;
use crate::limits::{CONDITIONS_MAX, RULES_MAX};
use crate::message::Transport;
use crate::prefix::Prefix;
use std::fmt;
use std::net::IpAddr;
use wire::{Class, Name, Opcode, Rcode, Rtype};

/// A plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The random seed.
    pub seed: u64,
    /// Times since the first message are divided by this.
    pub speed: f64,
    /// Added to all times, in nanoseconds.
    pub shift_ns: i64,
    /// The rules. Each sees the result of the rules before it.
    pub rules: Vec<Rule>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seed: 1, speed: 1.0, shift_ns: 0, rules: Vec::new() }
    }
}

/// A rule.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// The messages to which it applies.
    pub when: When,
    /// The share of these messages, from 0 to 1.
    pub share: f64,
    /// Whether the share is drawn per client or per query.
    pub by: DrawPer,
    /// The action.
    pub action: Action,
}

impl Default for Rule {
    fn default() -> Self {
        Self { when: When::default(), share: 1.0, by: DrawPer::Client, action: Action::Change(Box::default()) }
    }
}

/// How shares are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DrawPer {
    /// Per client: all its messages get the same result.
    #[default]
    Client,
    /// Per query: its response gets the same result.
    Query,
}

/// Action of a rule.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// Removes the messages.
    Drop,
    /// Removes all other messages.
    Keep,
    /// Changes the messages.
    Change(Box<Changes>),
}

/// Conditions of a rule. All must hold. A list holds if one of its values does, or if it is empty.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct When {
    /// Only responses (true), or only other messages (false).
    pub responses: Option<bool>,
    /// The transport.
    pub transports: Vec<Transport>,
    /// The client.
    pub clients: Vec<Prefix>,
    /// The server.
    pub servers: Vec<Prefix>,
    /// The name of the first question, or a name above it.
    pub names: Vec<Name>,
    /// The type of the first question.
    pub qtypes: Vec<Rtype>,
    /// The opcode.
    pub opcodes: Vec<Opcode>,
    /// The RCODE of a response. Never holds for a query.
    pub rcodes: Vec<Rcode>,
    /// Whether the message has EDNS.
    pub edns: Option<bool>,
    /// Whether DO is set.
    pub dnssec_ok: Option<bool>,
    /// Smallest time since the first message.
    pub from_ns: u64,
    /// Time since the first message from which on the condition does not hold.
    pub until_ns: Option<u64>,
}

/// Changes. Transport, client and server change in queries and responses, the rest only in queries.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes {
    /// Shares of the rule's clients or queries that move to another transport. The others stay.
    pub transports: Vec<(Transport, f64)>,
    /// The client.
    pub client: Option<ClientChange>,
    /// The server. Without a port, the old port stays.
    pub server: Option<(IpAddr, Option<u16>)>,
    /// The name of the question.
    pub name: Option<NameChange>,
    /// The type of the question.
    pub qtype: Option<Rtype>,
    /// The class of the question.
    pub qclass: Option<Class>,
    /// RD.
    pub recursion_desired: Option<bool>,
    /// AD.
    pub authentic_data: Option<bool>,
    /// CD.
    pub checking_disabled: Option<bool>,
    /// The share with DO. It is cleared for the others. Setting DO adds EDNS.
    pub dnssec_ok: Option<f64>,
    /// EDNS.
    pub edns: Option<EdnsChange>,
    /// Codes of options to remove.
    pub remove_options: Vec<u16>,
    /// Options to add. They replace options of the same code, and add EDNS.
    pub add_options: Vec<OptionToAdd>,
    /// The ID.
    pub id: Option<IdChange>,
}

/// Maps clients to other clients. The mapping depends only on `count`, `prefix` and the seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientChange {
    /// The prefix of the new clients.
    pub prefix: Prefix,
    /// The largest number of clients. By default as many as the prefix has.
    pub count: Option<u64>,
}

/// Change of a name.
#[derive(Clone, PartialEq, Debug)]
pub enum NameChange {
    /// Replaces the end of names that are at or below `from`.
    Suffix {
        /// The old end.
        from: Name,
        /// The new end.
        to: Name,
    },
    /// Makes a new name.
    Template(Template),
}

/// Change of EDNS (RFC 6891).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdnsChange {
    /// Sets the payload size. Adds EDNS if it is missing.
    Payload(u16),
    /// Removes EDNS with all options.
    Remove,
}

/// Change of the ID of queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdChange {
    /// A random ID.
    Random,
    /// The number of the query, from 0, modulo 2^16.
    Count,
    /// This ID.
    Fixed(u16),
}

/// An invalid plan. Rules are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// The speed is out of range.
    Speed,
    /// There are more rules than [`RULES_MAX`].
    Rules,
    /// A condition of the rule has more than [`CONDITIONS_MAX`] values.
    Conditions(usize),
    /// A share is not between 0 and 1.
    Share(usize),
    /// The shares of transports add up to more than 1.
    Transports(usize),
    /// The number of clients is zero, or larger than the prefix.
    Clients(usize),
    /// The options to add exceed the size of a message.
    Options(usize),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Speed => f.write_str("the speed must be above 0 and finite"),
            Self::Rules => write!(f, "there are more than {RULES_MAX} rules"),
            Self::Conditions(rule) => write!(f, "rule {rule}: a condition has more than {CONDITIONS_MAX} values"),
            Self::Share(rule) => write!(f, "rule {rule}: a share must be 0 to 1"),
            Self::Transports(rule) => write!(f, "rule {rule}: the shares of transports add up to more than 1"),
            Self::Clients(rule) => write!(f, "rule {rule}: no clients, or more than the prefix has addresses"),
            Self::Options(rule) => write!(f, "rule {rule}: its options are longer than a message"),
        }
    }
}

impl std::error::Error for PlanError {}

impl Plan {
    pub(super) fn check(&self) -> Result<(), PlanError> {
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(PlanError::Speed);
        }
        if self.rules.len() > RULES_MAX {
            return Err(PlanError::Rules);
        }
        self.rules.iter().enumerate().try_for_each(|(index, rule)| rule.check(index + 1))
    }

    /// Whether a draw is per query. Then responses are matched to their queries.
    pub(super) fn draws_for_queries(&self) -> bool {
        self.rules.iter().any(|rule| rule.by == DrawPer::Query)
    }
}

impl Rule {
    fn check(&self, number: usize) -> Result<(), PlanError> {
        let is_share = |share: f64| (0.0..=1.0).contains(&share);
        let When { transports, clients, servers, names, qtypes, opcodes, rcodes, .. } = &self.when;
        let counts = [transports.len(), clients.len(), servers.len(), names.len(), qtypes.len(), opcodes.len()];
        if counts.into_iter().chain([rcodes.len()]).any(|count| count > CONDITIONS_MAX) {
            return Err(PlanError::Conditions(number));
        }
        let Action::Change(changes) = &self.action else {
            return if is_share(self.share) { Ok(()) } else { Err(PlanError::Share(number)) };
        };
        let transports = changes.transports.iter().map(|(_, share)| *share);
        if !transports.clone().chain(changes.dnssec_ok).chain([self.share]).all(is_share) {
            return Err(PlanError::Share(number));
        }
        // Decimal fractions are not exact in binary, so the sum may be slightly larger.
        if transports.sum::<f64>() > 1.0 + 1e-9 {
            return Err(PlanError::Transports(number));
        }
        let is_too_many = |client: &ClientChange| {
            client.count.is_some_and(|count| count == 0 || u128::from(count) > client.prefix.host_count())
        };
        if changes.client.as_ref().is_some_and(is_too_many) {
            return Err(PlanError::Clients(number));
        }
        let bytes: usize = changes.add_options.iter().map(OptionToAdd::bytes_max).sum();
        if bytes > usize::from(u16::MAX) { Err(PlanError::Options(number)) } else { Ok(()) }
    }
}
