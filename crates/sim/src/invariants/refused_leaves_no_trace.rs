//! A refused, failed or repeated update leaves no trace in any zone, and an effective one moves the serial once
//! (ARCHITECTURE.md, Invariants).
//!
//! Each effective update adds one unique record (its mark) and otherwise only replaces records one for one. At every
//! index of every member, serial = first serial + marks, and records = first records + marks. An update that was
//! refused, half applied or applied twice violates one of the two.

use crate::oracle::{KnownOutcome, Oracle};
use crate::updates::{FIRST_RECORDS, FIRST_SERIAL, main_zone};
use replica::io::NodeId;
use zone::Zone;
use zone::set::SetVersion;

/// It has no state.
#[derive(Debug, Default)]
pub(crate) struct RefusedLeavesNoTrace;

impl RefusedLeavesNoTrace {
    /// A member has applied more entries.
    pub(crate) fn on_applied(&self, id: NodeId, oracle: &Oracle, published: &SetVersion<'_>) -> Result<(), String> {
        if let Some(zone) = published.zone(&main_zone()) {
            self.on_zone(id, &zone)?;
        }
        for zone in published.zones() {
            oracle.check_imported(id, &zone)?;
        }
        Ok(())
    }

    fn on_zone(&self, id: NodeId, zone: &Zone<'_>) -> Result<(), String> {
        let serial = zone.serial().map_or(0, |serial| serial.0);
        let (steps, records) = (serial.wrapping_sub(FIRST_SERIAL), zone.record_count());
        if records != FIRST_RECORDS + u64::from(steps) {
            return Err(format!("{id}: {steps} steps of the serial, and {records} records from {FIRST_RECORDS}"));
        }
        Ok(())
    }

    /// At the end: no update is present that a client was told is not done.
    pub(crate) fn at_end(&self, id: NodeId, oracle: &Oracle, published: &SetVersion<'_>) -> Result<(), String> {
        self.on_applied(id, oracle, published)?;
        for (number, update) in oracle.updates() {
            if update.known_outcome() == KnownOutcome::Undone && update.is_in(published) {
                return Err(format!("{id}: update {number} was refused or never proposed, and is there: {update:?}"));
            }
        }
        Ok(())
    }
}
