//! Sessions: the executed messages and their outcomes, so that each message is executed exactly once.
//!
//! The table is bounded. The session with the oldest signed time is evicted first, and its eviction raises the floor
//! of its key. A message that is signed at or before the floor and not in the table may have been executed, so it
//! gets BADTIME. So nothing is executed twice, even if clocks are wrong. A key that signs ahead of time does not
//! displace updates that others sign now: see [`Sessions::evict`]. The memory layout is in
//! `docs/internals/decisions/0019`.

// Sessions in the order of signed time.
mod pages;
// Key names by number.
mod keys;
// Writes the table to a checkpoint and restores it.
mod frozen;

pub(crate) use frozen::FrozenSessions;

use super::hash::{Item, item_hash};
use crate::limits::{SESSION_COUNT_MAX, SESSION_FLOORS_MAX, SESSION_NEAR_S, TIME_SIGNED_MAX};
use keys::Keys;
pub(crate) use pages::Identity;
use pages::{Pages, Slot, sort_key_of};
use wire::name::Name;
use wire::number::Rcode;

/// The outcome of an executed message, and its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    /// Address of the client; an IPv4 address is mapped into IPv6.
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

/// The table.
#[derive(Debug)]
pub(crate) struct Sessions {
    pages: Pages,
    keys: Keys,
    /// The floor of all keys. It rises when there are too many floors of single keys.
    floor_of_all: u64,
    count_max: usize,
    hash: u128,
}

impl Sessions {
    /// An empty table.
    ///
    /// # Panics
    /// If `count_max` is more than [`SESSION_COUNT_MAX`].
    pub(crate) fn new(count_max: usize) -> Self {
        assert!(count_max <= SESSION_COUNT_MAX, "the numbers of keys have 24 bits");
        Self { pages: Pages::default(), keys: Keys::default(), floor_of_all: 0, count_max, hash: floor_of_all_hash(0) }
    }

    pub(crate) const fn hash(&self) -> u128 {
        self.hash
    }

    pub(crate) const fn len(&self) -> usize {
        self.pages.len()
    }

    /// The session of a message. The signed time is part of the message, so its identity determines it.
    pub(crate) fn get(&self, identity: &Identity, time_signed: u64) -> Option<Session> {
        let slot = self.pages.get(&sort_key_of(time_signed, identity))?;
        Some(Session { source: slot.source, rcode: Rcode(u16::from(slot.rcode)) })
    }

    /// The status of a message from this address.
    pub(crate) fn known(&self, identity: &Identity, key_name: &Name, time_signed: u64, source: &[u8; 16]) -> Known {
        match self.get(identity, time_signed) {
            Some(session) if planted!(RepeatToStranger) || session.source == *source => Known::Repeat(session.rcode),
            Some(_) => Known::BadTime,
            // Signed times start at one, so a floor of zero refuses only messages signed in the first second of 1970.
            None if !planted!(FloorIgnored)
                && time_signed.min(TIME_SIGNED_MAX) <= self.keys.floor(key_name).max(self.floor_of_all) =>
            {
                Known::BadTime
            }
            None => Known::New,
        }
    }

    /// Adds an executed message, and evicts a session if the table is full. `at_s` is the time of the entry, in
    /// seconds since 1970; `None` at feature levels that always evict the oldest.
    pub(crate) fn insert(
        &mut self,
        identity: Identity,
        key_name: &Name,
        time_signed: u64,
        source: [u8; 16],
        rcode: Rcode,
        at_s: Option<u64>,
    ) {
        let key = self.keys.number_of(key_name);
        self.put(&identity, key, time_signed, source, rcode);
        while self.pages.len() > if planted!(RepeatsForgottenEarly) { self.count_max / 10 } else { self.count_max } {
            let Some(slot) = self.evict(at_s) else { break };
            if !planted!(FloorNotRaised) {
                self.raise_floor(slot.key(), slot.time_signed());
            }
            self.gone(&slot);
        }
    }

    /// Evicts a session: normally the oldest. If even the oldest was signed just now, the newest is evicted if it was
    /// signed well ahead of the entry. Otherwise a key that signs far ahead would displace all other sessions, and
    /// the floors of other keys would rise to the present with every update. The evicted session raises its own key's
    /// floor.
    fn evict(&mut self, at_s: Option<u64>) -> Option<Slot> {
        let (oldest, newest) = self.pages.times()?;
        let is_ahead = at_s.is_some_and(|at_s| {
            oldest.saturating_add(SESSION_NEAR_S) >= at_s && newest > at_s.saturating_add(SESSION_NEAR_S)
        });
        if is_ahead { self.pages.pop_last() } else { self.pages.pop_first() }
    }

    fn put(&mut self, identity: &Identity, key: u32, time_signed: u64, source: [u8; 16], rcode: Rcode) {
        // The RCODE of a message has four bits (RFC 1035 4.1.1).
        let rcode = u8::try_from(rcode.0).unwrap_or(u8::MAX);
        self.keys.enter(key);
        let slot = Slot::new(sort_key_of(time_signed, identity), source, key, rcode);
        self.hash = self.hash.wrapping_add(self.slot_hash(&slot));
        if let Some(old) = self.pages.put(slot) {
            self.gone(&old);
        }
    }

    /// A session has left the table.
    fn gone(&mut self, slot: &Slot) {
        self.hash = self.hash.wrapping_sub(self.slot_hash(slot));
        self.keys.leave(slot.key());
    }

    fn raise_floor(&mut self, key: u32, time_signed: u64) {
        let Some(before) = self.keys.raise_floor(key, time_signed) else { return };
        let name = &self.keys.get(key).name;
        if before != 0 {
            self.hash = self.hash.wrapping_sub(floor_hash(name, before));
        }
        self.hash = self.hash.wrapping_add(floor_hash(name, time_signed));
        if self.keys.floor_count() > SESSION_FLOORS_MAX
            && let Some((name, floor)) = self.keys.take_lowest_floor()
        {
            self.hash = self.hash.wrapping_sub(floor_hash(&name, floor));
            self.hash = self.hash.wrapping_sub(floor_of_all_hash(self.floor_of_all));
            self.floor_of_all = self.floor_of_all.max(floor);
            self.hash = self.hash.wrapping_add(floor_of_all_hash(self.floor_of_all));
        }
    }

    fn slot_hash(&self, slot: &Slot) -> u128 {
        let name = &self.keys.get(slot.key()).name;
        session_hash(&slot.identity(), name, slot.time_signed(), &slot.source, u16::from(slot.rcode))
    }
}

fn session_hash(identity: &Identity, key_name: &Name, time_signed: u64, source: &[u8; 16], rcode: u16) -> u128 {
    let (time_signed, rcode) = (time_signed.to_be_bytes(), rcode.to_be_bytes());
    item_hash(Item::Session, &[identity, key_name.as_bytes(), &time_signed, source, &rcode])
}

fn floor_hash(key_name: &Name, floor: u64) -> u128 {
    item_hash(Item::Floor, &[key_name.as_bytes(), &floor.to_be_bytes()])
}

fn floor_of_all_hash(floor: u64) -> u128 {
    item_hash(Item::Floor, &[&floor.to_be_bytes()])
}

#[cfg(test)]
mod tests;
