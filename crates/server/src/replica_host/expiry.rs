//! Zones that are not always served: those with `ack = "all-live"` need a lease, and those with `stale = "expire"` stop
//! after SOA EXPIRE. EXPIRE counts the time since a leader last confirmed that this node has all data.

use crate::limits::TICK_MS;
use crate::published::serving::ZoneLimits;
use replica::Replica;
use replica::io::{AckOption, StaleOption};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zone::record::ZoneId;
use zone::set::Zone;

/// Ticks between two checks: EXPIRE counts seconds.
const CHECK_TICKS: u64 = 1_000 / TICK_MS;

/// Decides which zones have expired. Runs on the replica thread.
pub(crate) struct ExpiryClock {
    limits: Arc<ZoneLimits>,
    /// Zones that expire, and their EXPIRE in milliseconds.
    zones: BTreeMap<ZoneId, u64>,
    /// Zones that need a lease.
    leased: BTreeSet<ZoneId>,
    ticks: u64,
}

impl ExpiryClock {
    pub(crate) const fn new(limits: Arc<ZoneLimits>) -> Self {
        Self { limits, zones: BTreeMap::new(), leased: BTreeSet::new(), ticks: 0 }
    }

    /// Sets the end of the lease.
    pub(crate) fn set_lease(&self, until_ms: u64) {
        self.limits.set_lease(until_ms);
    }

    /// Updates the zones that changed, or whose options changed; `None` means all. A changed EXPIRE is noticed at the
    /// next check.
    pub(crate) fn zones_changed(&mut self, replica: &Replica, zones: Option<Vec<ZoneId>>) {
        let published = replica.zones().published();
        let zones = zones.unwrap_or_else(|| {
            self.zones.clear();
            self.leased.clear();
            published.zones().map(|zone| zone.id()).collect()
        });
        for id in zones {
            let options = replica.zone_options(&id).unwrap_or_default();
            if options.ack == AckOption::AllLive {
                self.leased.insert(id.clone());
            } else {
                self.leased.remove(&id);
            }
            match published.zone(&id).filter(|_| options.stale == StaleOption::Expire) {
                Some(zone) => _ = self.zones.insert(id, expire_ms(&zone)),
                None => _ = self.zones.remove(&id),
            }
        }
        // This must happen before the leader learns that this node knows the zone.
        self.limits.set_leased(&self.leased);
        self.ticks = 0;
    }

    /// Runs once per tick.
    pub(crate) fn tick(&mut self, replica: &Replica) {
        let is_due = self.ticks.is_multiple_of(CHECK_TICKS);
        self.ticks += 1;
        if !is_due || (self.zones.is_empty() && !self.limits.has_expired()) {
            return;
        }
        let published = replica.zones().published();
        let staleness_ms = replica.staleness_ms();
        let mut expired = BTreeSet::new();
        for (id, expire_ms_known) in &mut self.zones {
            if let Some(zone) = published.zone(id) {
                *expire_ms_known = expire_ms(&zone);
            }
            if staleness_ms > *expire_ms_known {
                expired.insert(id.clone());
            }
        }
        self.limits.set_expired(expired);
    }
}

/// EXPIRE of the zone's SOA in milliseconds.
fn expire_ms(zone: &Zone<'_>) -> u64 {
    u64::from(zone.expire().unwrap_or(u32::MAX)) * 1_000
}
