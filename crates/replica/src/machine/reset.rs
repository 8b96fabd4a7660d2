//! Restores a state into another cluster.

use super::{Machine, Stages};
use crate::state::History;
use crate::update::serial::{self, SerialGap};
use wire::number::{Rtype, Serial};
use zone::{Changeset, Record, ZoneId};

/// The serial of a zone before and after a restore into another cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredZone {
    /// The zone.
    pub zone: ZoneId,
    /// The serial in the old state.
    pub serial_from: Serial,
    /// The serial in the new cluster. It is unchanged for a zone that is signed elsewhere.
    pub serial_to: Serial,
}

impl Machine {
    /// Moves the serial of every zone ahead and returns the old and new serials. Zones that are signed elsewhere keep
    /// theirs, because a new SOA would need a new signature. Unfinished imports are dropped.
    ///
    /// # Errors
    /// The zone that cannot be changed.
    pub(crate) fn step_serials(&mut self, gap: SerialGap, now_s: u64) -> Result<Vec<RestoredZone>, ZoneId> {
        self.publish();
        let (mut steps, mut restored) = (Vec::new(), Vec::new());
        for zone in self.zones.head().zones() {
            let id = zone.id();
            let last = zone.serial().ok_or_else(|| id.clone())?;
            if zone.is_presigned() {
                restored.push(RestoredZone { zone: id, serial_from: last, serial_to: last });
                continue;
            }
            let policy = self.settings.zones().get(&id).copied().unwrap_or_default().serial_policy;
            let to = serial::restored(last, policy, now_s, gap);
            restored.push(RestoredZone { zone: id.clone(), serial_from: last, serial_to: to });
            steps.push((step(&id, &zone, to).ok_or_else(|| id.clone())?, id));
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
        // A zone that was removed may have been added again in the old cluster since the backup.
        self.settings.step_retired(|last| serial::restored_of_removed(last, now_s, gap));
        Ok(restored)
    }

    /// Drops the history, because no difference leads to the new contents.
    pub(crate) fn forget_history(&mut self) {
        self.history = History::new(self.history.limits());
    }
}

fn step(id: &ZoneId, zone: &zone::set::Zone<'_>, to: Serial) -> Option<Changeset> {
    let soa = zone.soa()?;
    let rdata = soa.rdatas().next()?;
    let from = zone.serial()?;
    let owner = id.apex.clone();
    let record = |rdata: Box<[u8]>| Record { owner: owner.clone(), rtype: Rtype::SOA, ttl: soa.ttl, rdata };
    Some(Changeset {
        serial_from: Some(from),
        serial_to: to,
        deleted: vec![record((*rdata).into())],
        added: vec![record(serial::with_serial(rdata, to)?)],
    })
}
