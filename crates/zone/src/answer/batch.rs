//! Many queries side by side: their names are looked up in step, so that one does not wait for memory after the other,
//! and where each was found is kept for its answer.

use super::{AnswerContext, Answered, PriorLookup, answer_found};
use crate::key;
use crate::set::{SetVersion, Zone};
use store::limits::BATCH_MAX;
use store::{Key, Trail, Tree};
use wire::number::Class;
use wire::parse::{FirstQuestion, Request};

/// What a worker keeps from one batch to the next, so that nothing is allocated.
pub struct Batch {
    lookups: Vec<Lookup>,
    /// Of the names in their zones.
    trails: Vec<Trail>,
}

/// One name.
struct Lookup {
    /// Whether anything was looked up.
    is_known: bool,
    key: Key,
    /// In the tree of zones.
    zone: Trail,
    /// The names of that zone; empty without one.
    names: Tree,
}

/// The names of a batch, found in one version of all zones: for the answers that come from it.
pub struct Prepared<'b> {
    set: SetVersion<'b>,
    lookups: &'b mut [Lookup],
    trails: &'b [Trail],
}

/// Where one name was found.
pub(super) struct Found<'f> {
    /// The key of the name.
    pub(super) key: &'f mut Key,
    /// In the tree of zones.
    pub(super) zone: &'f Trail,
    /// In the tree of the names of the zone at the end of that trail.
    pub(super) name: &'f Trail,
}

impl Batch {
    /// With room for the batches to come.
    #[must_use]
    pub fn new() -> Self {
        let lookup = || Lookup { is_known: false, key: Key::new(), zone: Trail::default(), names: Tree::EMPTY };
        Self { lookups: (0..BATCH_MAX).map(|_| lookup()).collect(), trails: vec![Trail::default(); BATCH_MAX] }
    }

    /// Has the names of messages looked up, whose question was found at a glance; then comes [`Prepared::answer`].
    /// Worth it for two queries and more; those beyond the first 64 are left to themselves.
    pub fn prepare<'b, 'm>(
        &'b mut self,
        set: SetVersion<'b>,
        questions: impl Iterator<Item = Option<FirstQuestion<'m>>>,
    ) -> Prepared<'b> {
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
            // Whether the name is in that zone, its answer finds out.
            lookup.names = Zone::names_at(store, trail);
        }
        store.trails(lookups.iter().map(|lookup| (lookup.names, &lookup.key)), trails);
        Prepared { set, lookups, trails }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Prepared<'_> {
    /// As [`super::answer`], from the version of the batch, for the message that was the `index`th of it.
    #[must_use]
    pub fn answer(
        &mut self,
        index: usize,
        request: &Request<'_>,
        context: &AnswerContext<'_>,
        out: &mut [u8],
    ) -> Answered {
        let prior = find(self.lookups, self.trails, index).map_or(PriorLookup::Nothing, PriorLookup::Name);
        answer_found(self.set, request, context, prior, out)
    }
}

/// Where the name of a message was found, if it was looked for. The key is spent by that.
fn find<'f>(lookups: &'f mut [Lookup], trails: &'f [Trail], index: usize) -> Option<Found<'f>> {
    let (lookup, name) = (lookups.get_mut(index)?, trails.get(index)?);
    core::mem::take(&mut lookup.is_known).then_some(Found { key: &mut lookup.key, zone: &lookup.zone, name })
}
