//! The keys that members show in their certificates, pinned. A certificate with another key opens nothing, even if the
//! cluster's own authority issued it. A member that renews has two pins for a moment: the key that it shows, and the
//! next one.

use crate::codec::{DecodeError, Decoder, Encoder};
use crate::entry::PinChange;
use crate::io::NodeId;
use crate::limits::PINS_PER_MEMBER_MAX;
use std::collections::BTreeMap;

/// SHA-256 of a public key as a certificate holds it (SubjectPublicKeyInfo, RFC 5280 4.1.2.7; as in RFC 7469 2.4).
pub(crate) type Pin = [u8; 32];

/// Pins by member, the oldest first. A member without any has not registered one yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pins(BTreeMap<NodeId, Vec<Pin>>);

impl Pins {
    pub(crate) const fn by_member(&self) -> &BTreeMap<NodeId, Vec<Pin>> {
        &self.0
    }

    /// Whether the change would change anything.
    pub(super) fn is_news(&self, id: NodeId, change: &PinChange) -> bool {
        let known = self.0.get(&id).map_or(&[][..], Vec::as_slice);
        match change {
            PinChange::Add(pin) => !known.contains(pin),
            PinChange::Only(pin) => known != [*pin],
        }
    }

    pub(super) fn apply(&mut self, id: NodeId, change: &PinChange) {
        let known = self.0.entry(id).or_default();
        match change {
            PinChange::Add(pin) if !known.contains(pin) => {
                // A next key that was never used gives its place up; the one that is shown stays.
                known.truncate(PINS_PER_MEMBER_MAX - 1);
                known.push(*pin);
            }
            PinChange::Add(_) => {}
            PinChange::Only(pin) => *known = vec![*pin],
        }
    }

    pub(super) fn forget(&mut self, id: NodeId) {
        self.0.remove(&id);
    }

    /// An item of a checkpoint for each member: its id, how many pins, and these.
    pub(super) fn encode_items(&self, mut each: impl FnMut(&dyn Fn(&mut Encoder))) {
        for (&id, pins) in &self.0 {
            each(&|out| {
                out.u64(id);
                out.count(pins.len());
                pins.iter().for_each(|pin| out.fixed(pin));
            });
        }
    }

    pub(super) fn restore(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        let id = from.u64()?;
        let count = from.count(PINS_PER_MEMBER_MAX, size_of::<Pin>())?;
        let pins = (0..count).map(|_| from.array()).collect::<Result<_, _>>()?;
        self.0.insert(id, pins);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PinChange::{Add, Only};

    #[test]
    fn a_member_has_at_most_the_key_it_shows_and_the_next() {
        let mut pins = Pins::default();
        let mut after = |change: PinChange| {
            let news = pins.is_news(2, &change);
            pins.apply(2, &change);
            (news, pins.by_member()[&2].clone())
        };
        assert_eq!(after(Add([1; 32])), (true, vec![[1; 32]]));
        assert_eq!(after(Add([1; 32])), (false, vec![[1; 32]]));
        assert_eq!(after(Add([2; 32])), (true, vec![[1; 32], [2; 32]]));
        assert_eq!(after(Add([3; 32])), (true, vec![[1; 32], [3; 32]]), "2 was never used");
        assert_eq!(after(Only([3; 32])), (true, vec![[3; 32]]));
        assert_eq!(after(Only([3; 32])), (false, vec![[3; 32]]));
        pins.forget(2);
        assert_eq!(pins, Pins::default());
    }
}
