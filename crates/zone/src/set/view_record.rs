//! The leaf of a view: its zones as two trees, their number, and their hashes.

use crate::hash::StateHash;
use crate::vertex::LeafNames;
use crate::vertex::leaf::{KIND_VIEW, write_view_key};
use store::{Key, Tree, View};

/// Makes the hash of staged content differ from that of the same content served.
const STAGED_FACTOR: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;

/// The stored data of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ViewRecord {
    pub(super) view: u16,
    /// Apex to zone, for served zones.
    pub(super) zones: Tree,
    /// Apex to zone, for zones that are being imported.
    pub(super) staged: Tree,
    pub(super) zone_count: u32,
    /// Sum of the hashes of `zones`.
    pub(super) zones_hash: StateHash,
    /// Sum of the hashes of `staged`.
    pub(super) staged_hash: StateHash,
}

const BYTES: usize = 1 + 2 + 4 + 4 + 4 + 16 + 16;

impl ViewRecord {
    pub(super) const fn empty(view: u16) -> Self {
        Self { view, zones: Tree::EMPTY, staged: Tree::EMPTY, zone_count: 0, zones_hash: 0, staged_hash: 0 }
    }

    /// The record of `view` under `root`; an empty one if there is none.
    pub(super) fn find(store: View<'_, LeafNames>, root: Tree, view: u16) -> Self {
        if root == Tree::EMPTY {
            return Self::empty(view);
        }
        let mut key = Key::new();
        write_view_key(view, &mut key);
        store.get(root, &key).and_then(Self::from_leaf).unwrap_or(Self::empty(view))
    }

    pub(super) fn from_leaf(leaf: &[u8]) -> Option<Self> {
        let (_head, rest) = leaf.split_first()?;
        let (view, rest) = rest.split_first_chunk()?;
        let (zones, rest) = rest.split_first_chunk()?;
        let (staged, rest) = rest.split_first_chunk()?;
        let (zone_count, rest) = rest.split_first_chunk()?;
        let (zones_hash, rest) = rest.split_first_chunk()?;
        let (staged_hash, _) = rest.split_first_chunk()?;
        Some(Self {
            view: u16::from_be_bytes(*view),
            zones: Tree::from_bits(u32::from_be_bytes(*zones)),
            staged: Tree::from_bits(u32::from_be_bytes(*staged)),
            zone_count: u32::from_be_bytes(*zone_count),
            zones_hash: u128::from_be_bytes(*zones_hash),
            staged_hash: u128::from_be_bytes(*staged_hash),
        })
    }

    pub(super) fn to_leaf(self) -> [u8; BYTES] {
        let mut leaf = [0; BYTES];
        leaf[0] = KIND_VIEW;
        leaf[1..3].copy_from_slice(&self.view.to_be_bytes());
        leaf[3..7].copy_from_slice(&self.zones.to_bits().to_be_bytes());
        leaf[7..11].copy_from_slice(&self.staged.to_bits().to_be_bytes());
        leaf[11..15].copy_from_slice(&self.zone_count.to_be_bytes());
        leaf[15..31].copy_from_slice(&self.zones_hash.to_be_bytes());
        leaf[31..47].copy_from_slice(&self.staged_hash.to_be_bytes());
        leaf
    }

    /// One hash over served and staged content.
    pub(super) const fn hash(&self) -> StateHash {
        self.zones_hash.wrapping_add(self.staged_hash.wrapping_mul(STAGED_FACTOR))
    }
}
