//! Every interleaving of a small program on the publication protocol (`qsbr.rs`): no reader ever looks at a place while
//! the writer reuses it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p catamaran-store --release --test loom`
#![cfg(loom)]

use std::sync::Arc;

use catamaran_store::qsbr::{Domain, RegisteredReader};
use loom::cell::UnsafeCell;
use loom::thread;

/// Two places for what a root leads to. Loom fails the test when a place is read and written at the same time, or
/// without order between the two.
struct Slots([UnsafeCell<u64>; 2]);

// SAFETY: that the places are not shared wrongly is what the test finds out; loom watches every access.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    fn new() -> Arc<Self> {
        Arc::new(Self([UnsafeCell::new(0), UnsafeCell::new(u64::MAX)]))
    }

    fn write(&self, slot: u32, value: u64) {
        // SAFETY: loom checks that nobody else is here.
        self.0[slot as usize].with_mut(|at| unsafe { *at = value });
    }

    fn read(&self, slot: u32) -> u64 {
        // SAFETY: loom checks that nobody writes here.
        self.0[slot as usize].with(|at| unsafe { *at })
    }
}

/// Publishes `versions` versions, each in the place that the version before the last one had, as soon as it may be
/// reused; gives up on the first that may not, as the real writer would take another place.
fn write(domain: &Domain, slots: &Slots, versions: u64) {
    for version in 1..=versions {
        let slot = (version % 2) as u32;
        if domain.safe_epoch() < version - 1 {
            return;
        }
        slots.write(slot, version);
        domain.publish(slot, version);
    }
}

/// Pins and reads; what is found never gets older.
fn read(reader: &mut RegisteredReader, slots: &Slots, newest: &mut u64) {
    let slot = reader.pin();
    let version = slots.read(slot);
    assert!(version != u64::MAX && version >= *newest, "a version out of order");
    *newest = version;
    assert_eq!(slots.read(slot), version, "a pinned version changed");
}

#[test]
fn a_reader_that_stays_online() {
    loom::model(|| {
        let (domain, slots) = (Arc::new(Domain::new(0)), Slots::new());
        let mut reader = domain.register();
        let shared_slots = Arc::clone(&slots);
        let thread = thread::spawn(move || {
            let mut newest = 0;
            read(&mut reader, &shared_slots, &mut newest);
            read(&mut reader, &shared_slots, &mut newest);
        });
        write(&domain, &slots, 3);
        thread.join().expect("the reader has not failed");
    });
}

#[test]
fn a_reader_that_goes_offline_and_comes_back() {
    loom::model(|| {
        let (domain, slots) = (Arc::new(Domain::new(0)), Slots::new());
        let mut reader = domain.register();
        let shared_slots = Arc::clone(&slots);
        let thread = thread::spawn(move || {
            let mut newest = 0;
            read(&mut reader, &shared_slots, &mut newest);
            reader.offline();
            read(&mut reader, &shared_slots, &mut newest);
        });
        write(&domain, &slots, 2);
        thread.join().expect("the reader has not failed");
    });
}

#[test]
fn two_readers() {
    let mut model = loom::model::Builder::new();
    // More switches than this between three threads take too long, and none found more.
    model.preemption_bound = Some(3);
    model.check(|| {
        let (domain, slots) = (Arc::new(Domain::new(0)), Slots::new());
        let threads = [domain.register(), domain.register()].map(|mut reader| {
            let shared_slots = Arc::clone(&slots);
            thread::spawn(move || {
                let mut newest = 0;
                read(&mut reader, &shared_slots, &mut newest);
                reader.offline();
            })
        });
        write(&domain, &slots, 2);
        for thread in threads {
            thread.join().expect("the reader has not failed");
        }
    });
}

#[test]
fn a_held_version_stays_until_it_is_dropped() {
    loom::model(|| {
        let (domain, slots) = (Arc::new(Domain::new(0)), Slots::new());
        let (registered, slot) = domain.register_and_pin();
        let shared_slots = Arc::clone(&slots);
        let thread = thread::spawn(move || {
            assert_eq!(shared_slots.read(slot), 0);
            assert_eq!(shared_slots.read(slot), 0);
            drop(registered);
        });
        write(&domain, &slots, 2);
        thread.join().expect("the holder has not failed");
    });
}
