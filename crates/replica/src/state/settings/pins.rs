//! Pins: the keys that members may use in their certificates. A certificate with another key is refused, even if the
//! cluster's own CA issued it.
//!
//! During a renewal, a member has two pins: for its present key and for the next one. It uses the next key only when
//! every member has seen its pin. A member that had not seen it would refuse every connection, and could not learn of
//! it.

use crate::entry::PinChange;
use crate::io::NodeId;
use crate::limits::PINS_PER_MEMBER_MAX;
use std::collections::BTreeMap;
use zone::codec::{DecodeError, Decoder, Encoder};

/// SHA-256 of a public key as a certificate holds it (SubjectPublicKeyInfo, RFC 5280 4.1.2.7; as in RFC 7469 2.4).
pub(crate) type Pin = [u8; 32];

/// All pins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    /// Increases with each added pin.
    version: u32,
    /// By member, the oldest first. A member without pins has not registered one yet.
    by_member: BTreeMap<NodeId, Vec<Pinned>>,
    /// The version that each member reported as applied.
    seen: BTreeMap<NodeId, u32>,
}

/// One pin, and the version that added it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pinned {
    pin: Pin,
    since: u32,
}

/// Size of the smallest encoding of a pin.
const PINNED_BYTES: usize = size_of::<Pin>() + size_of::<u32>();

impl Pins {
    /// The pins of each member that has any.
    pub(crate) fn by_member(&self) -> impl Iterator<Item = (NodeId, Vec<Pin>)> {
        self.by_member.iter().map(|(&id, pinned)| (id, pinned.iter().map(|of| of.pin).collect()))
    }

    /// The version that every member must have seen, if a member has a next key.
    pub(crate) fn wanted(&self) -> Option<u32> {
        self.by_member.values().filter_map(|pinned| pinned.get(1)).map(|next| next.since).max()
    }

    pub(crate) fn seen_by(&self, id: NodeId) -> u32 {
        self.seen.get(&id).copied().unwrap_or(0)
    }

    /// Whether all of these members have seen the next key of a member.
    pub(crate) fn is_next_seen(&self, id: NodeId, mut members: impl Iterator<Item = NodeId>) -> bool {
        let next = self.by_member.get(&id).and_then(|pinned| pinned.get(1));
        next.is_some_and(|next| members.all(|member| self.seen_by(member) >= next.since))
    }

    /// Whether the change has an effect.
    pub(super) fn is_news(&self, id: NodeId, change: &PinChange) -> bool {
        let known = self.by_member.get(&id).map_or(&[][..], Vec::as_slice);
        match change {
            PinChange::Add(pin) => !known.iter().any(|of| of.pin == *pin),
            // An older key never replaces a newer one, even if the request is late.
            PinChange::Only(pin) => known.len() > 1 && known.last().is_some_and(|last| last.pin == *pin),
            PinChange::Seen(version) => (self.seen_by(id) + 1..=self.version).contains(version),
        }
    }

    pub(super) fn apply(&mut self, id: NodeId, change: &PinChange) {
        if !self.is_news(id, change) {
            return;
        }
        let known = self.by_member.entry(id).or_default();
        match change {
            PinChange::Add(pin) => {
                self.version = self.version.saturating_add(1);
                // An unused next key is replaced; the present key stays.
                known.truncate(PINS_PER_MEMBER_MAX - 1);
                known.push(Pinned { pin: *pin, since: self.version });
            }
            PinChange::Only(_) => _ = known.drain(..known.len() - 1),
            PinChange::Seen(version) => _ = self.seen.insert(id, *version),
        }
        self.by_member.retain(|_, pinned| !pinned.is_empty());
    }

    pub(super) fn forget(&mut self, id: NodeId) {
        self.by_member.remove(&id);
        self.seen.remove(&id);
    }

    /// Items of a checkpoint: 34 for each member its pins, 35 the version, 36 for each member what it has seen.
    pub(super) fn encode_items(&self, mut each: impl FnMut(u8, &dyn Fn(&mut Encoder))) {
        for (&id, pinned) in &self.by_member {
            each(34, &|out| {
                out.u64(id);
                out.count(pinned.len());
                for Pinned { pin, since } in pinned {
                    out.fixed(pin);
                    out.u32(*since);
                }
            });
        }
        if self.version != 0 {
            each(35, &|out| out.u32(self.version));
        }
        for (&id, &version) in &self.seen {
            each(36, &|out| {
                out.u64(id);
                out.u32(version);
            });
        }
    }

    pub(super) fn restore(&mut self, kind: u8, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        match kind {
            34 => {
                let id = from.u64()?;
                let count = from.count(PINS_PER_MEMBER_MAX, PINNED_BYTES)?;
                let pinned = (0..count).map(|_| Ok(Pinned { pin: from.array()?, since: from.u32()? }));
                self.by_member.insert(id, pinned.collect::<Result<_, DecodeError>>()?);
            }
            35 => self.version = from.u32()?,
            _ => {
                let (id, version) = (from.u64()?, from.u32()?);
                self.seen.insert(id, version);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PinChange::{Add, Only, Seen};

    #[test]
    fn member_has_at_most_its_current_and_next_pin() {
        let mut pins = Pins::default();
        let mut after = |change: PinChange| {
            let news = pins.is_news(2, &change);
            pins.apply(2, &change);
            (news, pins.by_member().find(|(id, _)| *id == 2).unwrap().1)
        };
        assert_eq!(after(Add([1; 32])), (true, vec![[1; 32]]));
        assert_eq!(after(Add([1; 32])), (false, vec![[1; 32]]));
        assert_eq!(after(Only([1; 32])), (false, vec![[1; 32]]));
        assert_eq!(after(Add([2; 32])), (true, vec![[1; 32], [2; 32]]));
        assert_eq!(after(Add([3; 32])), (true, vec![[1; 32], [3; 32]]), "2 was never used");
        assert_eq!(after(Only([1; 32])), (false, vec![[1; 32], [3; 32]]), "late: there is a newer one");
        assert_eq!(after(Only([9; 32])), (false, vec![[1; 32], [3; 32]]), "an unknown key");
        assert_eq!(after(Only([3; 32])), (true, vec![[3; 32]]));
        assert_eq!(after(Only([3; 32])), (false, vec![[3; 32]]));
        pins.forget(2);
        assert_eq!(pins.by_member().count(), 0);
    }

    #[test]
    fn a_next_key_waits_until_every_member_has_seen_it() {
        let mut pins = Pins::default();
        for id in 1..=3 {
            pins.apply(id, &Add([id as u8; 32]));
        }
        assert_eq!(pins.wanted(), None);
        pins.apply(1, &Add([9; 32]));
        assert_eq!((pins.wanted(), pins.is_next_seen(1, 1..=3)), (Some(4), false));
        assert!(!pins.is_news(2, &Seen(5)), "there is no such version");
        pins.apply(1, &Seen(4));
        pins.apply(2, &Seen(4));
        assert!(!pins.is_next_seen(1, 1..=3), "3 was down");
        // A removed member is not waited for.
        assert!(pins.is_next_seen(1, 1..=2) && !pins.is_next_seen(2, 1..=2));
        pins.apply(3, &Seen(4));
        assert!(pins.is_next_seen(1, 1..=3) && !pins.is_news(3, &Seen(3)));
        // For another next key, the wait starts again.
        pins.apply(1, &Add([10; 32]));
        assert!(!pins.is_next_seen(1, 1..=3));
    }
}
