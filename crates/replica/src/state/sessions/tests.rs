//! The table against a simple model.

use super::*;
use crate::limits::SESSION_PAGE_MAX;
use zone::codec::Decoder;

use proptest::prelude::*;
use std::collections::BTreeMap;

fn key() -> Name {
    "key.".parse().unwrap()
}

fn identity(number: u8) -> Identity {
    [number; 16]
}

const HOME: [u8; 16] = [1; 16];
const AWAY: [u8; 16] = [2; 16];

#[test]
fn repeats_get_the_stored_outcome_or_badtime_for_other_sources() {
    let mut sessions = Sessions::new(10);
    assert_eq!(sessions.known(&identity(1), &key(), 100, &HOME), Known::New);
    sessions.insert(identity(1), &key(), 100, HOME, Rcode::NXRRSET, None);
    assert_eq!(sessions.known(&identity(1), &key(), 100, &HOME), Known::Repeat(Rcode::NXRRSET));
    assert_eq!(sessions.known(&identity(1), &key(), 100, &AWAY), Known::BadTime);
}

#[test]
fn update_at_or_below_the_floor_of_its_key_is_refused() {
    let mut sessions = Sessions::new(2);
    for (number, time) in [(1, 100), (2, 300), (3, 200)] {
        sessions.insert(identity(number), &key(), time, HOME, Rcode::NOERROR, None);
    }
    assert_eq!(sessions.len(), 2);
    assert_eq!(sessions.known(&identity(1), &key(), 100, &HOME), Known::BadTime);
    assert_eq!(sessions.known(&identity(9), &key(), 100, &HOME), Known::BadTime);
    assert_eq!(sessions.known(&identity(9), &key(), 101, &HOME), Known::New);
    let other = "other.".parse().unwrap();
    assert_eq!(sessions.known(&identity(9), &other, 100, &HOME), Known::New);
    // The new session itself may be the oldest.
    sessions.insert(identity(4), &key(), 150, HOME, Rcode::NOERROR, None);
    assert_eq!(sessions.known(&identity(4), &key(), 150, &HOME), Known::BadTime);
}

#[test]
fn times_above_48_bits_are_clamped() {
    let mut sessions = Sessions::new(2);
    sessions.insert(identity(1), &key(), u64::MAX, HOME, Rcode::NOERROR, None);
    assert_eq!(sessions.known(&identity(1), &key(), u64::MAX, &HOME), Known::Repeat(Rcode::NOERROR));
    sessions.insert(identity(2), &key(), u64::MAX, HOME, Rcode::NOERROR, None);
    sessions.insert(identity(3), &key(), u64::MAX, HOME, Rcode::NOERROR, None);
    assert_eq!(sessions.known(&identity(1), &key(), u64::MAX, &HOME), Known::BadTime);
    let copy = restored(&mut sessions.freeze(true), 2);
    assert_eq!(copy.hash(), sessions.hash());
}

fn restored(frozen: &mut FrozenSessions, count_max: usize) -> Sessions {
    let mut sessions = Sessions::new(count_max);
    let mut take = |item: zone::codec::Encoder| {
        let bytes = item.finish();
        let mut from = Decoder::new(&bytes);
        sessions.restore(&mut from).unwrap();
        from.finish().unwrap();
    };
    while frozen.encode_step(&mut take) {}
    sessions
}

/// The model: a map in the order of eviction, and floors by name.
#[derive(Clone, Default)]
struct Model {
    sessions: BTreeMap<(u64, Identity), (Name, [u8; 16], Rcode)>,
    floors: BTreeMap<Name, u64>,
}

impl Model {
    fn known(&self, identity: &Identity, key_name: &Name, time_signed: u64, source: &[u8; 16]) -> Known {
        match self.sessions.get(&(time_signed, *identity)) {
            Some((_, first, rcode)) if first == source => Known::Repeat(*rcode),
            Some(_) => Known::BadTime,
            None if self.floors.get(key_name).is_some_and(|&floor| time_signed <= floor) => Known::BadTime,
            None => Known::New,
        }
    }

    fn insert(
        &mut self,
        (time, identity): (u64, Identity),
        name: &Name,
        (source, rcode): ([u8; 16], Rcode),
        at_s: Option<u64>,
        max: usize,
    ) {
        self.sessions.insert((time, identity), (name.clone(), source, rcode));
        while self.sessions.len() > max {
            let (oldest, newest) = (self.sessions.first_key_value().unwrap(), self.sessions.last_key_value().unwrap());
            let is_ahead =
                at_s.is_some_and(|at_s| oldest.0.0 + SESSION_NEAR_S >= at_s && newest.0.0 > at_s + SESSION_NEAR_S);
            let gone = if is_ahead { self.sessions.pop_last() } else { self.sessions.pop_first() };
            let ((time, _), (name, ..)) = gone.unwrap();
            let floor = self.floors.entry(name).or_default();
            *floor = time.max(*floor);
        }
    }

    fn hash(&self) -> u128 {
        let sessions = self
            .sessions
            .iter()
            .map(|((time, identity), (name, source, rcode))| session_hash(identity, name, *time, source, rcode.0));
        let floors = self.floors.iter().filter(|&(_, &floor)| floor != 0).map(|(name, &floor)| floor_hash(name, floor));
        sessions.chain(floors).fold(floor_of_all_hash(0), u128::wrapping_add)
    }

    /// Checks that a table gives the model's answer for all sessions ever inserted, and for a new one.
    fn assert_same(&self, table: &Sessions, all: &[(u64, Identity, Name)]) {
        assert_eq!(table.len(), self.sessions.len());
        assert_eq!(table.hash(), self.hash());
        for (time, identity, name) in all {
            for (identity, source) in [(*identity, HOME), (*identity, AWAY), ([0xEE; 16], HOME)] {
                let want = self.known(&identity, name, *time, &source);
                assert_eq!(table.known(&identity, name, *time, &source), want, "{time} {identity:?} {name}");
            }
        }
    }
}

/// Number of names with sessions or floors in the table.
fn names_of(table: &Sessions) -> usize {
    table.keys.pages().iter().flat_map(|page| page.iter()).flatten().count()
}

/// Enough steps to split and empty pages; few different times and leading bytes, so that many sessions are neighbors.
fn steps() -> impl Strategy<Value = Vec<(u64, u8, u16, u8, u8)>> {
    proptest::collection::vec((0u64..40, 0u8..4, any::<u16>(), 0u8..5, 0u8..30), 0..3 * SESSION_PAGE_MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After any insertions in any order, the table equals the model. So do its frozen copies in both encodings, and
    /// tables restored from them continue alike.
    #[test]
    fn the_table_equals_the_model(
        steps in steps(),
        count_max in prop_oneof![Just(0usize), 1usize..20, Just(2 * SESSION_PAGE_MAX), Just(100_000)],
        drift in 0u64..3,
        // The distance of the signed times from each other and from the entry times.
        apart in 1u64..8,
        clock in proptest::option::of(0u64..300),
    ) {
        let (mut table, mut model) = (Sessions::new(count_max), Model::default());
        let (mut all, mut copies) = (Vec::new(), Vec::new());
        for (number, (time, first, rest, owner, rcode)) in steps.into_iter().enumerate() {
            // Some histories advance in time, some do not.
            let time = time * apart + 1 + drift * number as u64 / 8;
            let at_s = clock.map(|clock| clock + drift * number as u64 / 8);
            let mut identity = [first; 16];
            identity[14..].copy_from_slice(&rest.to_be_bytes());
            let name: Name = format!("key{owner}.").parse().unwrap();
            let rcode = Rcode(u16::from(rcode % 11));
            table.insert(identity, &name, time, HOME, rcode, at_s);
            model.insert((time, identity), &name, (HOME, rcode), at_s, count_max);
            all.push((time, identity, name));
            if number % 97 == 0 {
                copies.push((table.freeze(number % 2 == 0), model.clone(), table.hash()));
            }
        }
        model.assert_same(&table, &all);
        prop_assert!(names_of(&table) <= 5);
        for (mut frozen, model, hash) in copies {
            let mut copy = restored(&mut frozen, count_max);
            prop_assert_eq!(copy.hash(), hash);
            model.assert_same(&copy, &all);
            let (mut model, mut later) = (model, 10_000);
            for (_, identity, name) in all.iter().take(30) {
                later += 1;
                copy.insert(*identity, name, later, AWAY, Rcode::REFUSED, clock);
                model.insert((later, *identity), name, (AWAY, Rcode::REFUSED), clock, count_max);
            }
            model.assert_same(&copy, &all);
        }
    }

    #[test]
    fn nothing_is_executed_twice(
        inserts in proptest::collection::vec((any::<u8>(), 1u64..300, proptest::option::of(0u64..200)), 0..200),
    ) {
        let mut sessions = Sessions::new(16);
        let mut executed = std::collections::BTreeSet::new();
        for (number, time, at_s) in inserts {
            // Few messages, so that some are repeated.
            let (number, time) = (number % 3, time / 10 * 10);
            // The signed time is part of the identity.
            let mut identity = identity(number);
            identity[15] = time as u8;
            if sessions.known(&identity, &key(), time, &HOME) == Known::New {
                prop_assert!(executed.insert(identity), "executed twice");
                sessions.insert(identity, &key(), time, HOME, Rcode::NOERROR, at_s);
            }
            prop_assert!(sessions.len() <= 16);
        }
    }
}

/// One key signs 299 s ahead, twenty times as often as the table has room for. Others sign now, with different
/// clocks.
#[test]
fn future_timestamps_do_not_evict_current_sessions() {
    const COUNT: usize = 2_000;
    const START: u64 = 1_000_000;
    let mut sessions = Sessions::new(COUNT);
    let (flood, others) = ("flood.".parse().unwrap(), ["one.", "two."].map(|name| name.parse().unwrap()));
    let identity_of = |number: u64, which: u8| {
        let mut identity = [which; 16];
        identity[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        identity
    };
    let mut number = 0;
    let (mut flooded, mut noted) = (0, Vec::new());
    for now in START..START + 400 {
        for _ in 0..100 {
            number += 1;
            let (identity, time) = (identity_of(number, 0), now + 299);
            if sessions.known(&identity, &flood, time, &HOME) == Known::New {
                flooded += 1;
                sessions.insert(identity, &flood, time, HOME, Rcode::NOERROR, Some(now));
            }
        }
        // Several in one second: earlier ones must not prevent later ones.
        for (other, time) in [(0, now), (1, now - 10), (0, now), (1, now + 20), (1, now)] {
            number += 1;
            let (identity, key) = (identity_of(number, 1), &others[other]);
            assert_eq!(sessions.known(&identity, key, time, &HOME), Known::New, "{} s", now - START);
            sessions.insert(identity, key, time, HOME, Rcode::NOERROR, Some(now));
            noted.push((identity, key, time));
        }
        // Recent updates are known.
        for (identity, key, time) in noted.iter().rev().take(5 * 40) {
            assert_eq!(sessions.known(identity, key, *time, &HOME), Known::Repeat(Rcode::NOERROR));
        }
    }
    assert!(sessions.len() == COUNT && flooded > COUNT, "{flooded}");
}

/// With too many floors, the lowest becomes the floor of all keys, also in a restored table.
#[test]
fn floors_beyond_the_limit_become_the_floor_of_all() {
    let mut sessions = Sessions::new(1);
    let name = |number: usize| -> Name { format!("k{number}.").parse().unwrap() };
    for number in 0..SESSION_FLOORS_MAX + 3 {
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&(number as u64).to_be_bytes());
        sessions.insert(identity, &name(number), 10 + number as u64, HOME, Rcode::NOERROR, None);
    }
    assert_eq!(sessions.keys.floor_count(), SESSION_FLOORS_MAX);
    assert_eq!(sessions.floor_of_all, 11, "of the first two keys");
    assert_eq!(sessions.known(&identity(9), &name(0), 11, &HOME), Known::BadTime);
    assert_eq!(sessions.known(&identity(9), &name(0), 12, &HOME), Known::New);
    assert_eq!(sessions.known(&identity(9), &name(2), 12, &HOME), Known::BadTime);
    let copy = restored(&mut sessions.freeze(true), 1);
    assert_eq!((copy.hash(), copy.floor_of_all, copy.len()), (sessions.hash(), 11, 1));
}

/// The directory does not keep pages that became empty.
#[test]
fn pages_are_full_after_a_checkpoint_and_gone_when_they_are_empty() {
    let count = 20 * SESSION_PAGE_MAX;
    let mut sessions = Sessions::new(count);
    let insert = |sessions: &mut Sessions, number: u64| {
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        sessions.insert(identity, &key(), 1_000 + number / 500, HOME, Rcode::NOERROR, None);
    };
    (0..3 * count as u64).for_each(|number| insert(&mut sessions, number));
    assert_eq!(sessions.len(), count);
    let pages = sessions.pages.page_count();
    assert!(pages <= 2 * 20 + 2, "{pages} pages: at least half of each is full");
    assert_eq!(restored(&mut sessions.freeze(true), count).pages.page_count(), 20);
}
