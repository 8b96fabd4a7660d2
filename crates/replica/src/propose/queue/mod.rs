//! What waits at the leader for its evaluation, shared so that nobody's much keeps others' little waiting.
//!
//! ```text
//!   small   one flow for each (zone, key): updates; one for all else that administrators ask for
//!   large   one flow for each import, and those whose updates are large
//! ```
//! What is of one flow is evaluated in the order in which it came. Flows of a class share by deficit round robin: each
//! in its turn, by bytes and not by number. The classes share too: while both wait, the small ones get three bytes
//! for each of the large ones, so that neither keeps the other out.
//!
//! The queue is bounded as a whole, and no flow has more than what is free beside it: one that floods it meets its
//! bound first, and there is room for who comes after it.

use super::Origin;
use crate::command::Command;
use crate::entry::Body;
use crate::limits::{EVALUATION_QUEUE_MAX, LARGE_COMMANDS_BYTES_MAX, SMALL_UPDATE_BYTES_MAX};
use crate::state::{Item, item_hash};
use std::collections::{BTreeMap, VecDeque};
use wire::limits::HEADER_BYTES;
use wire::name::NameRef;

/// What a command costs beside its bytes: also the smallest takes a signature to look up, a zone to find, an entry.
const COMMAND_COST: usize = 512;
/// What a flow may cost in its turn, in the class of small ones and in that of large ones.
const TURN_COST: [usize; 2] = [1_024, 64 << 10];
/// So many bytes of the other class each byte of this one stands for, when classes take turns.
const CLASS_COST: [u64; 2] = [1, 3];

/// Names a flow. Two that have the same share what one would get.
type FlowId = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Small = 0,
    Large = 1,
}

#[derive(Debug)]
struct Waiting {
    origin: Origin,
    command: Command,
    cost: usize,
}

#[derive(Debug)]
struct Flow {
    class: Class,
    commands: VecDeque<Waiting>,
    /// What it may still cost in this turn.
    left: usize,
}

/// Flows of one class that wait, the one whose turn it is first.
#[derive(Debug, Default)]
struct Ring {
    turns: VecDeque<FlowId>,
    /// What was taken from it, as one class is weighed against the other.
    taken: u64,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct EvaluationQueue {
    flows: BTreeMap<FlowId, Flow>,
    rings: [Ring; 2],
    len: usize,
    /// Bytes of commands in flows of large ones.
    large_bytes: usize,
}

impl EvaluationQueue {
    /// Takes a command; `false` when there is no room for it.
    pub(super) fn push(&mut self, origin: Origin, command: Command) -> bool {
        let bytes = bytes_of(&command);
        let (id, is_large) = (flow_of(&command), is_large(&command, bytes));
        let of_flow = self.flows.get(&id).map_or(0, |flow| flow.commands.len());
        let is_full = self.len >= EVALUATION_QUEUE_MAX || of_flow >= EVALUATION_QUEUE_MAX - self.len;
        if is_full || (is_large && self.large_bytes + bytes > LARGE_COMMANDS_BYTES_MAX) {
            return false;
        }
        let class = if is_large { Class::Large } else { Class::Small };
        if !self.flows.contains_key(&id) {
            self.begin_turns(id, class);
            self.flows.insert(id, Flow { class, commands: VecDeque::new(), left: TURN_COST[class as usize] });
        } else if is_large {
            self.make_large(id);
        }
        let Some(flow) = self.flows.get_mut(&id) else { return false };
        if flow.class == Class::Large {
            self.large_bytes += bytes;
        }
        flow.commands.push_back(Waiting { origin, command, cost: bytes + COMMAND_COST });
        self.len += 1;
        true
    }

    /// The next command to evaluate.
    pub(super) fn pop(&mut self) -> Option<(Origin, Command)> {
        let class = match (&self.rings[0], &self.rings[1]) {
            (small, large) if large.turns.is_empty() || !small.turns.is_empty() && small.taken <= large.taken => 0,
            _ => 1,
        };
        loop {
            let ring = &mut self.rings[class];
            let &id = ring.turns.front()?;
            let flow = self.flows.get_mut(&id)?;
            let cost = flow.commands.front()?.cost;
            if flow.left < cost {
                // Its turn is over; what it saves up is enough for the largest command in the end.
                flow.left += TURN_COST[class];
                ring.turns.rotate_left(1);
                continue;
            }
            flow.left -= cost;
            ring.taken += cost as u64 * CLASS_COST[class];
            let Waiting { origin, command, .. } = flow.commands.pop_front()?;
            if flow.commands.is_empty() {
                self.flows.remove(&id);
                self.rings[class].turns.pop_front();
            }
            if class == Class::Large as usize {
                self.large_bytes -= cost - COMMAND_COST;
            }
            self.len -= 1;
            return Some((origin, command));
        }
    }

    /// Throws everything away; gives who asked.
    pub(super) fn drain(&mut self) -> Vec<Origin> {
        let flows = core::mem::take(self).flows.into_values();
        flows.flat_map(|flow| flow.commands).map(|waiting| waiting.origin).collect()
    }

    /// A flow waits behind the others of its class. One that did not wait has saved nothing up.
    fn begin_turns(&mut self, id: FlowId, class: Class) {
        if self.rings[class as usize].turns.is_empty() {
            let other = self.rings[1 - class as usize].taken;
            let ring = &mut self.rings[class as usize];
            ring.taken = ring.taken.max(other);
        }
        self.rings[class as usize].turns.push_back(id);
    }

    /// A flow whose commands were small has a large one: it goes over as it is, since it keeps its order.
    fn make_large(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.class == Class::Small) else { return };
        flow.class = Class::Large;
        flow.left = TURN_COST[Class::Large as usize];
        self.large_bytes += flow.commands.iter().map(|waiting| waiting.cost - COMMAND_COST).sum::<usize>();
        self.rings[Class::Small as usize].turns.retain(|&other| other != id);
        self.begin_turns(id, Class::Large);
    }
}

/// Updates are of their zone and key, steps of an import of its stage; what else there is belongs together.
fn flow_of(command: &Command) -> FlowId {
    let id = |parts: &[&[u8]]| item_hash(Item::Flow, parts) as u64;
    match command {
        Command::Update(update) => {
            let question = update.message.get(HEADER_BYTES..).unwrap_or_default();
            let apex = NameRef::split_from(question).map_or(NameRef::ROOT, |(apex, _)| apex);
            id(&[&apex.as_bytes().to_ascii_lowercase(), update.key_name.as_bytes()])
        }
        Command::Propose(body) => match body {
            Body::ImportBegin(begin) => id(&[&begin.stage.0]),
            Body::ImportChunk(chunk) => id(&[&chunk.stage.0]),
            Body::ImportCommit(commit) => id(&[&commit.stage.0]),
            Body::ImportAbandon(stage) => id(&[&stage.0]),
            Body::Change(change) => id(&[change.zone.apex.as_bytes()]),
            Body::Update(_) | Body::Settings(_) => id(&[]),
        },
        Command::Settings(_)
        | Command::ZoneSet { .. }
        | Command::KeyRoll { .. }
        | Command::PolicySet { .. }
        | Command::NodeAdd { .. }
        | Command::NodeRemove { .. }
        | Command::TransferLeader { .. }
        | Command::WaitAllLive { .. } => id(&[]),
    }
}

fn is_large(command: &Command, bytes: usize) -> bool {
    match command {
        Command::Update(_) => bytes > SMALL_UPDATE_BYTES_MAX,
        Command::Propose(_) => true,
        _ => false,
    }
}

fn bytes_of(command: &Command) -> usize {
    match command {
        Command::Update(update) => update.message.len(),
        Command::Propose(Body::ImportChunk(chunk)) => chunk.records.as_bytes().len(),
        Command::Propose(Body::Change(change)) => {
            let records = change.changeset.deleted.iter().chain(&change.changeset.added);
            records.map(|record| record.owner.as_bytes().len() + record.rdata.len() + 8).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
