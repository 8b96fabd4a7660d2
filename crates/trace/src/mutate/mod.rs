//! Changes a trace message by message: transports, flags, names, clients and times.
//!
//! ```text
//!   Message --> number of its query --> rule 1 --> rule 2 --> .. --> time --> Message, or none
//!                                       (when, share: drop, keep, change)
//! ```
//!
//! A [`Mutator`] uses no file, no clock and no random source. The same plan and messages give the same result, in a
//! file or during a replay. It remembers the time of the first message and, if something is drawn per query, the
//! queries without a response.

// The plan.
mod options;
mod plan;
mod template;
pub use options::{OptionToAdd, option_code};
pub use plan::{Action, Changes, ClientChange, DrawPer, EdnsChange, IdChange, NameChange, Plan, PlanError, Rule, When};
pub use template::Template;

// Selecting messages.
mod draw;
mod numbers;
mod when;
// Changing messages.
mod query;

use crate::message::{Message, Transport};
use draw::{Draws, Purpose, scale, unit};
use numbers::Numbers;
use query::Query;
use std::net::SocketAddr;
use wire::parse::FirstQuestion;

/// Applies a plan.
#[derive(Debug)]
pub struct Mutator {
    plan: Plan,
    first_ns: Option<u64>,
    numbers: Numbers,
    tally: MutationTally,
    /// Bytes of a changed message, and its bytes before the last rule.
    bytes: Vec<u8>,
    spare: Vec<u8>,
}

/// Counts of messages and changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MutationTally {
    /// Messages seen.
    pub messages: u64,
    /// Messages kept.
    pub given: u64,
    /// Messages that each rule removed, in the order of the rules.
    pub left_out: Vec<u64>,
    /// Changes skipped because the query is malformed or does not have one question.
    pub unreadable: u64,
    /// Changes skipped because the name or the message would be too long.
    pub too_long: u64,
}

/// A message while the rules apply. Once changed, its bytes are in the mutator.
struct CurrentMessage<'m> {
    message: Message<'m>,
    /// Number of its query.
    number: u64,
    is_changed: bool,
}

impl Mutator {
    /// Prepares a plan.
    ///
    /// # Errors
    ///
    /// [`PlanError`] if the plan is invalid.
    pub fn new(plan: Plan) -> Result<Self, PlanError> {
        plan.check()?;
        let tally = MutationTally { left_out: vec![0; plan.rules.len()], ..MutationTally::default() };
        let numbers = Numbers::new(plan.draws_for_queries());
        Ok(Self { plan, first_ns: None, numbers, tally, bytes: Vec::new(), spare: Vec::new() })
    }

    /// Returns the changed message. `None` if it is removed. Messages must come in the order of the trace.
    pub fn apply<'m>(&'m mut self, message: &Message<'m>) -> Option<Message<'m>> {
        self.tally.messages += 1;
        let first_ns = *self.first_ns.get_or_insert(message.at_ns);
        let after_ns = message.at_ns.saturating_sub(first_ns);
        let number = self.numbers.of(message);
        // All rules draw for the original client.
        let client = message.client().ip();
        let mut current = CurrentMessage { message: *message, number, is_changed: false };
        let Self { plan, tally, bytes, spare, .. } = self;
        for (index, rule) in plan.rules.iter().enumerate() {
            let draws = Draws::new(plan.seed, index);
            let draw = |purpose| match rule.by {
                DrawPer::Client => draws.by_address(purpose, client),
                DrawPer::Query => draws.by_number(purpose, number),
            };
            let so_far =
                Message { bytes: if current.is_changed { bytes.as_slice() } else { message.bytes }, ..current.message };
            let applies =
                rule.when.matches(&so_far, after_ns) && (rule.share >= 1.0 || unit(draw(Purpose::Rule)) < rule.share);
            match &rule.action {
                Action::Drop if applies => {
                    tally.left_out[index] += 1;
                    return None;
                }
                Action::Keep if !applies => {
                    tally.left_out[index] += 1;
                    return None;
                }
                Action::Change(changes) if applies => {
                    let mut context = RuleContext { draws, draw: &draw, tally, bytes, spare };
                    context.change(changes, &mut current);
                }
                Action::Drop | Action::Keep | Action::Change(_) => {}
            }
        }
        tally.given += 1;
        let at_ns = time(message.at_ns, first_ns, plan);
        let bytes = if current.is_changed { bytes.as_slice() } else { message.bytes };
        Some(Message { at_ns, bytes, ..current.message })
    }

    /// The counts so far.
    #[must_use]
    pub const fn tally(&self) -> &MutationTally {
        &self.tally
    }

    /// The plan.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// The new time of a message. Results out of range become the first or the last possible time.
fn time(at_ns: u64, first_ns: u64, plan: &Plan) -> u64 {
    let after = i128::from(at_ns) - i128::from(first_ns);
    // Exact at speed 1. At other speeds it is exact to the nanosecond for traces shorter than a hundred days.
    let after = if plan.speed == 1.0 { after } else { (after as f64 / plan.speed).round() as i128 };
    let at = i128::from(first_ns).saturating_add(after).saturating_add(i128::from(plan.shift_ns));
    u64::try_from(at.max(0)).unwrap_or(u64::MAX)
}

/// The application of one rule to one message.
struct RuleContext<'h> {
    draws: Draws,
    draw: &'h dyn Fn(Purpose) -> u64,
    tally: &'h mut MutationTally,
    bytes: &'h mut Vec<u8>,
    spare: &'h mut Vec<u8>,
}

impl RuleContext<'_> {
    fn change(&mut self, changes: &Changes, current: &mut CurrentMessage<'_>) {
        let is_response = current.message.is_response();
        self.transport(&changes.transports, current);
        self.endpoints(changes, current, is_response);
        if is_response {
            return;
        }
        if let Some(name) = &changes.name {
            self.rebuild(current, |context, query, current| context.name(name, query, current.number));
        }
        self.numbers(changes, current);
        self.header(changes, current);
        if changes.edns.is_some()
            || changes.dnssec_ok.is_some()
            || !changes.remove_options.is_empty()
            || !changes.add_options.is_empty()
        {
            self.rebuild(current, |context, query, current| context.edns(changes, query, current));
        }
    }

    fn transport(&self, shares: &[(Transport, f64)], current: &mut CurrentMessage<'_>) {
        if shares.is_empty() {
            return;
        }
        let draw = unit((self.draw)(Purpose::Transport));
        let mut up_to = 0.0;
        for &(transport, share) in shares {
            up_to += share;
            // If the shares add up to 1, the last one gets what rounding leaves.
            if draw < up_to || up_to > 1.0 - 1e-9 {
                current.message.transport = transport;
                return;
            }
        }
    }

    fn endpoints(&self, changes: &Changes, current: &mut CurrentMessage<'_>, is_response: bool) {
        let message = &mut current.message;
        let (client, server) = match is_response {
            true => (&mut message.destination, &mut message.source),
            false => (&mut message.source, &mut message.destination),
        };
        if let Some(change) = changes.client {
            let count = change.count.map_or(change.prefix.host_count(), u128::from);
            let number = scale((self.draw)(Purpose::Client), count);
            *client = SocketAddr::new(change.prefix.host(number), client.port());
        }
        if let Some((address, port)) = changes.server {
            *server = SocketAddr::new(address, port.unwrap_or(server.port()));
        }
    }

    /// Changes type and class in place.
    fn numbers(&mut self, changes: &Changes, current: &mut CurrentMessage<'_>) {
        if changes.qtype.is_none() && changes.qclass.is_none() {
            return;
        }
        let bytes = self.owned_bytes(current);
        let has_question = bytes[4..6] != [0, 0];
        let Some(end) = FirstQuestion::read(bytes).ok().filter(|_| has_question).map(|question| question.end()) else {
            self.tally.unreadable += 1;
            return;
        };
        if let Some(qtype) = changes.qtype {
            bytes[end - 4..end - 2].copy_from_slice(&qtype.0.to_be_bytes());
        }
        if let Some(qclass) = changes.qclass {
            bytes[end - 2..end].copy_from_slice(&qclass.0.to_be_bytes());
        }
    }

    /// Changes flags and ID in place (RFC 1035 4.1.1, RFC 4035 3.2).
    fn header(&mut self, changes: &Changes, current: &mut CurrentMessage<'_>) {
        let flags = [
            (changes.recursion_desired, 2, 0x01),
            (changes.authentic_data, 3, 0x20),
            (changes.checking_disabled, 3, 0x10),
        ];
        for (wanted, at, bit) in flags {
            if let Some(wanted) = wanted {
                let byte = &mut self.owned_bytes(current)[at];
                *byte = if wanted { *byte | bit } else { *byte & !bit };
            }
        }
        let id = match changes.id {
            Some(IdChange::Random) => self.draws.by_number(Purpose::Id, current.number) as u16,
            Some(IdChange::Count) => current.number as u16,
            Some(IdChange::Fixed(id)) => id,
            None => return,
        };
        self.owned_bytes(current)[..2].copy_from_slice(&id.to_be_bytes());
    }

    /// Returns the bytes of the message for a change.
    fn owned_bytes(&mut self, current: &mut CurrentMessage<'_>) -> &mut Vec<u8> {
        if !current.is_changed {
            self.bytes.clear();
            self.bytes.extend_from_slice(current.message.bytes);
            current.is_changed = true;
        }
        self.bytes
    }

    /// Parses the query, changes it and composes it again. If that is impossible, it is counted and the query stays.
    fn rebuild(
        &mut self,
        current: &mut CurrentMessage<'_>,
        change: impl FnOnce(&mut Self, &mut Query, &CurrentMessage<'_>) -> Option<()>,
    ) {
        let Some(mut query) =
            Query::read(if current.is_changed { self.bytes.as_slice() } else { current.message.bytes })
        else {
            self.tally.unreadable += 1;
            return;
        };
        let is_done = change(self, &mut query, current).is_some() && query.write(self.spare);
        if is_done {
            std::mem::swap(self.bytes, self.spare);
            current.is_changed = true;
        } else {
            self.tally.too_long += 1;
        }
    }

    fn name(&self, change: &NameChange, query: &mut Query, number: u64) -> Option<()> {
        query.qname = match change {
            NameChange::Suffix { from, to } => query.replace_suffix(from, to)?,
            NameChange::Template(template) => template.fill(number, wire::NameRef::from_checked(&query.qname))?,
        };
        Some(())
    }

    fn edns(&self, changes: &Changes, query: &mut Query, current: &CurrentMessage<'_>) -> Option<()> {
        match changes.edns {
            Some(EdnsChange::Payload(payload)) => query.edns_mut().payload = payload,
            Some(EdnsChange::Remove) => query.remove_edns(),
            None => {}
        }
        if let Some(share) = changes.dnssec_ok {
            let is_wanted = unit((self.draw)(Purpose::DnssecOk)) < share;
            if is_wanted || query.edns.is_some() {
                query.edns_mut().set_dnssec_ok(is_wanted);
            }
        }
        if let Some(edns) = &mut query.edns {
            let replaced = changes.add_options.iter().map(OptionToAdd::code);
            changes.remove_options.iter().copied().chain(replaced).for_each(|code| edns.remove(code));
        }
        // Padding comes last, because it depends on the size of all others (RFC 7830 3).
        let is_padding = |option: &&OptionToAdd| matches!(option, OptionToAdd::Padding(_));
        let others = changes.add_options.iter().filter(|option| !is_padding(option));
        for option in others.chain(changes.add_options.iter().filter(is_padding)) {
            query.edns_mut();
            let bytes = option.bytes(self.draws, current.message.client().ip(), query.byte_count());
            query.edns_mut().add(option.code(), &bytes);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
