//! Memory: what is refused, what is used again, what is freed in steps.
#![cfg(all(not(loom), not(miri)))]

mod common;

use catamaran_store::limits::{KEY_SYMBOLS_MAX, LEAF_BYTES_MAX, RECLAIM_STEP_MAX};
use catamaran_store::{Full, Key, Store, StoreConfig, Tree};
use common::{Plain, key, leaf, symbols, value};

fn store(reserve_bytes: usize) -> Store<Plain> {
    Store::new(StoreConfig { reserve_bytes, huge_pages: false }).expect("address space")
}

/// A leaf of exactly `len` bytes.
fn leaf_of(symbols: &[u8], len: usize) -> Vec<u8> {
    leaf(symbols, &vec![7; len - 2 - symbols.len()])
}

fn numbered(number: u32, len: usize) -> Vec<u8> {
    let symbols: Vec<u8> = (0..5).map(|digit| (number / 50_u32.pow(4 - digit) % 50) as u8).collect();
    leaf_of(&symbols, len)
}

/// The key of such a leaf.
fn key_of(number: u32) -> Key {
    key(symbols(&numbered(number, 7)))
}

fn publish(store: &mut Store<Plain>, root: Tree) {
    let version = store.seal(root);
    store.publish(version);
}

#[test]
fn the_longest_leaf_fits_and_a_longer_one_is_refused() {
    let mut store = store(64 << 20);
    let longest = leaf_of(&[1], LEAF_BYTES_MAX);
    let tree = store.put(Tree::EMPTY, &longest).expect("room");
    assert_eq!(store.put(tree, &leaf_of(&[1], LEAF_BYTES_MAX + 1)), Err(Full::Leaf));
    assert_eq!(store.view().get(tree, &key(&[1])), Some(longest.as_slice()));
}

#[test]
fn the_longest_keys_make_the_deepest_tree() {
    let mut store = store(64 << 20);
    let mut tree = Tree::EMPTY;
    for len in (0..=KEY_SYMBOLS_MAX).rev() {
        tree = store.put(tree, &leaf(&vec![5; len], &[])).expect("room");
        publish(&mut store, tree);
    }
    assert!(store.view().iter(tree).map(|leaf| symbols(leaf).len()).eq(0..=KEY_SYMBOLS_MAX));
    for len in 0..=KEY_SYMBOLS_MAX {
        tree = store.remove(tree, &key(&vec![5; len])).expect("room");
        publish(&mut store, tree);
    }
    assert!(tree.is_empty());
    while store.reclaim() {}
    assert_eq!(store.stats().used_bytes, 0);
}

#[test]
fn a_full_arena_works_again_after_a_removal() {
    let mut store = store(1 << 20);
    let mut tree = Tree::EMPTY;
    let mut count = 0;
    while let Ok(changed) = store.put(tree, &numbered(count, 200)) {
        tree = changed;
        count += 1;
    }
    assert!(count > 4000, "only {count} leaves of 200 bytes in a megabyte");
    publish(&mut store, tree);
    let mut reader = store.reader();
    assert_eq!(reader.pin().view().iter(tree).count(), count as usize);
    // Even a removal has to copy: it is refused, and the published tree is whole.
    let refused = (0..count).find(|number| store.remove(tree, &key(symbols(&numbered(*number, 200)))).is_err());
    assert!(refused.is_some());
    store.rewind();
    assert_eq!(store.view().iter(store.head()).count(), count as usize);
    reader.offline();
    publish(&mut store, Tree::EMPTY);
    let tree = store.published();
    assert!(tree.is_empty());
}

#[test]
fn a_growing_rrset_does_not_exhaust_the_arena() {
    let mut store = store(4 << 20);
    let mut tree = Tree::EMPTY;
    for len in (10..=60_000).step_by(7) {
        tree = store.put(tree, &leaf_of(&[3], len)).expect("old sizes are used again");
        publish(&mut store, tree);
    }
    assert_eq!(store.view().get(tree, &key(&[3])).map(<[u8]>::len), Some(60_000));
}

#[test]
fn free_blocks_are_merged() {
    let mut store = store(24 << 20);
    let mut tree = Tree::EMPTY;
    for round in 0..6 {
        // Each round fills most of the arena with leaves of another size, so the holes of the last one do not fit.
        let len = 40 + round * 24;
        for number in 0..(14 << 20) / (len as u32 + 20) {
            tree = store.put(tree, &numbered(number, len)).expect("holes are merged");
        }
        publish(&mut store, tree);
        store.drop_tree(tree, 0);
        tree = Tree::EMPTY;
        publish(&mut store, tree);
        while store.reclaim() {}
        assert_eq!(store.stats().used_bytes, 0);
    }
}

#[test]
fn merging_keeps_blocks_of_unpublished_versions() {
    let mut store = store(8 << 20);
    let fill = |store: &mut Store<Plain>, from: u32, len: usize| {
        (from..from + 2000).fold(Tree::EMPTY, |tree, number| store.put(tree, &numbered(number, len)).expect("room"))
    };
    // A hole in front, then one sealed version, then an open one, both with holes of their own.
    let first = fill(&mut store, 0, 100);
    publish(&mut store, first);
    publish(&mut store, Tree::EMPTY);
    store.drop_tree(first, 0);
    publish(&mut store, Tree::EMPTY);
    while store.reclaim() {}
    let second = fill(&mut store, 0, 60);
    store.seal(second);
    let mut third = fill(&mut store, 50_000, 300);
    for number in 50_000..51_990 {
        third = store.remove(third, &key(symbols(&numbered(number, 300)))).expect("room");
    }
    // Nothing but merged holes can serve these.
    let mut big = Tree::EMPTY;
    while let Ok(changed) = store.put(big, &numbered(100_000 + store.stats().used_bytes as u32, 100_000)) {
        big = changed;
    }
    assert!(store.stats().used_bytes > 7 << 20);
    assert_eq!(store.view().iter(third).count(), 10);
    assert_eq!(store.view().iter(second).count(), 2000);
    store.abandon();
    assert_eq!(store.view().iter(store.head()).count(), 2000);
    store.rewind();
    assert_eq!(store.stats().used_bytes, 0);
    // All of the arena is of use again.
    let tree = store.put(Tree::EMPTY, &leaf_of(&[1], 2 << 20)).expect("room");
    assert_eq!(store.view().iter(tree).count(), 1);
}

/// Two holes side by side, one older than the beginning of an unpublished version and one made by it: if they were
/// merged and used, dropping that version would begin to walk in the middle of a block.
fn holes_on_both_sides(is_sealed: bool) {
    let mut store = store(64 << 10);
    let full = store.put(Tree::EMPTY, &leaf_of(&[1], 48 << 10)).expect("room");
    publish(&mut store, full);
    let with_hole = store.put(full, &leaf_of(&[2], 4 << 10)).expect("room");
    publish(&mut store, with_hole);
    let mut tree = store.remove(with_hole, &key(&[2])).expect("room");
    publish(&mut store, tree);
    let used = store.stats().used_bytes;
    tree = store.put(tree, &leaf_of(&[3], 5 << 10)).expect("room");
    tree = store.remove(tree, &key(&[3])).expect("room");
    if is_sealed {
        store.seal(tree);
    }
    let spanning = store.put(tree, &leaf_of(&[4], 8 << 10));
    assert_eq!(spanning, Err(Full::Arena), "the holes are enough only together");
    store.rewind();
    assert_eq!(store.stats().used_bytes, used);
    assert_eq!(store.view().iter(store.head()).count(), 1);
    store.drop_tree(store.head(), 0);
    publish(&mut store, Tree::EMPTY);
    assert_eq!(store.stats().used_bytes, 0);
    let tree = store.put(Tree::EMPTY, &leaf_of(&[4], 56 << 10)).expect("all holes are one");
    assert_eq!(store.view().iter(tree).count(), 1);
}

#[test]
fn merging_stops_where_the_open_version_begins() {
    holes_on_both_sides(false);
}

#[test]
fn merging_stops_where_a_sealed_version_begins() {
    holes_on_both_sides(true);
}

#[test]
fn a_big_tree_is_freed_in_steps() {
    let mut store = store(64 << 20);
    let count = 5 * RECLAIM_STEP_MAX as u32;
    let tree = (0..count).fold(Tree::EMPTY, |tree, number| store.put(tree, &numbered(number, 30)).expect("room"));
    publish(&mut store, tree);
    let used = store.stats().used_bytes;
    store.drop_tree(tree, used as u64);
    publish(&mut store, Tree::EMPTY);
    let left = store.stats().used_bytes;
    assert!(left > 0 && left < used && store.stats().retired_trees == 1);
    let mut steps = 0;
    while store.reclaim() {
        steps += 1;
    }
    assert!(steps >= 4, "{steps} steps for {count} leaves");
    assert_eq!((store.stats().used_bytes, store.stats().retired_trees), (0, 0));
}

#[test]
fn a_frozen_version_keeps_only_what_is_retired_meanwhile() {
    const CHANGES: usize = 5_000;
    /// Bytes that one change of one leaf may let go: the way from the root, and the leaf.
    const CHANGE_BYTES_MAX: usize = 1_024;
    let mut store = store(64 << 20);
    let mut tree = (0..1000).fold(Tree::EMPTY, |tree, number| store.put(tree, &numbered(number, 30)).expect("room"));
    publish(&mut store, tree);
    let change = |store: &mut Store<Plain>, tree: Tree, count: usize| {
        (0..count).fold(tree, |tree, step| {
            let tree = store.put(tree, &numbered(step as u32 % 1000, 31 + step % 7)).expect("room");
            publish(store, tree);
            tree
        })
    };
    // Whatever was let go before is none of its business.
    tree = change(&mut store, tree, CHANGES);
    let before = store.stats();
    assert_eq!(before.retired_bytes, 0, "nobody held anything");
    assert!(before.retired_bytes_total > 0);
    let first = store.freeze();
    let lengths: Vec<usize> = first.view().iter(first.root()).map(<[u8]>::len).collect();
    tree = change(&mut store, tree, CHANGES);
    let since = store.stats();
    let kept = (since.retired_bytes_total - before.retired_bytes_total) as usize;
    assert_eq!(since.retired_bytes, kept, "all that was let go since");
    assert!((CHANGES * 30..=CHANGES * CHANGE_BYTES_MAX).contains(&kept), "{kept} bytes for {CHANGES} changes");
    assert!(since.used_bytes <= before.used_bytes + kept + (64 << 10), "{before:?} {since:?}");
    // A second one keeps what is let go from then on, and only that when the first is gone.
    let second = store.freeze();
    tree = change(&mut store, tree, CHANGES);
    assert!(first.view().iter(first.root()).map(<[u8]>::len).eq(lengths));
    drop(first);
    while store.reclaim() {}
    let last = store.stats();
    assert_eq!(last.retired_bytes as u64, last.retired_bytes_total - since.retired_bytes_total);
    drop(second);
    while store.reclaim() {}
    let end = store.stats();
    assert_eq!((end.retired_bytes, end.retired_bytes_total), (0, last.retired_bytes_total));
    assert!(end.used_bytes <= before.used_bytes + (64 << 10), "{before:?} {end:?}");
    assert_eq!(store.view().iter(tree).count(), 1000);
}

#[test]
fn a_held_version_keeps_trees_that_are_dropped_and_they_are_counted() {
    let mut store = store(64 << 20);
    let grow = |store: &mut Store<Plain>, tree: Tree, len: usize| {
        let before = store.live_bytes();
        let tree = (0..5_000).fold(tree, |tree, number| store.put(tree, &numbered(number, len)).expect("room"));
        let tree = (0..2_000).fold(tree, |tree, number| store.remove(tree, &key_of(number)).expect("room"));
        publish(store, tree);
        (tree, store.live_bytes().wrapping_sub(before))
    };
    let (tree, bytes) = grow(&mut store, Tree::EMPTY, 30);
    assert_eq!(store.stats().used_bytes as u64, bytes, "there is but this tree");
    let (tree, more) = grow(&mut store, tree, 300);
    while store.reclaim() {}
    let bytes = bytes.wrapping_add(more);
    assert_eq!(store.stats().used_bytes as u64, bytes, "however it came about");
    let (before, frozen) = (store.stats(), store.freeze());
    store.drop_tree(tree, bytes);
    publish(&mut store, Tree::EMPTY);
    while store.reclaim() {}
    let held = store.stats();
    assert_eq!((held.retired_bytes as u64, held.retired_bytes_total - before.retired_bytes_total), (bytes, bytes));
    assert_eq!(frozen.view().iter(frozen.root()).count(), 3_000);
    drop(frozen);
    while store.reclaim() {}
    assert_eq!((store.stats().used_bytes, store.stats().retired_bytes, store.stats().retired_trees), (0, 0, 0));
}

#[test]
fn a_million_updates_keep_retired_blocks_until_the_reader_is_gone() {
    const LEAVES: u32 = 100_000;
    const UPDATES: u32 = 1_000_000;
    /// Updates of one version.
    const TOGETHER: u32 = 100;
    let mut store = store(4 << 30);
    let mut tree = (0..LEAVES).fold(Tree::EMPTY, |tree, number| store.put(tree, &numbered(number, 30)).expect("room"));
    publish(&mut store, tree);
    let update = |store: &mut Store<Plain>, tree: Tree, updates: u32| {
        (0..updates / TOGETHER).fold(tree, |tree, version| {
            let number = |step: u32| (version * TOGETHER + step).wrapping_mul(2_654_435_761) % LEAVES;
            let tree =
                (0..TOGETHER).fold(tree, |tree, step| store.put(tree, &numbered(number(step), 30)).expect("room"));
            publish(store, tree);
            tree
        })
    };
    // With nobody to hold anything, what is let go is used again.
    let small = store.stats();
    tree = update(&mut store, tree, UPDATES / 10);
    let before = store.stats();
    assert_eq!(before.retired_bytes, 0);
    assert!(before.committed_bytes <= 2 * small.committed_bytes, "{small:?} {before:?}");
    let reader = store.freeze();
    tree = update(&mut store, tree, UPDATES);
    let held = store.stats();
    // All of it stays, and nothing else does: this is what who holds a version has to bound.
    let retired = (held.retired_bytes_total - before.retired_bytes_total) as usize;
    assert_eq!(held.retired_bytes, retired);
    assert!(held.used_bytes <= before.used_bytes + retired, "{before:?} {held:?}");
    println!("{} bytes an update", retired / UPDATES as usize);
    assert_eq!(reader.view().iter(reader.root()).count(), LEAVES as usize);
    drop(reader);
    let mut steps = 0;
    while store.reclaim() {
        steps += 1;
    }
    assert!(steps >= 100, "{steps} steps: what is freed at once is bounded");
    assert_eq!(store.stats().retired_bytes, 0);
    tree = update(&mut store, tree, UPDATES / 10);
    let after = store.stats();
    assert!(after.committed_bytes <= held.committed_bytes, "what was freed is used: {held:?} {after:?}");
    assert_eq!((store.view().iter(tree).count(), after.retired_bytes), (LEAVES as usize, 0));
}

#[test]
fn a_reader_keeps_what_it_pinned_until_it_pins_again_or_is_offline() {
    let mut store = store(1 << 20);
    let mut tree = store.put(Tree::EMPTY, &leaf(&[1], &[1])).expect("room");
    publish(&mut store, tree);
    let mut reader = store.reader();
    let mut change = |store: &mut Store<Plain>| {
        tree = store.put(tree, &leaf(&[1], &[2])).expect("room");
        publish(store, tree);
        store.reclaim();
        store.stats().retired_bytes
    };
    assert_eq!(change(&mut store), 0, "a reader that never pinned keeps nothing");
    reader.pin();
    assert!(change(&mut store) > 0);
    reader.pin();
    store.reclaim();
    assert_eq!(store.stats().retired_bytes, 0);
    assert!(change(&mut store) > 0);
    reader.offline();
    store.reclaim();
    assert_eq!(store.stats().retired_bytes, 0);
    assert_eq!(change(&mut store), 0);
    reader.pin();
    assert!(change(&mut store) > 0);
    drop(reader);
    store.reclaim();
    assert_eq!((store.stats().retired_bytes, store.stats().readers), (0, 0));
}

#[test]
fn a_reader_outlives_its_store() {
    let mut store = store(1 << 20);
    let tree = store.put(Tree::EMPTY, &leaf(&[1], b"still here")).expect("room");
    publish(&mut store, tree);
    let (mut reader, frozen) = (store.reader(), store.freeze());
    drop(store);
    let pinned = reader.pin();
    assert_eq!(pinned.view().get(pinned.root(), &key(&[1])).map(value), Some(b"still here".as_slice()));
    assert_eq!(frozen.view().first(frozen.root()).map(value), Some(b"still here".as_slice()));
}

#[test]
#[should_panic(expected = "stale")]
fn invalid_handles_are_detected() {
    let mut store = store(1 << 20);
    store.put(Tree::EMPTY, &leaf(&[1], &[])).expect("room");
    store.view().get(Tree::from_bits(u32::MAX), &key(&[1]));
}

#[test]
#[should_panic(expected = "stale")]
fn freed_trees_are_detected() {
    let mut store = store(1 << 20);
    let tree = store.put(Tree::EMPTY, &leaf(&[1], &[])).expect("room");
    store.abandon();
    store.view().get(tree, &key(&[1]));
}

#[test]
#[should_panic(expected = "freed twice")]
fn dropping_a_tree_twice_is_detected() {
    let mut store = store(1 << 20);
    let tree = store.put(Tree::EMPTY, &leaf(&[1], &[])).expect("room");
    publish(&mut store, tree);
    store.remove(tree, &key(&[1])).expect("room");
    store.remove(tree, &key(&[1])).expect("room");
    publish(&mut store, Tree::EMPTY);
}

#[test]
fn free_memory_is_released_and_the_rest_unchanged() {
    const COUNT: u32 = 8_000;
    // One leaf in so many stays, so that what is free is in pieces.
    const KEPT: u32 = 400;
    let mut store = store(256 << 20);
    let mut tree = Tree::EMPTY;
    for number in 0..COUNT {
        tree = store.put(tree, &numbered(number, 8_000)).expect("room");
    }
    publish(&mut store, tree);
    assert!(!store.is_release_due(), "nothing is free");
    for number in (0..COUNT).filter(|number| number % KEPT != 0) {
        tree = store.remove(tree, &key_of(number)).expect("room");
    }
    publish(&mut store, tree);
    while store.reclaim() {}
    let free = store.stats().free_bytes;
    assert!(store.is_release_due() && free > 50 << 20, "{free}");
    store.release_free();
    assert!(!store.is_release_due(), "once is enough");
    // What was given back is used again.
    for number in (0..COUNT).filter(|number| number % 2 == 1) {
        tree = store.put(tree, &numbered(number, 8_000)).expect("room");
    }
    publish(&mut store, tree);
    for number in 0..COUNT {
        let there = store.view().get(tree, &key_of(number)).map(<[u8]>::to_vec);
        let is_kept = number % KEPT == 0 || number % 2 == 1;
        assert_eq!(there, is_kept.then(|| numbered(number, 8_000)), "{number}");
    }
}
