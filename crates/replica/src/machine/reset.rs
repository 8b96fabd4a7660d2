//! A state that goes on in another cluster.

use super::{Machine, Stages};
use crate::state::History;
use crate::update::serial;
use wire::number::{Rtype, Serial};
use zone::{Changeset, Record, ZoneId};

impl Machine {
    /// Moves the serial of every zone ahead, but for those that are signed elsewhere: with their SOA the signature of
    /// it would have to change. What was staged is given up.
    ///
    /// # Errors
    /// The zone that does not take it.
    pub(crate) fn step_serials(&mut self, gap: u32) -> Result<(), ZoneId> {
        self.publish();
        let mut steps = Vec::new();
        for zone in self.zones.head().zones().filter(|zone| !zone.is_presigned()) {
            let id = zone.id();
            steps.push((step(&id, &zone, gap).ok_or_else(|| id.clone())?, id));
        }
        let staged: Vec<ZoneId> = self.zones.head().all_staged().map(|zone| zone.id()).collect();
        let mut edit = self.zones.edit();
        for (changeset, id) in &steps {
            edit.apply(id, changeset).map_err(|_| id.clone())?;
        }
        for id in &staged {
            edit.abandon_stage(id).map_err(|_| id.clone())?;
        }
        let version = edit.seal();
        self.zones.publish(version);
        self.zones.reclaim();
        self.zones_hash = self.zones.head().state_hash();
        self.stages = Stages::default();
        Ok(())
    }

    /// No difference leads to what a zone holds now.
    pub(crate) fn forget_history(&mut self) {
        self.history = History::new(self.history.limits());
    }
}

fn step(id: &ZoneId, zone: &zone::set::Zone<'_>, gap: u32) -> Option<Changeset> {
    let soa = zone.soa()?;
    let rdata = soa.rdatas().next()?;
    let from = zone.serial()?;
    // Some software takes 0 for "no serial".
    let to = Serial(Some(from.0.wrapping_add(gap)).filter(|&serial| serial != 0).unwrap_or(1));
    let owner = id.apex.clone();
    let record = |rdata: Box<[u8]>| Record { owner: owner.clone(), rtype: Rtype::SOA, ttl: soa.ttl, rdata };
    Some(Changeset {
        serial_from: Some(from),
        serial_to: to,
        deleted: vec![record((*rdata).into())],
        added: vec![record(serial::with_serial(rdata, to)?)],
    })
}
