//! What is to be changed: rules in their order, each for the messages that it describes.

use super::options::OptionToAdd;
use super::template::Template;
use crate::limits::{CONDITIONS_MAX, RULES_MAX};
use crate::message::Transport;
use crate::prefix::Prefix;
use std::fmt;
use std::net::IpAddr;
use wire::{Class, Name, Opcode, Rcode, Rtype};

/// What becomes of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The same seed draws the same.
    pub seed: u64,
    /// How much faster time goes, counted from the first message: 2 halves all distances.
    pub speed: f64,
    /// By how much all times are later, in nanoseconds.
    pub shift_ns: i64,
    /// Applied one after the other; each sees what those before it made of a message.
    pub rules: Vec<Rule>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { seed: 1, speed: 1.0, shift_ns: 0, rules: Vec::new() }
    }
}

/// What is done with messages of a kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Rule {
    /// Which messages it is for.
    pub when: When,
    /// For which share of them, 0 to 1.
    pub share: f64,
    /// What is drawn for the share.
    pub by: By,
    /// What is done.
    pub action: Action,
}

impl Default for Rule {
    fn default() -> Self {
        Self { when: When::default(), share: 1.0, by: By::Client, action: Action::Change(Box::default()) }
    }
}

/// What shares are shares of.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum By {
    /// Of clients: all messages of one fare alike.
    #[default]
    Client,
    /// Of queries: each fares for itself, and its response with it.
    Query,
}

/// What is done with the messages that a rule is for.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// They are left out.
    Drop,
    /// All others are left out.
    Keep,
    /// They are changed.
    Change(Box<Changes>),
}

/// Which messages: all that every condition holds for. A list holds if one of it does, an empty one always.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct When {
    /// Only responses, or only what is none.
    pub responses: Option<bool>,
    /// Over what.
    pub transports: Vec<Transport>,
    /// Who asks.
    pub clients: Vec<Prefix>,
    /// Who is asked.
    pub servers: Vec<Prefix>,
    /// At or below which names the first question is.
    pub names: Vec<Name>,
    /// Of which type it is.
    pub qtypes: Vec<Rtype>,
    /// What is asked for.
    pub opcodes: Vec<Opcode>,
    /// Of responses how they ended; no query has one.
    pub rcodes: Vec<Rcode>,
    /// Whether there is EDNS.
    pub edns: Option<bool>,
    /// Whether DNSSEC is wanted.
    pub dnssec_ok: Option<bool>,
    /// Not earlier than so long after the first message.
    pub from_ns: u64,
    /// Earlier than so long after the first message.
    pub until_ns: Option<u64>,
}

/// What is changed. Transport, client and server are changed in queries and responses, the rest in queries only.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Changes {
    /// Which share of them goes over what, drawn for the rule's clients or queries; the others stay.
    pub transports: Vec<(Transport, f64)>,
    /// Who asks.
    pub client: Option<ClientChange>,
    /// Who is asked, and where the port is none at the port that was asked.
    pub server: Option<(IpAddr, Option<u16>)>,
    /// What is asked for.
    pub name: Option<NameChange>,
    /// Its type.
    pub qtype: Option<Rtype>,
    /// Its class.
    pub qclass: Option<Class>,
    /// RD.
    pub recursion_desired: Option<bool>,
    /// AD.
    pub authentic_data: Option<bool>,
    /// CD.
    pub checking_disabled: Option<bool>,
    /// Which share wants DNSSEC; the others do not. It brings EDNS with it.
    pub dnssec_ok: Option<f64>,
    /// EDNS itself.
    pub edns: Option<EdnsChange>,
    /// Codes of options that are taken away.
    pub remove_options: Vec<u16>,
    /// Options that are put in, instead of those of the same code. They bring EDNS with them.
    pub add_options: Vec<OptionToAdd>,
    /// The ID.
    pub id: Option<IdChange>,
}

/// Which client another one becomes: the same always, while `count` and `prefix` are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientChange {
    /// Where all of them are.
    pub prefix: Prefix,
    /// How many there are at most; as many as the prefix has otherwise.
    pub count: Option<u64>,
}

/// Another name.
#[derive(Clone, PartialEq, Debug)]
pub enum NameChange {
    /// The labels at the end are replaced where the name is at or below them.
    Suffix {
        /// By which.
        from: Name,
        /// For which.
        to: Name,
    },
    /// It is made.
    Template(Template),
}

/// EDNS (RFC 6891).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdnsChange {
    /// The requestor's payload size; EDNS is put in where there is none.
    Payload(u16),
    /// It is taken away, with all options.
    Remove,
}

/// IDs of queries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdChange {
    /// Drawn.
    Random,
    /// The number of the query, from zero, as far as it fits.
    Count,
    /// This one.
    Fixed(u16),
}

/// A plan that cannot be carried out; rules are counted from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// Time does not go so fast.
    Speed,
    /// There are more rules than [`RULES_MAX`].
    Rules,
    /// A condition of the rule has more than [`CONDITIONS_MAX`] words.
    Conditions(usize),
    /// A share is none of 0 to 1.
    Share(usize),
    /// Shares of transports are more than 1 together.
    Transports(usize),
    /// There are no clients, or more than the prefix has.
    Clients(usize),
    /// Bytes of all options that are put in are more than a message has.
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

    /// Whether something is drawn for single queries: then responses are held against their queries.
    pub(super) fn draws_for_queries(&self) -> bool {
        self.rules.iter().any(|rule| rule.by == By::Query)
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
        // Tenths are no binary fractions: their sum may be a little more.
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
