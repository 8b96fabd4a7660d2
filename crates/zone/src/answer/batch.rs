//! Batches of queries. All names of a batch are looked up in step, so that their waits for memory overlap. The answers
//! then use the positions that were found.

use super::{AnswerContext, PriorLookup, ResponseInfo, answer_found};
use crate::key;
use crate::set::{SetVersion, Zone};
use store::limits::BATCH_MAX;
use store::{Key, Trail, Tree};
use wire::number::Class;
use wire::parse::{FirstQuestion, Request};

/// The buffers of a worker, reused for each batch, so that nothing is allocated.
pub struct Batch {
    lookups: Vec<Lookup>,
    /// The trail of each name in its zone.
    trails: Vec<Trail>,
}

/// The lookup of one name.
struct Lookup {
    /// Whether the name was looked up.
    is_known: bool,
    key: Key,
    /// In the tree of zones.
    zone: Trail,
    /// The names of that zone; empty if there is no zone.
    names: Tree,
}

/// The lookups of a batch in one version of all zones. All answers come from that version.
pub struct PreparedBatch<'b> {
    set: SetVersion<'b>,
    lookups: &'b mut [Lookup],
    trails: &'b [Trail],
}

/// The position of one name.
pub(super) struct FoundName<'f> {
    /// The key of the name.
    pub(super) key: &'f mut Key,
    /// In the tree of zones.
    pub(super) zone: &'f Trail,
    /// In the tree of the names of the zone at the end of that trail.
    pub(super) name: &'f Trail,
}

impl Batch {
    /// Allocates the buffers.
    #[must_use]
    pub fn new() -> Self {
        let lookup = || Lookup { is_known: false, key: Key::new(), zone: Trail::default(), names: Tree::EMPTY };
        Self { lookups: (0..BATCH_MAX).map(|_| lookup()).collect(), trails: vec![Trail::default(); BATCH_MAX] }
    }

    /// Looks up the names of these questions. Call [`PreparedBatch::answer`] next. This is faster from two queries on.
    /// Queries after the first [`BATCH_MAX`] are not looked up in advance.
    pub fn prepare<'b, 'm>(
        &'b mut self,
        set: SetVersion<'b>,
        questions: impl Iterator<Item = Option<FirstQuestion<'m>>>,
    ) -> PreparedBatch<'b> {
        let mut count = 0;
        for (lookup, question) in self.lookups.iter_mut().zip(questions) {
            count += 1;
            let question = question.filter(|question| question.qclass == Class::IN);
            lookup.is_known = question.is_some();
            match question {
                Some(question) => key::write(question.qname, &mut lookup.key),
                None => lookup.key.clear(),
            }
        }
        let (lookups, trails) = (&mut self.lookups[..count], &mut self.trails[..count]);
        let store = set.store();
        let zones = |lookup: &Lookup| if lookup.is_known { set.zones_tree() } else { Tree::EMPTY };
        store.trails(lookups.iter().map(|lookup| (zones(lookup), &lookup.key)), trails);
        for (lookup, trail) in lookups.iter_mut().zip(&*trails) {
            lookup.zone = *trail;
            // The answer checks later whether the name is in that zone.
            lookup.names = Zone::names_at(store, trail);
        }
        store.trails(lookups.iter().map(|lookup| (lookup.names, &lookup.key)), trails);
        PreparedBatch { set, lookups, trails }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl PreparedBatch<'_> {
    /// Like [`super::answer`], for message `index` of the batch, from the version of the batch.
    #[must_use]
    pub fn answer(
        &mut self,
        index: usize,
        request: &Request<'_>,
        context: &AnswerContext<'_>,
        out: &mut [u8],
    ) -> ResponseInfo {
        let prior = find(self.lookups, self.trails, index).map_or(PriorLookup::Nothing, PriorLookup::Name);
        answer_found(self.set, request, context, prior, out)
    }
}

/// The position of a message's name, if it was looked up. It can be taken once, because the answer overwrites the key.
fn find<'f>(lookups: &'f mut [Lookup], trails: &'f [Trail], index: usize) -> Option<FoundName<'f>> {
    let (lookup, name) = (lookups.get_mut(index)?, trails.get(index)?);
    core::mem::take(&mut lookup.is_known).then_some(FoundName { key: &mut lookup.key, zone: &lookup.zone, name })
}
