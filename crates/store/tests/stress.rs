//! Readers on their own threads while the writer changes, publishes, rewinds and reuses as fast as it can.
#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "readers on threads of their own are what is tested")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use catamaran_store::{Frozen, Key, Path, Reader, Store, StoreConfig, Tree, View};
use common::{Plain, key, leaf, symbols, value};

/// Leaves that every version writes anew, all with its number.
const STAMPED: u8 = 40;
const VERSIONS: u64 = if cfg!(miri) { 20 } else { 4000 };

/// A small generator of numbers that look random (xorshift).
struct Numbers(u64);

impl Numbers {
    fn random_below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn stamp(leaf: &[u8]) -> u64 {
    u64::from_le_bytes(value(leaf)[..8].try_into().expect("a stamp has eight bytes"))
}

/// Every way of reading finds one and the same version, whole.
fn check(view: View<'_, Plain>, root: Tree) -> u64 {
    let Some(first) = view.get(root, &key(&[0, 0])) else {
        assert!(root.is_empty());
        return 0;
    };
    let version = stamp(first);
    let queries: Vec<(Tree, Key)> = (0..STAMPED).map(|index| (root, key(&[0, index]))).collect();
    let mut found = vec![None; queries.len()];
    view.get_batch(&queries, &mut found);
    assert!(found.iter().all(|leaf| leaf.is_some_and(|leaf| stamp(leaf) == version)));
    let mut path = Path::new();
    view.locate(root, &key(&[0, 7, 9]), &mut path);
    assert_eq!(path.prefixes().last().map(|leaf| stamp(leaf)), Some(version));
    let mut last: Option<&[u8]> = None;
    let mut stamped = 0;
    for leaf in view.iter(root) {
        assert!(last.is_none_or(|last| symbols(last) < symbols(leaf)));
        last = Some(leaf);
        if symbols(leaf)[0] == 0 {
            assert_eq!(stamp(leaf), version);
            stamped += 1;
        } else {
            assert!(value(leaf).iter().all(|byte| *byte == value(leaf)[0]), "a leaf was overwritten");
        }
    }
    assert_eq!(stamped, STAMPED);
    version
}

fn read_until(mut reader: Reader<Plain>, stop: &AtomicBool, often_offline: bool) -> u64 {
    let mut newest = 0;
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let pinned = reader.pin();
        let version = check(pinned.view(), pinned.root());
        assert!(version >= newest, "a reader went back");
        assert_eq!(check(pinned.view(), pinned.root()), version);
        newest = version;
        rounds += 1;
        if often_offline {
            reader.offline();
            thread::yield_now();
        }
    }
    rounds
}

fn read_frozen(frozen: mpsc::Receiver<Frozen<Plain>>) {
    for frozen in frozen {
        let version = check(frozen.view(), frozen.root());
        thread::yield_now();
        assert_eq!(check(frozen.view(), frozen.root()), version);
    }
}

/// One version: all stamps, and some leaves of changing sizes that come and go.
fn write(store: &mut Store<Plain>, numbers: &mut Numbers, version: u64) -> Tree {
    let mut root = store.head();
    for index in 0..STAMPED {
        root = store.put(root, &leaf(&[0, index], &version.to_le_bytes())).expect("room");
    }
    for _ in 0..20 {
        let symbols =
            [1 + numbers.random_below(3) as u8, numbers.random_below(50) as u8, numbers.random_below(4) as u8];
        root = if numbers.random_below(3) == 0 {
            store.remove(root, &key(&symbols)).expect("room")
        } else {
            let limit = if numbers.random_below(8) == 0 { 3000 } else { 60 };
            let len = 1 + numbers.random_below(limit) as usize;
            store.put(root, &leaf(&symbols, &vec![version as u8; len])).expect("room")
        };
    }
    root
}

#[test]
fn readers_never_see_reused_blocks() {
    let mut store: Store<Plain> =
        Store::new(StoreConfig { reserve_bytes: 256 << 20, huge_pages: false }).expect("address space");
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = [false, true, true]
        .map(|often_offline| {
            let (reader, stop) = (store.reader(), Arc::clone(&stop));
            thread::spawn(move || read_until(reader, &stop, often_offline))
        })
        .into();
    let (to_freezer, frozen) = mpsc::sync_channel(4);
    let freezer = thread::spawn(move || read_frozen(frozen));
    let mut numbers = Numbers(42);
    for version in 1..=VERSIONS {
        let root = write(&mut store, &mut numbers, version);
        let sealed = store.seal(root);
        match numbers.random_below(16) {
            0 => store.rewind(),
            1..4 => {}
            _ => store.publish(sealed),
        }
        if numbers.random_below(50) == 0 {
            to_freezer.send(store.freeze()).expect("the freezer is there");
        }
    }
    drop(to_freezer);
    freezer.join().expect("the freezer found nothing wrong");
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().expect("the reader found nothing wrong");
    }
    let root = store.head();
    store.drop_tree(root, 0);
    let last = store.seal(Tree::EMPTY);
    store.publish(last);
    while store.reclaim() {}
    assert_eq!(store.stats().used_bytes, 0);
}
