//! An acknowledged update survives every fault, and a repeat gets the response of the first (ARCHITECTURE.md,
//! Invariants).
//!
//! Checked at each response: the responding member shows the update. Checked when a member starts to answer queries: it
//! shows everything acknowledged up to its index. Checked at the end on every member.

use crate::oracle::{KnownOutcome, Oracle, Update};
use crate::updates::{Kind, main_zone};
use replica::io::NodeId;
use std::collections::BTreeMap;
use wire::number::Rcode;
use zone::set::SetVersion;

/// Acknowledged steps of counters, by the value before.
#[derive(Debug, Default)]
pub(crate) struct AcknowledgedUpdatesSurvive {
    counted: BTreeMap<u64, u64>,
}

impl AcknowledgedUpdatesSurvive {
    /// A client gets a response. `before` is the RCODE of an earlier response to the same update.
    pub(crate) fn on_response(
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
        if update.known_outcome() == KnownOutcome::Done && !update.is_in(published) {
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

    /// A member now answers queries: it must show everything acknowledged up to its index.
    pub(crate) fn on_serving(
        &mut self,
        id: NodeId,
        oracle: &Oracle,
        published: &SetVersion<'_>,
        applied: u64,
    ) -> Result<(), String> {
        for (number, update) in oracle.updates() {
            if update.known_outcome() == KnownOutcome::Done
                && update.first_rcode_index <= applied
                && !update.is_in(published)
            {
                return Err(format!("{id} at {applied} lacks update {number}: {update:?}"));
            }
        }
        Ok(())
    }

    /// At the end, all acknowledged updates must be present, and the contents must follow from the updates in order.
    pub(crate) fn at_end(&mut self, id: NodeId, oracle: &Oracle, published: &SetVersion<'_>) -> Result<(), String> {
        self.on_serving(id, oracle, published, u64::MAX)?;
        if published.zone(&main_zone()).is_none() {
            return Err(format!("{id} lost its zone"));
        }
        oracle.compare(id, published)
    }
}
