//! An acknowledged update survives every fault, and a repeat is told what the first one was (ARCHITECTURE.md,
//! Invariants).
//!
//! Looked at when a client is told (the member that answers shows it), whenever a member begins to answer queries (it
//! shows all that was acknowledged up to its index), and at the end on every member.

use crate::oracle::{Fate, Oracle, Update};
use crate::updates::{Kind, counter_value, main_zone, register_value};
use replica::io::NodeId;
use std::collections::BTreeMap;
use wire::number::Rcode;
use zone::Zone;
use zone::set::SetVersion;

/// Counters that somebody was told to have moved, by the value that they moved from.
#[derive(Debug, Default)]
pub(crate) struct AcknowledgedUpdatesSurvive {
    counted: BTreeMap<u64, u64>,
}

impl AcknowledgedUpdatesSurvive {
    /// A client is told; `before` is what was told of the same update earlier.
    pub(crate) fn on_told(
        &mut self,
        id: NodeId,
        (number, update): (u64, &Update),
        before: Option<Rcode>,
        rcode: Rcode,
        was_revoked: bool,
        published: &SetVersion<'_>,
    ) -> Result<(), String> {
        if before.is_some_and(|before| before != rcode) {
            return Err(format!("update {number} was {before:?}, its repeat at {id} is {rcode:?}"));
        }
        if !update.kind.may_get(rcode, was_revoked) {
            return Err(format!("{id} says {rcode:?} to update {number}: {update:?}"));
        }
        let Some(zone) = published.zone(&main_zone()) else { return Err(format!("{id} lost its zone")) };
        if update.fate() == Fate::Done && !update.is_in(&zone) {
            return Err(format!("{id} acknowledges update {number} and does not show it: {update:?}"));
        }
        if let (Kind::Count { from }, Rcode::NOERROR) = (&update.kind, rcode) {
            let first = *self.counted.entry(*from).or_insert(number);
            if first != number {
                return Err(format!("updates {first} and {number} both moved the counter from {from}"));
            }
        }
        Ok(())
    }

    /// A member answers queries now: what was acknowledged up to its index is there.
    pub(crate) fn on_serving(
        &mut self,
        id: NodeId,
        oracle: &Oracle,
        published: &SetVersion<'_>,
        applied: u64,
    ) -> Result<(), String> {
        let Some(zone) = published.zone(&main_zone()) else { return Ok(()) };
        for (number, update) in oracle.updates() {
            if update.fate() == Fate::Done && update.told_index <= applied && !update.is_in(&zone) {
                return Err(format!("{id} at {applied} lacks update {number}: {update:?}"));
            }
        }
        Ok(())
    }

    /// At the end all that was acknowledged is there, and what is there is what the updates in their order make.
    pub(crate) fn at_end(&mut self, id: NodeId, oracle: &Oracle, published: &SetVersion<'_>) -> Result<(), String> {
        self.on_serving(id, oracle, published, u64::MAX)?;
        let Some(zone) = published.zone(&main_zone()) else { return Err(format!("{id} lost its zone")) };
        self.registers_at_end(id, oracle, &zone)
    }

    fn registers_at_end(&self, id: NodeId, oracle: &Oracle, zone: &Zone<'_>) -> Result<(), String> {
        // Each register has one writer, who sends one update after the other: their numbers are their order.
        let mut registers: BTreeMap<usize, u64> = BTreeMap::new();
        let mut counter = 0;
        for (number, update) in oracle.updates().filter(|(_, update)| update.is_in(zone)) {
            match update.kind {
                Kind::Set { register } | Kind::Swap { register, .. } => {
                    registers.insert(register, number);
                }
                Kind::Count { .. } => counter += 1,
                _ => {}
            }
        }
        for (register, expected) in registers {
            let found = register_value(zone, register);
            if found != Some(expected) {
                return Err(format!("{id}: register {register} holds {found:?} instead of {expected}"));
            }
        }
        let found = counter_value(zone);
        if found != Some(counter) {
            return Err(format!("{id}: the counter is {found:?} after {counter} steps"));
        }
        Ok(())
    }
}
