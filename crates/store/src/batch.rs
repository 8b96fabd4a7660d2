//! Batches of lookups: while one waits for memory, the others proceed.

use crate::arena::HALF_LINE_BYTES;
use crate::key::{Key, LeafKey};
use crate::limits::BATCH_MAX;
use crate::path::Trail;
use crate::tree::Tree;
use crate::view::View;

/// Bytes of a cache line. A larger leaf is prefetched in two steps.
const LINE_BYTES: usize = 64;

impl<'a, K: LeafKey> View<'a, K> {
    /// Looks up all `queries`; `out[i]` becomes the leaf of `queries[i]`. All lookups descend in step, each prefetching
    /// its next vertex. Then the leaves are compared with the keys.
    ///
    /// # Panics
    /// When `out` is shorter than `queries`.
    pub fn get_batch(self, queries: &[(Tree, Key)], out: &mut [Option<&'a [u8]>]) {
        self.candidate_batch(queries, out);
        for (out, (_, key)) in out.iter_mut().zip(queries) {
            *out = out.filter(|leaf| K::has_key(leaf, key));
        }
    }

    /// Like [`View::get_batch`], but finds [`View::candidate`] for each query.
    ///
    /// # Panics
    /// When `out` is shorter than `queries`.
    pub fn candidate_batch(self, queries: &[(Tree, Key)], out: &mut [Option<&'a [u8]>]) {
        assert!(out.len() >= queries.len(), "no room for all results");
        for (queries, out) in queries.chunks(BATCH_MAX).zip(out.chunks_mut(BATCH_MAX)) {
            let mut trails = [Trail::default(); BATCH_MAX];
            self.trails(queries.iter().map(|(tree, key)| (*tree, key)), &mut trails);
            for (out, trail) in out.iter_mut().zip(&trails).take(queries.len()) {
                *out = self.trail_leaf(trail);
            }
        }
    }

    /// Descends with all `queries` in step, as [`View::trail`] does with one, and prefetches their leaves. Queries
    /// after the first [`BATCH_MAX`], or without room in `out`, are ignored.
    pub fn trails<'k>(self, queries: impl Iterator<Item = (Tree, &'k Key)>, out: &mut [Trail]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instruction that this function is compiled for.
            return unsafe { self.trails_with_popcnt(queries, out) };
        }
        self.trails_in_step(queries, out);
    }

    /// [`View::trails`] for processors that count bits in one instruction, which each branch needs once.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "popcnt")]
    fn trails_with_popcnt<'k>(self, queries: impl Iterator<Item = (Tree, &'k Key)>, out: &mut [Trail]) {
        self.trails_in_step(queries, out);
    }

    // Always inlined, so that it is compiled for the caller's instruction set.
    #[inline(always)]
    fn trails_in_step<'k>(self, queries: impl Iterator<Item = (Tree, &'k Key)>, out: &mut [Trail]) {
        let arena = self.arena();
        let mut keys = [const { None }; BATCH_MAX];
        let mut pending = [0_u8; BATCH_MAX];
        let mut pending_count = 0;
        for (index, ((tree, key), trail)) in queries.zip(out.iter_mut()).enumerate().take(BATCH_MAX) {
            *trail = Trail { leaf: tree.to_bits(), ..Trail::default() };
            if tree.is_empty() {
                continue;
            }
            keys[index] = Some(key);
            arena.prefetch(trail.leaf, 0);
            pending[pending_count] = index as u8;
            pending_count += 1;
        }
        let mut rounds = 0;
        while pending_count > 0 {
            assert!(rounds <= crate::limits::KEY_SYMBOLS_MAX + 1, "no tree is so deep: it is stale");
            rounds += 1;
            let mut kept_count = 0;
            for slot in 0..pending_count {
                let index = pending[slot];
                let trail = &mut out[usize::from(index)];
                let Some(key) = keys[usize::from(index)] else { continue };
                let handle = trail.leaf;
                let header = arena.header(handle);
                if header.is_leaf() {
                    if header.len() + 4 > LINE_BYTES {
                        arena.prefetch(handle, LINE_BYTES);
                    }
                    continue;
                }
                assert!(header.is_branch(), "no vertex: the tree is stale");
                let child = self.step(handle, header, key, trail);
                arena.prefetch(child, 0);
                arena.prefetch(child, HALF_LINE_BYTES);
                trail.leaf = child;
                pending[kept_count] = index;
                kept_count += 1;
            }
            pending_count = kept_count;
        }
    }
}
