//! Measures the store: bytes per name, seconds to build, nanoseconds per lookup, microseconds per update.
//!
//! `cargo run --release -p catamaran-store --example store_figures [names]...`
//!
//! A leaf is a name in wire form (21 bytes) and 23 bytes that stand for an A record ready to be sent; making keys
//! from names is part of every figure. Times are processor time of the one thread, so other load on the machine shows
//! only through the caches; figures are comparable within one run only.

use std::hint::black_box;
use std::process::ExitCode;

use catamaran_store::{Key, LeafKey, Store, StoreConfig, Tree};

const BATCH: usize = 32;
const LOOKUPS: usize = 2_000_000;
const UPDATES: usize = 200_000;
const NAME_LEN: usize = 21;
const LEAF_LEN: usize = 44;
/// Limit of the processor time of one update, with up to a million names.
const UPDATE_US_MAX: f64 = 2.0;
const JUDGED_NAMES_MAX: usize = 1_000_000;

/// Keys of names: labels from the right, each followed by the least symbol; bytes outside of host names take two.
struct Names;

/// Symbols of each byte: the first, and the second plus one if there is one.
const SYMBOLS: [(u8, u8); 256] = symbols();

const fn symbols() -> [(u8, u8); 256] {
    let mut table = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            letter @ (b'a'..=b'z') => (20 + letter - b'a', 0),
            letter @ (b'A'..=b'Z') => (20 + letter - b'A', 0),
            digit @ (b'0'..=b'9') => (5 + digit - b'0', 0),
            b'-' => (3, 0),
            b'_' => (17, 0),
            other => (if other < b'-' { 1 } else { 18 }, 1 + (other % 45)),
        };
        byte += 1;
    }
    table
}

fn name_key(name: &[u8], key: &mut Key) {
    let mut starts = [0_u8; 128];
    let mut count = 0;
    let mut at = 0;
    while name[at] != 0 {
        starts[count] = at as u8;
        count += 1;
        at += 1 + usize::from(name[at]);
    }
    for start in starts[..count].iter().rev() {
        let start = usize::from(*start);
        for byte in &name[start + 1..=start + usize::from(name[start])] {
            let (first, second) = SYMBOLS[usize::from(*byte)];
            key.push(first);
            if second != 0 {
                key.push(second - 1);
            }
        }
        key.push(0);
    }
}

impl LeafKey for Names {
    fn write_key(leaf: &[u8], key: &mut Key) {
        name_key(leaf, key);
    }
}

fn name(number: usize) -> [u8; NAME_LEN] {
    let mut name = *b"\x08n0000000\x07example\x02nl\0";
    let mut rest = number;
    for digit in name[2..9].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn leaf(number: usize, fill: u8) -> [u8; LEAF_LEN] {
    let mut leaf = [fill; LEAF_LEN];
    leaf[..NAME_LEN].copy_from_slice(&name(number));
    leaf
}

/// Processor time that this thread has used.
struct Stopwatch(f64);

impl Stopwatch {
    fn start() -> Self {
        Self(Self::now())
    }

    fn now() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to the variable just made, nothing else.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }

    fn seconds(&self) -> f64 {
        Self::now() - self.0
    }

    fn nanoseconds_each(&self, count: usize) -> f64 {
        self.seconds() * 1e9 / count as f64
    }
}

/// Numbers that look random (xorshift).
struct Numbers(u64);

impl Numbers {
    fn random_below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

fn new_store() -> Store<Names> {
    Store::new(StoreConfig::default()).expect("address space")
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
}

fn build(order: &[u32]) -> (Store<Names>, f64) {
    let started = Stopwatch::start();
    let mut store = new_store();
    let tree = order
        .iter()
        .fold(Tree::EMPTY, |tree, number| store.put(tree, &leaf(*number as usize * 2, 1)).expect("the arena is big"));
    let version = store.seal(tree);
    store.publish(version);
    (store, started.seconds())
}

/// Nanoseconds per lookup of stored names (`missing` = 0) or of missing ones (1). Names with odd numbers are missing.
fn single(store: &Store<Names>, names: usize, missing: usize, numbers: &mut Numbers) -> f64 {
    let mut reader = store.reader();
    let mut key = Key::new();
    let mut hits = 0;
    let started = Stopwatch::start();
    for _ in 0..LOOKUPS {
        let name = name(numbers.random_below(names) * 2 + missing);
        key.clear();
        name_key(&name, &mut key);
        let pinned = reader.pin();
        let candidate = pinned.view().candidate(pinned.root(), &key);
        hits += usize::from(candidate.is_some_and(|leaf| leaf[..NAME_LEN] == name));
    }
    assert_eq!(hits, LOOKUPS * (1 - missing));
    started.nanoseconds_each(LOOKUPS)
}

fn batched(store: &Store<Names>, names: usize, missing: usize, numbers: &mut Numbers) -> f64 {
    let mut reader = store.reader();
    let mut queries = vec![(Tree::EMPTY, Key::new()); BATCH];
    let mut looked_for = [[0; NAME_LEN]; BATCH];
    let mut hits = 0;
    let started = Stopwatch::start();
    for _ in 0..LOOKUPS / BATCH {
        let pinned = reader.pin();
        for ((tree, key), wanted) in queries.iter_mut().zip(&mut looked_for) {
            *wanted = name(numbers.random_below(names) * 2 + missing);
            *tree = pinned.root();
            key.clear();
            name_key(&wanted[..], key);
        }
        let mut out = [None; BATCH];
        pinned.view().candidate_batch(&queries, &mut out);
        hits += out
            .iter()
            .zip(&looked_for)
            .filter(|(out, name)| out.is_some_and(|leaf| leaf[..NAME_LEN] == **name))
            .count();
    }
    assert_eq!(hits, LOOKUPS / BATCH * BATCH * (1 - missing));
    started.nanoseconds_each(LOOKUPS / BATCH * BATCH)
}

fn predecessor(store: &Store<Names>, names: usize, numbers: &mut Numbers) -> f64 {
    let mut reader = store.reader();
    let mut key = Key::new();
    let started = Stopwatch::start();
    for _ in 0..LOOKUPS / 4 {
        key.clear();
        name_key(&name(numbers.random_below(names) * 2 + 1), &mut key);
        let pinned = reader.pin();
        black_box(pinned.view().pred(pinned.root(), &key));
    }
    started.nanoseconds_each(LOOKUPS / 4)
}

/// Microseconds an update, `a_version` of them at once: four of five replace a leaf, one adds one.
fn update(store: &mut Store<Names>, names: usize, a_version: usize, numbers: &mut Numbers) -> f64 {
    let mut key = Key::new();
    let started = Stopwatch::start();
    for _ in 0..UPDATES / a_version {
        let mut tree = store.head();
        for index in 0..a_version {
            let number = numbers.random_below(names) * 2
                + usize::from(index % 5 == 4 || a_version == 1 && numbers.random_below(5) == 0);
            key.clear();
            tree = store.put(tree, &leaf(number, 2)).expect("the arena is big");
        }
        let version = store.seal(tree);
        store.publish(version);
    }
    started.nanoseconds_each(UPDATES) / 1000.0
}

/// Nanoseconds of one random memory access that depends on the one before, in as much memory as the names use. It shows
/// the speed of the machine for comparison.
fn dependent_load(names: usize, numbers: &mut Numbers) -> f64 {
    let mut next: Vec<u32> = (0..(names * 14) as u32).collect();
    for index in (1..next.len()).rev() {
        // One cycle through all places (Sattolo).
        next.swap(index, numbers.random_below(index));
    }
    let mut at = 0;
    let started = Stopwatch::start();
    for _ in 0..LOOKUPS {
        at = next[at as usize];
    }
    black_box(at);
    started.nanoseconds_each(LOOKUPS)
}

fn main() -> ExitCode {
    let mut is_met = true;
    let mut sizes: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![100_000, 1_000_000];
    }
    for names in sizes {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut order: Vec<u32> = (0..names as u32).collect();
        let (sorted, in_order) = build(&order);
        drop(sorted);
        for index in (1..order.len()).rev() {
            order.swap(index, numbers.random_below(index + 1));
        }
        let load = dependent_load(names, &mut numbers);
        let resident = resident_bytes();
        let (mut store, shuffled) = build(&order);
        let resident = resident_bytes().saturating_sub(resident);
        let used = store.stats().used_bytes;
        println!("{names} names");
        println!("  one dependent load    {load:8.1} ns");
        println!(
            "  bytes a name         {:8.1} used, {:.1} resident",
            used as f64 / names as f64,
            resident as f64 / names as f64
        );
        println!("  build                 {in_order:8.3} s in order, {shuffled:.3} s shuffled");
        for (what, missing) in [("there", 0), ("absent", 1)] {
            let single = single(&store, names, missing, &mut numbers);
            let batched = batched(&store, names, missing, &mut numbers);
            println!("  lookup, {what:<6}        {single:8.1} ns, {batched:.1} ns in batches of {BATCH}");
        }
        println!("  predecessor           {:8.1} ns", predecessor(&store, names, &mut numbers));
        for (what, a_version) in [("one a version", 1), ("by 100", 100)] {
            let each = update(&mut store, names, a_version, &mut numbers);
            println!("  update, {what:<13} {each:8.3} us");
            is_met &= names > JUDGED_NAMES_MAX || each <= UPDATE_US_MAX;
        }
        let stats = store.stats();
        println!(
            "  afterwards            {:8.1} bytes a name used, {:.1} free",
            stats.used_bytes as f64 / names as f64,
            stats.free_bytes as f64 / names as f64
        );
    }
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
