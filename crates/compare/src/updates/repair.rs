//! Resets a server to a given zone.

use super::contents::{Contents, record};
use super::message::{BYTES_MAX, Update};
use crate::response::Rr;
use std::collections::{BTreeMap, BTreeSet};
use wire::name::{Name, NameRef};
use wire::number::Rtype;

/// Records in one message.
const RECORDS_MAX: usize = 900;

/// The updates that turn `found` into `target`. The last one has the SOA, whose serial must be newer than that of
/// `found`.
#[must_use]
pub fn updates(apex: &Name, found: &Contents, target: &Contents) -> Vec<Update> {
    let (found_rrsets, target_rrsets) = (rrsets(found), rrsets(target));
    let keys: BTreeSet<_> = found_rrsets.keys().chain(target_rrsets.keys()).copied().collect();
    let changed = keys.into_iter().filter(|key| key.1 != Rtype::SOA && found_rrsets.get(key) != target_rrsets.get(key));
    let mut batches = Batches::new(apex);
    let (mut additions, mut late_deletions) = (Vec::new(), Vec::new());
    for key in changed {
        let added = target_rrsets.get(&key).into_iter().flatten().copied();
        if *key.0 == *apex.as_bytes().to_ascii_lowercase() && key.1 == Rtype::NS {
            // The last NS of the apex cannot be deleted, so new ones come first.
            let old = found_rrsets.get(&key).into_iter().flatten();
            let is_kept = |rr: &Rr| target_rrsets.get(&key).into_iter().flatten().any(|new| new.rdata == rr.rdata);
            late_deletions.extend(old.filter(|rr| !is_kept(rr)).copied());
        } else if let Some(owner) = owner(key.0) {
            batches.update().delete_rrset(&owner, key.1);
        }
        additions.extend(added);
    }
    additions.extend(target.soa());
    for record in additions.into_iter().filter_map(record) {
        batches.update().add(&record.owner, record.rtype, record.ttl, &record.rdata);
    }
    for record in late_deletions.into_iter().filter_map(record) {
        batches.update().delete_record(&record.owner, record.rtype, &record.rdata);
    }
    batches.done
}

type Rrsets<'a> = BTreeMap<(&'a [u8], Rtype), Vec<&'a Rr>>;

fn rrsets(zone: &Contents) -> Rrsets<'_> {
    let mut rrsets = Rrsets::new();
    for rr in &zone.records {
        rrsets.entry((&rr.owner, rr.rtype)).or_default().push(rr);
    }
    rrsets
}

fn owner(bytes: &[u8]) -> Option<Name> {
    NameRef::from_bytes(bytes).ok().map(NameRef::to_name)
}

/// Splits updates that do not fit into one message.
struct Batches<'a> {
    apex: &'a Name,
    done: Vec<Update>,
}

impl<'a> Batches<'a> {
    fn new(apex: &'a Name) -> Self {
        Self { apex, done: vec![Update::new(apex)] }
    }

    fn update(&mut self) -> &mut Update {
        // Leaves room for another record with a long name, a header and short rdata.
        let is_full = self
            .done
            .last()
            .is_none_or(|update| update.steps.len() >= RECORDS_MAX || update.bytes_len() > BYTES_MAX - 2_000);
        if is_full {
            self.done.push(Update::new(self.apex));
        }
        let last = self.done.len() - 1;
        &mut self.done[last]
    }
}
