//! Whether this node may answer queries: written by the replica thread, read by all workers.

use replica::io::Serving;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{PoisonError, RwLock};
use zone::record::ZoneId;
use zone::set::Zone;

/// Starts as [`Serving::No`].
#[derive(Default, Debug)]
pub(crate) struct ServingState(AtomicU8);

impl ServingState {
    pub(crate) fn set(&self, serving: Serving) {
        let value = match serving {
            Serving::No => 0,
            Serving::Stale => 1,
            Serving::Yes => 2,
        };
        // Published zones come before the flag that lets workers answer from them.
        self.0.store(value, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Serving {
        match self.0.load(Ordering::Acquire) {
            2 => Serving::Yes,
            1 => Serving::Stale,
            _ => Serving::No,
        }
    }
}

/// The word in `/v1/status` and `/healthz`.
pub(crate) const fn label(serving: Serving) -> &'static str {
    match serving {
        Serving::No => "no",
        Serving::Stale => "stale",
        Serving::Yes => "yes",
    }
}

/// Zones that may no longer be served (RFC 1035 3.3.13 EXPIRE). Hardly ever is there one: workers look at a flag.
#[derive(Default, Debug)]
pub(crate) struct ExpiredZones {
    any: AtomicBool,
    zones: RwLock<BTreeSet<ZoneId>>,
}

impl ExpiredZones {
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, zones: BTreeSet<ZoneId>) {
        let any = !zones.is_empty();
        *self.zones.write().unwrap_or_else(PoisonError::into_inner) = zones;
        self.any.store(any, Ordering::Release);
    }

    pub(crate) fn has(&self, zone: &Zone<'_>) -> bool {
        self.any() && self.zones.read().unwrap_or_else(PoisonError::into_inner).contains(&zone.id())
    }
}
