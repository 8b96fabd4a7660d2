//! Whether this node may answer queries: written by the replica thread, read by all workers.

use replica::io::Serving;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::NameRef;
use zone::answer::Servable;
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

/// Zones that may no longer be served (RFC 1035 3.3.13 EXPIRE). Hardly ever is there one, and hardly ever does it
/// change: each reader has its own copy and looks at one number.
#[derive(Default, Debug)]
pub(crate) struct ExpiredZones {
    generation: AtomicU64,
    /// In order.
    zones: Mutex<Arc<[ZoneId]>>,
}

impl ExpiredZones {
    pub(crate) fn any(&self) -> bool {
        !self.lock().is_empty()
    }

    pub(crate) fn set(&self, zones: BTreeSet<ZoneId>) {
        let mut known = self.lock();
        if !known.iter().eq(&zones) {
            *known = zones.into_iter().collect();
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<[ZoneId]>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's view of what may be served.
pub(crate) struct ServingReader {
    state: Arc<ServingState>,
    expired: Arc<ExpiredZones>,
    generation: u64,
    zones: Arc<[ZoneId]>,
}

/// The same for a batch of queries: it does not change meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingNow<'r> {
    pub(crate) serving: Serving,
    /// In order.
    expired: &'r [ZoneId],
}

impl ServingReader {
    pub(crate) fn new(state: Arc<ServingState>, expired: Arc<ExpiredZones>) -> Self {
        Self { state, expired, generation: 0, zones: Arc::default() }
    }

    /// As it is now. Never waits: while the zones that expired are being changed it goes on with those it knows, for a
    /// batch.
    pub(crate) fn now(&mut self) -> ServingNow<'_> {
        let generation = self.expired.generation.load(Ordering::Acquire);
        if generation != self.generation
            && let Ok(zones) = self.expired.zones.try_lock()
        {
            self.zones = zones.clone();
            self.generation = generation;
        }
        ServingNow { serving: self.state.get(), expired: &self.zones }
    }
}

impl ServingNow<'_> {
    /// Whether a zone may be answered from.
    pub(crate) fn of(&self, zone: &Zone<'_>) -> Servable {
        match self.serving {
            Serving::No => Servable::Loading,
            _ if self.has_expired(zone.view(), zone.apex()) => Servable::Expired,
            _ => Servable::Ready,
        }
    }

    fn has_expired(&self, view: u16, apex: NameRef<'_>) -> bool {
        self.expired.binary_search_by(|id| (id.view, id.apex.as_ref()).cmp(&(view, apex))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};
    use std::thread::JoinHandle;

    fn zones(apexes: &[&str]) -> BTreeSet<ZoneId> {
        apexes.iter().map(|apex| ZoneId { view: 0, apex: apex.parse().unwrap() }).collect()
    }

    fn has(now: &ServingNow<'_>, apex: &str) -> bool {
        let apex: wire::Name = apex.parse().unwrap();
        now.has_expired(0, apex.as_ref())
    }

    #[test]
    fn a_reader_goes_on_while_the_zones_are_being_changed() {
        let expired = Arc::<ExpiredZones>::default();
        let mut reader = ServingReader::new(Arc::default(), expired.clone());
        assert!(!expired.any() && !has(&reader.now(), "a.test."));
        expired.set(zones(&["a.test.", "c.", "b.test."]));
        assert!(expired.any());
        // A writer that holds the lock for ever, as far as this reader can tell.
        let writer = expired.lock();
        assert!(!has(&reader.now(), "a.test."));
        drop(writer);
        for (apex, is_expired) in [("a.test.", true), ("b.test.", true), ("c.", true), ("test.", false), ("d.", false)]
        {
            assert_eq!(has(&reader.now(), apex), is_expired, "{apex}");
        }
        expired.set(zones(&[]));
        assert!(!expired.any() && !has(&reader.now(), "a.test."));
    }

    #[test]
    fn readers_see_one_set_or_the_next_and_the_last_in_the_end() {
        let expired = Arc::<ExpiredZones>::default();
        let is_over = Arc::<AtomicBool>::default();
        let read = || {
            let (expired, is_over) = (expired.clone(), is_over.clone());
            let counted = Arc::<AtomicU64>::default();
            let reads = counted.clone();
            let thread = std::thread::spawn(move || {
                let mut reader = ServingReader::new(Arc::default(), expired);
                while !is_over.load(Ordering::Acquire) {
                    let now = reader.now();
                    // Both zones expire and come back together.
                    assert_eq!(has(&now, "a.test."), has(&now, "b.test."));
                    counted.fetch_add(1, Ordering::Relaxed);
                }
                while !has(&reader.now(), "last.") {
                    std::thread::yield_now();
                }
            });
            (thread, reads)
        };
        let readers = [read(), read()];
        // A busy machine may start a reader late: the sets change until each has read among them, or has failed.
        let has_read = |(thread, reads): &(JoinHandle<()>, Arc<AtomicU64>)| {
            thread.is_finished() || reads.load(Ordering::Relaxed) >= 1_000
        };
        let mut rounds = 0;
        while rounds < 5_000 || !readers.iter().all(has_read) {
            expired.set(zones(&["a.test.", "b.test."]));
            expired.set(zones(&["c.test."]));
            rounds += 1;
        }
        expired.set(zones(&["last."]));
        is_over.store(true, Ordering::Release);
        for (thread, _) in readers {
            thread.join().unwrap();
        }
    }
}
