//! Many lookups side by side: while one waits for memory, the others go on.

use crate::arena::HALF_LINE_BYTES;
use crate::key::{Key, LeafKey};
use crate::limits::BATCH_MAX;
use crate::tree::Tree;
use crate::view::View;

/// Octets of a cache line: a leaf of more than one is asked for in two steps.
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
            let reached = self.descend_all(queries);
            for (out, leaf) in out.iter_mut().zip(reached).take(queries.len()) {
                *out = (leaf != 0).then(|| self.octets(leaf));
            }
        }
    }

    /// Brings all that lookups of these keys will read into the cache, and looks nothing up.
    pub fn warm(self, queries: &[(Tree, Key)]) {
        for queries in queries.chunks(BATCH_MAX) {
            self.descend_all(queries);
        }
    }

    /// The leaf that each key leads to, 0 in an empty tree.
    fn descend_all(self, queries: &[(Tree, Key)]) -> [u32; BATCH_MAX] {
        let arena = self.arena();
        let mut at = [0; BATCH_MAX];
        let mut pending = [0_u8; BATCH_MAX];
        let mut pending_count = 0;
        for (index, (tree, _)) in queries.iter().enumerate().filter(|(_, (tree, _))| !tree.is_empty()) {
            at[index] = tree.to_bits();
            arena.prefetch(at[index], 0);
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
                let (handle, key) = (at[usize::from(index)], &queries[usize::from(index)].1);
                let word = arena.word(handle);
                if word.is_leaf() {
                    if word.len() + 4 > LINE_BYTES {
                        arena.prefetch(handle, LINE_BYTES);
                    }
                    continue;
                }
                assert!(word.is_branch(), "no vertex: the tree is stale");
                let child = arena.child(handle, word.toward(key.mark(word.offset())));
                arena.prefetch(child, 0);
                arena.prefetch(child, HALF_LINE_BYTES);
                at[usize::from(index)] = child;
                pending[kept] = index;
                kept += 1;
            }
            pending_count = kept;
        }
        at
    }
}
