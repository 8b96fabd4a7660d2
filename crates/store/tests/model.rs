//! Random programs on a store and on plain maps: both always hold the same, and in the end nothing is left.
#![cfg(not(loom))]

mod common;

use std::collections::{BTreeMap, VecDeque};

use catamaran_store::limits::{PREFIXES_MAX, SYMBOL_MAX, TRAIL_ENDS_MAX};
use catamaran_store::{Frozen, Full, Key, Path, Reader, Store, StoreConfig, Trail, Tree, Version, View};
use common::{Plain, key, leaf, symbols, value};
use proptest::prelude::*;

const TREES: usize = 3;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;
type Maps = [Map; TREES];

#[derive(Clone, Debug)]
enum Op {
    Put { tree: usize, key: Vec<u8>, len: usize },
    Amend { tree: usize, key: Vec<u8>, len: Option<usize> },
    Fill { tree: usize, prefix: Vec<u8> },
    Remove { tree: usize, key: Vec<u8> },
    RemoveNth { tree: usize, nth: usize },
    DropTree { tree: usize },
    Seal,
    Publish { leave: usize },
    Abandon,
    Rewind,
    Freeze,
    Thaw { nth: usize },
    Pin,
    Offline,
    Reclaim,
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let symbol = || prop_oneof![0..3_u8, Just(SYMBOL_MAX)];
    let short = proptest::collection::vec(symbol(), 0..6);
    let odd = proptest::collection::vec(0..=SYMBOL_MAX, 0..4);
    let long = (0..40_usize, 0..=SYMBOL_MAX).prop_map(|(len, last)| {
        let mut key = vec![1; len * 14];
        key.push(last);
        key
    });
    prop_oneof![8 => short, 3 => odd, 1 => long]
}

fn any_op() -> impl Strategy<Value = Op> {
    let tree = 0..TREES;
    prop_oneof![
        20 => (tree.clone(), any_key(), prop_oneof![8 => 0..40_usize, 1 => 0..4000_usize])
            .prop_map(|(tree, key, len)| Op::Put { tree, key, len }),
        20 => (tree.clone(), any_key(), proptest::option::weighted(0.9, 0..40_usize))
            .prop_map(|(tree, key, len)| Op::Amend { tree, key, len }),
        1 => (tree.clone(), any_key()).prop_map(|(tree, prefix)| Op::Fill { tree, prefix }),
        4 => (tree.clone(), any_key()).prop_map(|(tree, key)| Op::Remove { tree, key }),
        8 => (tree.clone(), any::<usize>()).prop_map(|(tree, nth)| Op::RemoveNth { tree, nth }),
        1 => tree.prop_map(|tree| Op::DropTree { tree }),
        4 => Just(Op::Seal),
        3 => (0..3_usize).prop_map(|leave| Op::Publish { leave }),
        1 => Just(Op::Abandon),
        1 => Just(Op::Rewind),
        1 => Just(Op::Freeze),
        1 => any::<usize>().prop_map(|nth| Op::Thaw { nth }),
        2 => Just(Op::Pin),
        1 => Just(Op::Offline),
        1 => Just(Op::Reclaim),
    ]
}

/// The store and what it should hold.
struct Run {
    store: Store<Plain>,
    reader: Reader<Plain>,
    /// The trees of the open version, whose bits go into the root tree when it is sealed.
    trees: [Tree; TREES],
    maps: Maps,
    sealed: VecDeque<(Version, [Tree; TREES], Maps)>,
    published: ([Tree; TREES], Maps),
    frozen: Vec<(Frozen<Plain>, Maps)>,
    full_count: usize,
}

impl Run {
    fn new(reserve_bytes: usize) -> Self {
        let store = Store::new(StoreConfig { reserve_bytes, huge_pages: false }).expect("address space");
        Self {
            reader: store.reader(),
            store,
            trees: [Tree::EMPTY; TREES],
            maps: Maps::default(),
            sealed: VecDeque::new(),
            published: ([Tree::EMPTY; TREES], Maps::default()),
            frozen: Vec::new(),
            full_count: 0,
        }
    }

    fn head(&self) -> ([Tree; TREES], Maps) {
        match self.sealed.back() {
            Some((_, trees, maps)) => (*trees, maps.clone()),
            None => self.published.clone(),
        }
    }

    fn put(&mut self, tree: usize, key: &[u8], value: &[u8]) {
        let used = self.store.stats().used_bytes;
        match self.store.put(self.trees[tree], &leaf(key, value)) {
            Ok(changed) => {
                self.trees[tree] = changed;
                self.maps[tree].insert(key.to_vec(), value.to_vec());
            }
            Err(full) => {
                self.refused(full, used);
            }
        }
    }

    /// Puts `value` in place of what is there, which `write` has to be shown; without one, changes its mind.
    fn amend(&mut self, tree: usize, key_symbols: &[u8], value: Option<&[u8]>) {
        let used = self.store.stats().used_bytes;
        let known = self.maps[tree].get(key_symbols).map(|value| leaf(key_symbols, value));
        let mut buffer = b"left over".to_vec();
        let amended = self.store.amend(self.trees[tree], &key(key_symbols), &mut buffer, |existing, new| {
            assert_eq!((existing, new.len()), (known.as_deref(), 0));
            new.extend_from_slice(&leaf(key_symbols, value.ok_or(None)?));
            Ok::<_, Option<Full>>(())
        });
        match (amended, value) {
            (Ok(changed), Some(value)) => {
                self.trees[tree] = changed;
                self.maps[tree].insert(key_symbols.to_vec(), value.to_vec());
            }
            (Err(Some(full)), Some(_)) => self.refused(full, used),
            (outcome, _) => assert_eq!((outcome, value), (Err(None), None)),
        }
    }

    /// A refusal takes nothing. It may have freed retired blocks to find room.
    fn refused(&mut self, full: Full, used: usize) {
        assert_eq!(full, Full::Arena);
        assert!(self.store.stats().used_bytes <= used, "a refusal has leaked");
        self.full_count += 1;
    }

    fn remove(&mut self, tree: usize, symbols: &[u8]) {
        let used = self.store.stats().used_bytes;
        match self.store.remove(self.trees[tree], &key(symbols)) {
            Ok(changed) => {
                assert!(self.maps[tree].remove(symbols).is_some() || changed == self.trees[tree]);
                self.trees[tree] = changed;
            }
            Err(full) => {
                self.refused(full, used);
            }
        }
    }

    fn seal(&mut self) {
        // The root tree is made anew for each version, so that readers find the trees of theirs.
        let old = self.store.head();
        let mut root = Tree::EMPTY;
        for (index, tree) in self.trees.iter().enumerate() {
            match self.store.put(root, &leaf(&[index as u8], &tree.to_bits().to_le_bytes())) {
                Ok(changed) => root = changed,
                Err(_) => {
                    self.abandon();
                    return;
                }
            }
        }
        self.store.drop_tree(old, 0);
        let version = self.store.seal(root);
        assert_eq!(self.store.head(), root);
        self.sealed.push_back((version, self.trees, self.maps.clone()));
    }

    fn publish(&mut self, leave: usize) {
        let Some((version, ..)) = self.sealed.iter().rev().nth(leave) else { return };
        let version = *version;
        self.store.publish(version);
        assert_eq!(self.store.published_version(), version);
        while let Some((_, trees, maps)) = self.sealed.pop_front_if(|sealed| sealed.0 <= version) {
            self.published = (trees, maps);
        }
        assert_eq!(self.store.stats().versions, self.sealed.len());
    }

    fn abandon(&mut self) {
        self.store.abandon();
        (self.trees, self.maps) = self.head();
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Put { tree, key, len } => {
                let value: Vec<u8> = (0..len).map(|index| (index ^ len) as u8).collect();
                self.put(tree, &key, &value);
            }
            Op::Amend { tree, key, len } => {
                let value = len.map(|len| (0..len).map(|index| (index + len) as u8).collect::<Vec<_>>());
                self.amend(tree, &key, value.as_deref());
            }
            Op::Fill { tree, mut prefix } => {
                for symbol in 0..=SYMBOL_MAX {
                    prefix.push(symbol);
                    self.put(tree, &prefix, b"full branch");
                    prefix.pop();
                }
            }
            Op::Remove { tree, key } => self.remove(tree, &key),
            Op::RemoveNth { tree, nth } => {
                let count = self.maps[tree].len().max(1);
                if let Some(symbols) = self.maps[tree].keys().nth(nth % count).cloned() {
                    self.remove(tree, &symbols);
                }
            }
            Op::DropTree { tree } => {
                self.store.drop_tree(self.trees[tree], 0);
                self.trees[tree] = Tree::EMPTY;
                self.maps[tree].clear();
            }
            Op::Seal => self.seal(),
            Op::Publish { leave } => self.publish(leave),
            Op::Abandon => self.abandon(),
            Op::Rewind => {
                self.store.rewind();
                self.sealed.clear();
                (self.trees, self.maps) = self.published.clone();
                assert_eq!(self.store.head(), self.store.published());
            }
            Op::Freeze => {
                let frozen = self.store.freeze();
                assert_eq!(frozen.version(), self.store.published_version());
                self.frozen.push((frozen, self.published.1.clone()));
            }
            Op::Thaw { nth } if !self.frozen.is_empty() => {
                self.frozen.swap_remove(nth % self.frozen.len());
            }
            Op::Thaw { .. } => {}
            Op::Pin => {
                let pinned = self.reader.pin();
                check_version(pinned.view(), pinned.root(), &self.published.1);
            }
            Op::Offline => self.reader.offline(),
            Op::Reclaim => {
                self.store.reclaim();
            }
        }
    }

    fn check(&mut self, probes: &[Vec<u8>]) {
        let view = self.store.view();
        for (tree, map) in self.trees.iter().zip(&self.maps) {
            check_tree(view, *tree, map, probes);
        }
        for (_, trees, maps) in &self.sealed {
            trees.iter().zip(maps).for_each(|(tree, map)| check_contents(view, *tree, map));
        }
        check_version(view, self.store.published(), &self.published.1);
        for (frozen, maps) in &self.frozen {
            check_version(frozen.view(), frozen.root(), maps);
        }
        let stats = self.store.stats();
        assert!(stats.used_bytes + stats.free_bytes < stats.committed_bytes.max(1));
        assert!(stats.retired_bytes <= stats.used_bytes && stats.readers == 1 + self.frozen.len());
    }

    /// Lets everything go: then nothing may be in use.
    fn finish(mut self) {
        drop(self.reader);
        self.frozen.clear();
        self.store.rewind();
        let (trees, _) = self.published;
        trees.iter().for_each(|tree| self.store.drop_tree(*tree, 0));
        self.store.drop_tree(self.store.published(), 0);
        let version = self.store.seal(Tree::EMPTY);
        self.store.publish(version);
        while self.store.reclaim() {}
        let stats = self.store.stats();
        assert_eq!((stats.used_bytes, stats.retired_bytes, stats.retired_trees), (0, 0, 0), "something has leaked");
    }
}

fn check_contents(view: View<'_, Plain>, tree: Tree, map: &Map) {
    let found = view.iter(tree).map(|leaf| (symbols(leaf), value(leaf)));
    assert!(found.eq(map.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))));
}

fn check_version(view: View<'_, Plain>, root: Tree, maps: &Maps) {
    for (index, map) in maps.iter().enumerate() {
        let tree = view.get(root, &key(&[index as u8])).map_or(Tree::EMPTY, |leaf| {
            Tree::from_bits(u32::from_le_bytes(value(leaf).try_into().expect("four bytes")))
        });
        check_contents(view, tree, map);
    }
}

fn check_tree(view: View<'_, Plain>, tree: Tree, map: &Map, probes: &[Vec<u8>]) {
    check_contents(view, tree, map);
    assert_eq!(view.first(tree).map(symbols), map.keys().next().map(Vec::as_slice));
    assert_eq!(view.last(tree).map(symbols), map.keys().next_back().map(Vec::as_slice));
    let queries: Vec<(Tree, Key)> = probes.iter().map(|probe| (tree, key(probe))).collect();
    let mut batch = vec![None; queries.len()];
    view.get_batch(&queries, &mut batch);
    let mut path = Path::new();
    for (probe, ((_, key), found)) in probes.iter().zip(queries.iter().zip(batch)) {
        let exact = map.get(probe).map(Vec::as_slice);
        assert_eq!(found.map(value), exact);
        assert_eq!(view.get(tree, key).map(value), exact);
        let pred = map.range(..probe.clone()).next_back().map(|(key, _)| key.as_slice());
        assert_eq!(view.pred(tree, key).map(symbols), pred);
        let mut from = map.range(probe.clone()..);
        assert!(view.iter_from(tree, key).map(symbols).eq(from.clone().map(|(key, _)| key.as_slice())));
        let succ = from.find(|(key, _)| *key != probe).map(|(key, _)| key.as_slice());
        assert_eq!(view.succ(tree, key).map(symbols), succ);
        view.locate(tree, key, &mut path);
        assert_eq!(path.exact().map(value), exact);
        assert_eq!(path.pred().map(symbols), pred);
        assert_eq!(path.succ().map(symbols), succ);
        let prefixes = || (0..probe.len()).map(|len| &probe[..len]).filter(|prefix| map.contains_key(*prefix));
        assert!(path.prefixes().iter().map(|leaf| symbols(leaf)).eq(prefixes()));
        // Its trail alone and in a batch: the same leaf, and the prefixes of a key that is there.
        let (one_by_one, mut together) = (view.trail(tree, key), [Trail::default(); 2]);
        view.trails([(Tree::EMPTY, key), (tree, key)].into_iter(), &mut together);
        let bytes = |trail: &Trail| view.trail_leaf(trail).map(<[u8]>::as_ptr);
        assert_eq!(bytes(&one_by_one), view.candidate(tree, key).map(<[u8]>::as_ptr));
        assert_eq!((bytes(&together[0]), bytes(&together[1])), (None, bytes(&one_by_one)));
        for trail in [&one_by_one, &together[1]] {
            view.locate_along(tree, key, trail, &mut path);
            assert_eq!((path.pred().map(symbols), path.succ().map(symbols)), (pred, succ));
            assert!(path.prefixes().iter().map(|leaf| symbols(leaf)).eq(prefixes()));
            if exact.is_some() {
                assert_eq!(view.path_of_trail(trail, &mut path), prefixes().count() <= TRAIL_ENDS_MAX);
                if path.exact().is_some() {
                    assert_eq!(path.exact().map(value), exact);
                    assert!(path.prefixes().iter().map(|leaf| symbols(leaf)).eq(prefixes()));
                }
            }
        }
    }
}

fn run(reserve_bytes: usize, ops: Vec<Op>) -> usize {
    let mut run = Run::new(reserve_bytes);
    let mut probes: Vec<Vec<u8>> = vec![vec![], vec![0], vec![SYMBOL_MAX; 3], vec![1; 200]];
    for op in &ops {
        if let Op::Put { key, .. } | Op::Remove { key, .. } = op {
            probes.push(key.clone());
            probes.push(key.iter().copied().chain([2]).collect());
        }
    }
    probes.truncate(60);
    for (index, op) in ops.into_iter().enumerate() {
        run.step(op);
        if index % 8 == 0 {
            run.check(&probes);
        }
    }
    run.check(&probes);
    let full_count = run.full_count;
    run.finish();
    full_count
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 128 }, ..ProptestConfig::default() })]

    #[test]
    fn the_store_equals_the_maps(ops in proptest::collection::vec(any_op(), 1..200)) {
        run(8 << 20, ops);
    }

    #[test]
    fn a_full_arena_refuses_changes_and_stays_consistent(ops in proptest::collection::vec(any_op(), 100..400)) {
        run(64 << 10, ops);
    }
}

#[test]
fn a_small_arena_becomes_full() {
    let ops = (0..200_u8).map(|index| Op::Put { tree: 0, key: vec![index % 50, index / 50], len: 900 }).collect();
    assert!(run(64 << 10, ops) > 100);
}

#[test]
fn more_prefixes_than_a_path_holds() {
    let mut store: Store<Plain> = Store::new(StoreConfig::default()).expect("address space");
    let long = vec![3; PREFIXES_MAX + 20];
    let mut tree = Tree::EMPTY;
    for len in 0..long.len() {
        tree = store.put(tree, &leaf(&long[..len], &[])).expect("room");
    }
    let mut path = Path::new();
    store.view().locate(tree, &key(&long), &mut path);
    assert_eq!(path.prefixes().len(), PREFIXES_MAX);
    assert_eq!(path.prefixes().last().map(|leaf| symbols(leaf).len()), Some(long.len() - 1));
    assert!(path.exact().is_none());
}
