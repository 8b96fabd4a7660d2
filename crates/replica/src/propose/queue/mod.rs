//! Commands that wait for evaluation at the leader, shared fairly, so that large senders do not delay small ones.
//!
//! ```text
//!   small   one flow for each (zone, key): updates; one for all else that administrators ask for
//!   large   one flow for each import, and those whose updates are large
//! ```
//! Commands of one flow are evaluated in order of arrival. The flows of a class share by deficit round robin, by
//! bytes and not by number. The classes share too: while both wait, small flows get three bytes for each byte of the
//! large ones, so that neither starves.
//!
//! The total size of the queue is bounded, and no flow may be larger than the room that is still free. So a flow that
//! floods the queue reaches its limit first, and other flows still have room.

use super::origin::Origin;
use crate::command::Command;
use crate::entry::Body;
use crate::limits::{EVALUATION_QUEUE_MAX, LARGE_COMMANDS_BYTES_MAX, SMALL_UPDATE_BYTES_MAX};
use crate::state::{Item, item_hash};
use std::collections::{BTreeMap, VecDeque};
use wire::limits::HEADER_BYTES;
use wire::name::NameRef;

/// The cost of a command besides its bytes. Even the smallest command needs a signature check, a zone lookup and an
/// entry.
const COMMAND_COST: usize = 512;
/// The cost that a flow may use per turn, in the small and in the large class.
const TURN_COST: [usize; 2] = [1_024, 64 << 10];
/// The weight of a byte of each class when classes take turns.
const CLASS_COST: [u64; 2] = [1, 3];

/// Identifies a flow. Two flows with the same number share one flow's part.
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
    /// The cost that it may still use in this turn.
    left: usize,
}

/// Waiting flows of one class. The first has its turn.
#[derive(Debug, Default)]
struct Ring {
    turns: VecDeque<FlowId>,
    /// The weighted bytes taken from this class, for comparison with the other.
    taken: u64,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct EvaluationQueue {
    flows: BTreeMap<FlowId, Flow>,
    rings: [Ring; 2],
    len: usize,
    /// Bytes of commands in flows of the large class.
    large_bytes: usize,
}

impl EvaluationQueue {
    /// Adds a command; `false` if there is no room for it.
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
                // Its turn is over. Its savings from several turns suffice for the largest command.
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

    /// Drops all commands; returns their origins.
    pub(super) fn drain(&mut self) -> Vec<Origin> {
        let flows = core::mem::take(self).flows.into_values();
        flows.flat_map(|flow| flow.commands).map(|waiting| waiting.origin).collect()
    }

    /// Puts a flow behind the others of its class. A flow that did not wait has no savings.
    fn begin_turns(&mut self, id: FlowId, class: Class) {
        if self.rings[class as usize].turns.is_empty() {
            let other = self.rings[1 - class as usize].taken;
            let ring = &mut self.rings[class as usize];
            ring.taken = ring.taken.max(other);
        }
        self.rings[class as usize].turns.push_back(id);
    }

    /// Moves a flow to the large class when it gets its first large command. All its commands move, so their order is
    /// kept.
    fn make_large(&mut self, id: FlowId) {
        let Some(flow) = self.flows.get_mut(&id).filter(|flow| flow.class == Class::Small) else { return };
        flow.class = Class::Large;
        flow.left = TURN_COST[Class::Large as usize];
        self.large_bytes += flow.commands.iter().map(|waiting| waiting.cost - COMMAND_COST).sum::<usize>();
        self.rings[Class::Small as usize].turns.retain(|&other| other != id);
        self.begin_turns(id, Class::Large);
    }
}

/// Updates share a flow per zone and key, and import steps per stage. All other commands share one.
fn flow_of(command: &Command) -> FlowId {
    let id = |parts: &[&[u8]]| if planted!(QueueNotShared) { 0 } else { item_hash(Item::Flow, parts) as u64 };
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
