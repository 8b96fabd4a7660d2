//! Whether this node may answer queries, and for which zones. The replica thread writes it, and all workers read it.

use crate::sys::clock::boot_ms;
use replica::io::Serving;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::NameRef;
use zone::answer::Servable;
use zone::record::ZoneId;
use zone::set::Zone;

/// Starts as [`Serving::No`].
#[derive(Default, Debug)]
pub(crate) struct ServingState {
    serving: AtomicU8,
    is_listening: AtomicBool,
}

impl ServingState {
    pub(crate) fn set(&self, serving: Serving) {
        let value = match serving {
            Serving::No => 0,
            Serving::Stale => 1,
            Serving::Yes => 2,
        };
        // Published zones come before the flag that lets workers answer from them.
        self.serving.store(value, Ordering::Release);
    }

    /// Records that the sockets for clients are open, or that the node has no address for DNS.
    pub(crate) fn set_listening(&self) {
        self.is_listening.store(true, Ordering::Release);
    }

    /// The state that the API reports: [`Serving::No`] until the sockets for clients are open.
    pub(crate) fn reported(&self) -> Serving {
        if self.is_listening.load(Ordering::Acquire) { self.get() } else { Serving::No }
    }

    pub(crate) fn get(&self) -> Serving {
        match self.serving.load(Ordering::Acquire) {
            2 => Serving::Yes,
            1 => Serving::Stale,
            _ => Serving::No,
        }
    }
}

/// The value in `/v1/status` and `/healthz`.
pub(crate) const fn label(serving: Serving) -> &'static str {
    match serving {
        Serving::No => "no",
        Serving::Stale => "stale",
        Serving::Yes => "yes",
    }
}

/// Zones that may not always be served: expired ones (RFC 1035 3.3.13 EXPIRE), and those with `ack = all-live`, for
/// which a node needs a lease. They change rarely, so each reader has a copy and checks one number for changes.
#[derive(Default, Debug)]
pub(crate) struct ZoneLimits {
    generation: AtomicU64,
    zones: Mutex<Arc<LimitedZones>>,
    /// Expiry of the lease, in milliseconds of the boot clock, which also counts sleep.
    lease_until_ms: AtomicU64,
}

#[derive(Default, Debug)]
struct LimitedZones {
    /// In order.
    expired: Box<[ZoneId]>,
    /// In order.
    leased: Box<[ZoneId]>,
}

impl ZoneLimits {
    pub(crate) fn has_expired(&self) -> bool {
        !self.lock().expired.is_empty()
    }

    /// Whether a lease is needed to answer for a zone.
    pub(crate) fn is_leased(&self, zone: &ZoneId) -> bool {
        self.lock().leased.binary_search(zone).is_ok()
    }

    pub(crate) fn set_expired(&self, expired: BTreeSet<ZoneId>) {
        let mut known = self.lock();
        if !known.expired.iter().eq(&expired) {
            let (expired, leased) = (expired.into_iter().collect(), known.leased.clone());
            *known = Arc::new(LimitedZones { expired, leased });
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn set_leased(&self, leased: &BTreeSet<ZoneId>) {
        let mut known = self.lock();
        if !known.leased.iter().eq(leased) {
            let (expired, leased) = (known.expired.clone(), leased.iter().cloned().collect());
            *known = Arc::new(LimitedZones { expired, leased });
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn set_lease(&self, until_ms: u64) {
        // Zones are published before the lease that lets workers answer from them.
        self.lease_until_ms.store(until_ms, Ordering::Release);
    }

    /// Whether the lease is valid. Checked after a query arrived, so a process that was suspended notices the expiry.
    fn has_lease(&self) -> bool {
        boot_ms() < self.lease_until_ms.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Arc<LimitedZones>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thread's view of what may be served.
pub(crate) struct ServingReader {
    state: Arc<ServingState>,
    limits: Arc<ZoneLimits>,
    generation: u64,
    zones: Arc<LimitedZones>,
}

/// What may be served, fixed for one batch of queries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingNow<'r> {
    pub(crate) serving: Serving,
    /// In order.
    expired: &'r [ZoneId],
    /// Zones that need a lease while the node has none. In order.
    cut_off: &'r [ZoneId],
}

impl ServingReader {
    pub(crate) fn new(state: Arc<ServingState>, limits: Arc<ZoneLimits>) -> Self {
        Self { state, limits, generation: 0, zones: Arc::default() }
    }

    /// The current state. It never waits: while another thread changes the zones, it uses the known ones for a batch.
    pub(crate) fn now(&mut self) -> ServingNow<'_> {
        let generation = self.limits.generation.load(Ordering::Acquire);
        if generation != self.generation
            && let Ok(zones) = self.limits.zones.try_lock()
        {
            self.zones = zones.clone();
            self.generation = generation;
        }
        let LimitedZones { expired, leased } = &*self.zones;
        // The clock is read only if a zone needs a lease.
        let cut_off = if leased.is_empty() || self.limits.has_lease() { &[] } else { &**leased };
        ServingNow { serving: self.state.get(), expired, cut_off }
    }
}

impl ServingNow<'_> {
    /// Whether a zone may be answered from.
    pub(crate) fn of(&self, zone: &Zone<'_>) -> Servable {
        match self.serving {
            Serving::No => Servable::Loading,
            _ if has(self.expired, zone.view(), zone.apex()) => Servable::Expired,
            _ if has(self.cut_off, zone.view(), zone.apex()) => Servable::CutOff,
            _ => Servable::Ready,
        }
    }
}

fn has(zones: &[ZoneId], view: u16, apex: NameRef<'_>) -> bool {
    zones.binary_search_by(|id| (id.view, id.apex.as_ref()).cmp(&(view, apex))).is_ok()
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
        super::has(now.expired, 0, apex.as_ref())
    }

    #[test]
    fn a_zone_that_needs_a_lease_is_cut_off_when_the_lease_expires() {
        let limits = Arc::<ZoneLimits>::default();
        let mut reader = ServingReader::new(Arc::default(), limits.clone());
        limits.set_expired(zones(&["old.test."]));
        assert!(reader.now().cut_off.is_empty());
        limits.set_leased(&zones(&["b.test.", "a.test."]));
        assert!(limits.has_expired() && limits.is_leased(&zones(&["a.test."]).pop_first().unwrap()));
        assert_eq!((reader.now().cut_off.len(), has(&reader.now(), "old.test.")), (2, true));
        limits.set_lease(boot_ms() + 3_600_000);
        assert!(reader.now().cut_off.is_empty());
        limits.set_lease(boot_ms());
        assert_eq!(reader.now().cut_off.len(), 2);
        limits.set_leased(&BTreeSet::new());
        assert!(reader.now().cut_off.is_empty() && has(&reader.now(), "old.test."));
    }

    #[test]
    fn a_reader_goes_on_while_the_zones_are_being_changed() {
        let expired = Arc::<ZoneLimits>::default();
        let mut reader = ServingReader::new(Arc::default(), expired.clone());
        assert!(!expired.has_expired() && !has(&reader.now(), "a.test."));
        expired.set_expired(zones(&["a.test.", "c.", "b.test."]));
        assert!(expired.has_expired());
        // A writer that holds the lock.
        let writer = expired.lock();
        assert!(!has(&reader.now(), "a.test."));
        drop(writer);
        for (apex, is_expired) in [("a.test.", true), ("b.test.", true), ("c.", true), ("test.", false), ("d.", false)]
        {
            assert_eq!(has(&reader.now(), apex), is_expired, "{apex}");
        }
        expired.set_expired(zones(&[]));
        assert!(!expired.has_expired() && !has(&reader.now(), "a.test."));
    }

    #[test]
    fn readers_see_one_set_or_the_next_and_the_last_in_the_end() {
        let expired = Arc::<ZoneLimits>::default();
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
        // A busy machine may start a reader late. The sets change until each reader has read some, or has failed.
        let has_read = |(thread, reads): &(JoinHandle<()>, Arc<AtomicU64>)| {
            thread.is_finished() || reads.load(Ordering::Relaxed) >= 1_000
        };
        let mut rounds = 0;
        while rounds < 5_000 || !readers.iter().all(has_read) {
            expired.set_expired(zones(&["a.test.", "b.test."]));
            expired.set_expired(zones(&["c.test."]));
            rounds += 1;
        }
        expired.set_expired(zones(&["last."]));
        is_over.store(true, Ordering::Release);
        for (thread, _) in readers {
            thread.join().unwrap();
        }
    }
}
