//! Many lookups side by side: while one waits for memory, the others go on.

use crate::arena::HALF_LINE_BYTES;
use crate::key::{Key, LeafKey};
use crate::limits::BATCH_MAX;
use crate::path::Trail;
use crate::tree::Tree;
use crate::view::View;

/// Bytes of a cache line: a leaf of more than one is asked for in two steps.
const LINE_BYTES: usize = 64;

impl<'a, K: LeafKey> View<'a, K> {
    /// Looks all `queries` up; `out[i]` is the leaf of `queries[i]`. First all go down their trees in step, each asking
    /// for its next vertex before any waits for it; then the leaves that were reached are compared.
    ///
    /// # Panics
    /// When `out` is shorter than `queries`.
    pub fn get_batch(self, queries: &[(Tree, Key)], out: &mut [Option<&'a [u8]>]) {
        self.candidate_batch(queries, out);
        for (out, (_, key)) in out.iter_mut().zip(queries) {
            *out = out.filter(|leaf| K::has_key(leaf, key));
        }
    }

    /// Finds for all `queries` the only leaf that can have the key ([`View::candidate`]), as [`View::get_batch`] does.
    ///
    /// # Panics
    /// When `out` is shorter than `queries`.
    pub fn candidate_batch(self, queries: &[(Tree, Key)], out: &mut [Option<&'a [u8]>]) {
        assert!(out.len() >= queries.len(), "no room for all results");
        for (queries, out) in queries.chunks(BATCH_MAX).zip(out.chunks_mut(BATCH_MAX)) {
            let mut trails = [Trail::default(); BATCH_MAX];
            self.trails(queries.iter().map(|(tree, key)| (*tree, key)), &mut trails);
            for (out, trail) in out.iter_mut().zip(&trails).take(queries.len()) {
                *out = self.reached(trail);
            }
        }
    }

    /// Goes down with all `queries` side by side, as [`View::trail`] does with one; the leaves that are reached are on
    /// their way into the cache. What is beyond the first [`BATCH_MAX`], or has no place in `out`, is left out.
    pub fn trails<'k>(self, queries: impl Iterator<Item = (Tree, &'k Key)>, out: &mut [Trail]) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if std::arch::is_x86_feature_detected!("popcnt") {
            // SAFETY: the processor has the instruction that this is compiled for.
            return unsafe { self.trails_with_popcnt(queries, out) };
        }
        self.trails_in_step(queries, out);
    }

    /// [`View::trails`] for processors that count bits in one instruction, which every branch on the way needs.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "popcnt")]
    fn trails_with_popcnt<'k>(self, queries: impl Iterator<Item = (Tree, &'k Key)>, out: &mut [Trail]) {
        self.trails_in_step(queries, out);
    }

    // Always, so that it is compiled for what the processor has.
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
            let mut kept = 0;
            for slot in 0..pending_count {
                let index = pending[slot];
                let trail = &mut out[usize::from(index)];
                let Some(key) = keys[usize::from(index)] else { continue };
                let handle = trail.leaf;
                let word = arena.word(handle);
                if word.is_leaf() {
                    if word.len() + 4 > LINE_BYTES {
                        arena.prefetch(handle, LINE_BYTES);
                    }
                    continue;
                }
                assert!(word.is_branch(), "no vertex: the tree is stale");
                let child = self.step(handle, word, key, trail);
                arena.prefetch(child, 0);
                arena.prefetch(child, HALF_LINE_BYTES);
                trail.leaf = child;
                pending[kept] = index;
                kept += 1;
            }
            pending_count = kept;
        }
    }
}
