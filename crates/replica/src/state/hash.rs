//! The additive state hash: the sum of a 128-bit hash of each item. The cost of a change depends only on its own items,
//! not on the size of the state. The order of changes does not matter.

use siphasher::sip128::{Hasher128, SipHasher13};
use std::hash::Hasher;

/// The kind of an item, so that equal bytes of different kinds have different hashes.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
pub(crate) enum Item {
    Session = 1,
    Floor = 2,
    Zone = 3,
    Retired = 4,
    Key = 5,
    Grant = 6,
    Member = 7,
    Token = 8,
    Incarnation = 9,
    Scalars = 10,
    History = 11,
    Stage = 12,
    Policy = 13,
    /// Not part of the state: flows of waiting commands on a leader.
    Flow = 14,
    Rotation = 20,
    AllLive = 21,
    AllLiveKnown = 22,
    Learner = 30,
    LearnerToken = 31,
    Trust = 32,
}

// Not secret: the hash only detects accidents. To forge a state one needs the cluster's keys.
const KEY: (u64, u64) = (0x6361_7461_6d61_7261, 0x6e20_7374_6174_6500);

/// The hash of one item.
pub(crate) fn item_hash(item: Item, bytes: &[&[u8]]) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(KEY.0, KEY.1);
    hasher.write_u8(item as u8);
    for part in bytes {
        hasher.write_u32(part.len() as u32);
        hasher.write(part);
    }
    hasher.finish128().as_u128()
}
