//! Repeats: which signed messages were executed, with what outcome (exactly once, precisely).
//!
//! The table is bounded. The oldest signed time is evicted first, and eviction raises the floor of its key: a
//! message signed at or before the floor that is not in the table may have been executed, so it gets BADTIME.
//! Nothing is executed twice, whatever any clock says.

use super::hash::{Item, item_hash};
use crate::codec::{DecodeError, Decoder, Encoder};
use crate::limits::SESSION_FLOORS_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::name::Name;
use wire::number::Rcode;

/// Shards are shared with frozen copies and copied when they change, so that a checkpoint costs no pause.
const SHARDS: usize = 4_096;

/// Names a signed message.
pub(crate) type Identity = [u8; 16];

/// What was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) key_name: Arc<Name>,
    pub(crate) time_signed: u64,
    /// Address of the client, an IPv4 one mapped into IPv6.
    pub(crate) source: [u8; 16],
    pub(crate) rcode: Rcode,
}

/// What the table knows about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is new: execute it.
    New,
    /// It was executed for the same address, with this outcome.
    Repeat(Rcode),
    /// It was executed for another address, or is too old to tell.
    BadTime,
}

type Shard = Arc<BTreeMap<Identity, Session>>;

/// The table.
#[derive(Debug)]
pub(crate) struct Sessions {
    shards: Vec<Shard>,
    by_time: BTreeSet<(u64, Identity)>,
    /// Latest signed time that was evicted, by key; survives the key, lest a key that comes back executes twice.
    floors: BTreeMap<Name, u64>,
    /// Floor of every key, raised when `floors` itself is full.
    floor_of_all: u64,
    names: BTreeMap<Name, Arc<Name>>,
    count_max: usize,
    hash: u128,
}

/// A copy that does not change; shares its shards with the table.
#[derive(Clone, Debug)]
pub(crate) struct FrozenSessions {
    shards: Vec<Shard>,
    floors: BTreeMap<Name, u64>,
    floor_of_all: u64,
}

impl Sessions {
    pub(crate) fn new(count_max: usize) -> Self {
        Self {
            shards: vec![Shard::default(); SHARDS],
            by_time: BTreeSet::new(),
            floors: BTreeMap::new(),
            floor_of_all: 0,
            names: BTreeMap::new(),
            count_max,
            hash: floor_of_all_hash(0),
        }
    }

    pub(crate) const fn hash(&self) -> u128 {
        self.hash
    }

    pub(crate) fn len(&self) -> usize {
        self.by_time.len()
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Session> {
        self.shards[shard_of(identity)].get(identity)
    }

    /// What a message is, given the address that it came from now.
    pub(crate) fn known(&self, identity: &Identity, key_name: &Name, time_signed: u64, source: &[u8; 16]) -> Known {
        match self.get(identity) {
            Some(session) if session.source == *source => Known::Repeat(session.rcode),
            Some(_) => Known::BadTime,
            None if time_signed <= self.floor(key_name) => Known::BadTime,
            None => Known::New,
        }
    }

    fn floor(&self, key_name: &Name) -> u64 {
        // Times start at one: a floor of zero refuses nothing but what was signed in the first second of 1970.
        self.floors.get(key_name).copied().unwrap_or(0).max(self.floor_of_all)
    }

    /// Notes an executed message, and evicts the oldest when the table is full.
    pub(crate) fn insert(
        &mut self,
        identity: Identity,
        key_name: &Name,
        time_signed: u64,
        source: [u8; 16],
        rcode: Rcode,
    ) {
        let key_name = self.intern(key_name);
        self.put(identity, Session { key_name, time_signed, source, rcode });
        while self.by_time.len() > self.count_max {
            let Some((time_signed, oldest)) = self.by_time.pop_first() else { break };
            let shard = Arc::make_mut(&mut self.shards[shard_of(&oldest)]);
            let Some(session) = shard.remove(&oldest) else { break };
            self.hash = self.hash.wrapping_sub(session_hash(&oldest, &session));
            self.raise_floor(&session.key_name, time_signed);
        }
    }

    fn intern(&mut self, key_name: &Name) -> Arc<Name> {
        if let Some(name) = self.names.get(key_name) {
            return name.clone();
        }
        if self.names.len() >= SESSION_FLOORS_MAX {
            // Names are shared for their size only; forgetting them is always right.
            self.names.clear();
        }
        let name = Arc::new(key_name.clone());
        self.names.insert(key_name.clone(), name.clone());
        name
    }

    fn put(&mut self, identity: Identity, session: Session) {
        self.hash = self.hash.wrapping_add(session_hash(&identity, &session));
        self.by_time.insert((session.time_signed, identity));
        let shard = Arc::make_mut(&mut self.shards[shard_of(&identity)]);
        if let Some(old) = shard.insert(identity, session) {
            self.hash = self.hash.wrapping_sub(session_hash(&identity, &old));
        }
    }

    fn raise_floor(&mut self, key_name: &Name, time_signed: u64) {
        let floor = self.floors.entry(key_name.clone()).or_insert(0);
        if *floor < time_signed {
            if *floor != 0 {
                self.hash = self.hash.wrapping_sub(floor_hash(key_name, *floor));
            }
            *floor = time_signed;
            self.hash = self.hash.wrapping_add(floor_hash(key_name, time_signed));
        }
        if self.floors.len() > SESSION_FLOORS_MAX {
            let lowest = self.floors.iter().min_by_key(|&(_, &floor)| floor);
            if let Some((name, floor)) = lowest.map(|(name, &floor)| (name.clone(), floor)) {
                self.floors.remove(&name);
                self.hash = self.hash.wrapping_sub(floor_hash(&name, floor));
                self.hash = self.hash.wrapping_sub(floor_of_all_hash(self.floor_of_all));
                self.floor_of_all = self.floor_of_all.max(floor);
                self.hash = self.hash.wrapping_add(floor_of_all_hash(self.floor_of_all));
            }
        }
    }

    pub(crate) fn freeze(&self) -> FrozenSessions {
        FrozenSessions { shards: self.shards.clone(), floors: self.floors.clone(), floor_of_all: self.floor_of_all }
    }

    /// Takes one item of a checkpoint.
    pub(crate) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match from.u8()? {
            1 => {
                let identity = from.array()?;
                let key_name = self.intern(&from.name()?);
                let (time_signed, source, rcode) = (from.u64()?, from.array()?, Rcode(from.u16()?));
                self.put(identity, Session { key_name, time_signed, source, rcode });
            }
            2 => {
                let (name, floor) = (from.name()?, from.u64()?);
                self.raise_floor(&name, floor);
            }
            3 => {
                self.hash = self.hash.wrapping_sub(floor_of_all_hash(self.floor_of_all));
                self.floor_of_all = from.u64()?;
                self.hash = self.hash.wrapping_add(floor_of_all_hash(self.floor_of_all));
            }
            _ => return Err(DecodeError::Unknown),
        }
        Ok(())
    }
}

impl FrozenSessions {
    /// Number of steps that [`FrozenSessions::encode_step`] takes.
    pub(crate) const STEPS: usize = SHARDS + 1;

    /// Writes one part of the table as items, each with its length: floors first, then shard by shard.
    pub(crate) fn encode_step(&self, step: usize, mut item: impl FnMut(Encoder)) {
        if step == 0 {
            let mut out = Encoder::new();
            out.u8(3);
            out.u64(self.floor_of_all);
            item(out);
            for (name, floor) in &self.floors {
                let mut out = Encoder::new();
                out.u8(2);
                out.name(name);
                out.u64(*floor);
                item(out);
            }
            return;
        }
        for (identity, session) in self.shards[step - 1].iter() {
            let mut out = Encoder::new();
            out.u8(1);
            out.fixed(identity);
            out.name(&session.key_name);
            out.u64(session.time_signed);
            out.fixed(&session.source);
            out.u16(session.rcode.0);
            item(out);
        }
    }
}

fn shard_of(identity: &Identity) -> usize {
    usize::from(u16::from_be_bytes([identity[0], identity[1]])) % SHARDS
}

fn session_hash(identity: &Identity, session: &Session) -> u128 {
    item_hash(
        Item::Session,
        &[
            identity,
            session.key_name.octets(),
            &session.time_signed.to_be_bytes(),
            &session.source,
            &session.rcode.0.to_be_bytes(),
        ],
    )
}

fn floor_hash(key_name: &Name, floor: u64) -> u128 {
    item_hash(Item::Floor, &[key_name.octets(), &floor.to_be_bytes()])
}

fn floor_of_all_hash(floor: u64) -> u128 {
    item_hash(Item::Floor, &[&floor.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Name {
        "key.".parse().unwrap()
    }

    fn identity(number: u8) -> Identity {
        [number; 16]
    }

    const HOME: [u8; 16] = [1; 16];
    const AWAY: [u8; 16] = [2; 16];

    #[test]
    fn repeats_get_the_stored_outcome_at_home_and_badtime_elsewhere() {
        let mut sessions = Sessions::new(10);
        assert_eq!(sessions.known(&identity(1), &key(), 100, &HOME), Known::New);
        sessions.insert(identity(1), &key(), 100, HOME, Rcode::NXRRSET);
        assert_eq!(sessions.known(&identity(1), &key(), 100, &HOME), Known::Repeat(Rcode::NXRRSET));
        assert_eq!(sessions.known(&identity(1), &key(), 100, &AWAY), Known::BadTime);
    }

    #[test]
    fn what_is_at_or_below_the_floor_of_its_key_is_not_executed() {
        let mut sessions = Sessions::new(2);
        for (number, time) in [(1, 100), (2, 300), (3, 200)] {
            sessions.insert(identity(number), &key(), time, HOME, Rcode::NOERROR);
        }
        assert_eq!(sessions.len(), 2);
        assert_eq!(sessions.known(&identity(1), &key(), 100, &HOME), Known::BadTime);
        assert_eq!(sessions.known(&identity(9), &key(), 100, &HOME), Known::BadTime);
        assert_eq!(sessions.known(&identity(9), &key(), 101, &HOME), Known::New);
        let other = "other.".parse().unwrap();
        assert_eq!(sessions.known(&identity(9), &other, 100, &HOME), Known::New);
        // The newcomer itself may be the oldest.
        sessions.insert(identity(4), &key(), 150, HOME, Rcode::NOERROR);
        assert_eq!(sessions.known(&identity(4), &key(), 150, &HOME), Known::BadTime);
    }

    fn restored(frozen: &FrozenSessions, count_max: usize) -> Sessions {
        let mut sessions = Sessions::new(count_max);
        for step in 0..FrozenSessions::STEPS {
            frozen.encode_step(step, |item| {
                let octets = item.finish();
                let mut from = Decoder::new(&octets);
                sessions.restore(&mut from).unwrap();
                from.finish().unwrap();
            });
        }
        sessions
    }

    proptest! {
        #[test]
        fn hash_does_not_depend_on_history(inserts in proptest::collection::vec((any::<u8>(), 1u64..50), 0..60)) {
            let mut sessions = Sessions::new(16);
            let mut executed = BTreeSet::new();
            for (number, time) in inserts {
                // The signed time is part of what the identity is a digest of.
                let mut identity = identity(number);
                identity[15] = time as u8;
                if sessions.known(&identity, &key(), time, &HOME) == Known::New {
                    prop_assert!(executed.insert(identity), "executed twice");
                    sessions.insert(identity, &key(), time, HOME, Rcode::NOERROR);
                }
            }
            let frozen = sessions.freeze();
            let hash = sessions.hash();
            sessions.insert(identity(255), &key(), 1_000, AWAY, Rcode::REFUSED);
            let copy = restored(&frozen, 16);
            prop_assert_eq!(copy.hash(), hash);
            prop_assert!(copy.by_time.len() <= 16);
        }
    }
}
