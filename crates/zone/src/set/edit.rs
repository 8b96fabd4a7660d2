//! Creates the next version.

use super::change::{self, Base, Effect, Import};
use super::error::{ApplyError, ImportError, RecordFault, ZoneError};
use super::version::SetVersion;
use super::view_record::ViewRecord;
use super::zone_record::ZoneRecord;
use crate::hash::RecordHasher;
use crate::key;
use crate::record::{Changeset, RecordRef, ZoneId};
use crate::vertex::leaf::write_view_key;
use crate::vertex::{LeafNames, Vertex};
use store::{Full, Key, Store, Tree, Version};

/// Changes on top of the head, until [`Edit::seal`] makes them the new head.
///
/// Each operation is done completely or not at all, except with [`Full`]: then the whole `Edit` must be dropped. A
/// dropped `Edit` leaves the head unchanged.
#[must_use = "changes are lost without `seal`"]
pub struct Edit<'s> {
    store: &'s mut Store<LeafNames>,
    root: Tree,
    sealed: bool,
}

/// One of the two zone trees of a view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ZoneTree {
    Served,
    Staged,
}

impl<'s> Edit<'s> {
    pub(super) fn new(store: &'s mut Store<LeafNames>) -> Self {
        let root = store.head();
        Self { store, root, sealed: false }
    }

    /// Creates a zone without records. It is not served before it has an SOA.
    ///
    /// # Errors
    /// [`ZoneError::Exists`], [`ZoneError::Full`].
    pub fn create_zone(&mut self, id: &ZoneId) -> Result<(), ZoneError> {
        if self.zone(ZoneTree::Served, id).is_some() {
            return Err(ZoneError::Exists);
        }
        let empty = ZoneRecord::empty(hasher(id).zone());
        Ok(self.put_zone(ZoneTree::Served, id, empty, &[])?)
    }

    /// Removes a zone and its records.
    ///
    /// # Errors
    /// [`ZoneError::Unknown`], [`ZoneError::Full`].
    pub fn remove_zone(&mut self, id: &ZoneId) -> Result<(), ZoneError> {
        let zone = self.remove(ZoneTree::Served, id)?;
        self.drop_trees(zone);
        Ok(())
    }

    /// Applies a difference to a zone.
    ///
    /// # Errors
    /// [`ApplyError`] tells what does not fit. The zone is unchanged.
    pub fn apply(&mut self, id: &ZoneId, changeset: &Changeset) -> Result<(), ApplyError> {
        let record = self.zone(ZoneTree::Served, id).ok_or(ApplyError::Unknown)?;
        if record.serial != changeset.serial_from {
            return Err(ApplyError::Base { expected: changeset.serial_from, found: record.serial });
        }
        let hasher = hasher(id);
        let base = Base { store: self.store.view(), apex: id.apex.as_ref(), record, hasher: &hasher };
        let effect = change::effect_of(&base, changeset)?;

        let apex_key = key::of(id.apex.as_ref());
        let apex_leaf = effect.leaves.iter().find(|change| !change.hashed && change.owner == apex_key);
        let apex = match apex_leaf {
            Some(change) => change.leaf.as_deref().map(Vertex::from_leaf),
            None => base.vertex(&apex_key, false),
        };
        let mut after = record;
        let form = after.follow_apex(apex).map_err(ApplyError::Content)?;
        match after.serial {
            Some(serial) if serial == changeset.serial_to => {}
            found => {
                let found = found.unwrap_or(changeset.serial_to);
                return Err(ApplyError::Target { expected: changeset.serial_to, found });
            }
        }
        self.put_effect(&mut after, effect)?;
        Ok(self.put_zone(ZoneTree::Served, id, after, &form)?)
    }

    /// Adds records to the stage of a zone. The stage is created if there is none, and the zone need not exist. It is
    /// fastest if the records of an owner are adjacent.
    ///
    /// Duplicates are ignored (RFC 2181 5). If the TTLs of an RRset differ, the lowest one is used (RFC 2181 5.2).
    ///
    /// # Errors
    /// [`ImportError`] names the record at fault.
    pub fn add_records<'r, R: Into<RecordRef<'r>>>(
        &mut self,
        id: &ZoneId,
        records: impl IntoIterator<Item = R>,
    ) -> Result<(), ImportError> {
        let records: Vec<RecordRef<'r>> = records.into_iter().map(Into::into).collect();
        let apex = id.apex.as_ref();
        if let Some(index) = records.iter().position(|record| !record.owner.is_at_or_below(apex)) {
            return Err(ImportError::Record { index, fault: RecordFault::OutOfZone });
        }
        let hasher = hasher(id);
        let import = Import { apex, hasher: &hasher };
        let mut record = self.zone(ZoneTree::Staged, id).unwrap_or(ZoneRecord::empty(hasher.zone()));
        let (mut key, mut leaf) = (key::of(apex), Vec::new());
        let apex_len = key.len();
        let live_before = self.store.live_bytes();
        let (mut done, mut result) = (0, Ok(()));
        let same_leaf =
            |a: &RecordRef<'_>, b: &RecordRef<'_>| a.owner == b.owner && change::is_hashed(*a) == change::is_hashed(*b);
        for of_owner in records.chunk_by(same_leaf) {
            key::write_in_zone(of_owner[0].owner, apex, apex_len, &mut key);
            let tree = if change::is_hashed(of_owner[0]) { &mut record.hashed } else { &mut record.names };
            let mut effect = Effect::default();
            let amended = self.store.amend(*tree, &key, &mut leaf, |existing, leaf| {
                let existing = existing.map(Vertex::from_leaf);
                let imported = import.owner(existing, of_owner, &mut effect, leaf);
                imported.map_err(|fault| ImportError::Record { index: done, fault })
            });
            match amended {
                Ok(changed) => *tree = changed,
                Err(ImportError::Full(full)) => return Err(full.into()),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
            record.hash = record.hash.wrapping_add(effect.hash);
            record.record_count = record.record_count.wrapping_add(effect.record_count);
            done += of_owner.len();
        }
        record.grow(live_before, self.store.live_bytes());
        // The earlier trees of the stage are gone, so this is done after an error too.
        self.put_zone(ZoneTree::Staged, id, record, &[])?;
        result
    }

    /// Replaces the content of a zone by its stage. The zone need not exist before.
    ///
    /// # Errors
    /// [`ZoneError::Unknown`] if nothing is staged. [`ZoneError::Content`] if the stage is not a valid zone; it stays
    /// staged.
    pub fn commit_stage(&mut self, id: &ZoneId) -> Result<(), ZoneError> {
        let mut staged = self.zone(ZoneTree::Staged, id).ok_or(ZoneError::Unknown)?;
        let apex = self.store.view().get(staged.names, &key::of(id.apex.as_ref())).map(Vertex::from_leaf);
        let form = staged.follow_apex(apex).map_err(ZoneError::Content)?;
        self.remove(ZoneTree::Staged, id)?;
        match self.remove(ZoneTree::Served, id) {
            Ok(replaced) => self.drop_trees(replaced),
            Err(ZoneError::Unknown) => {}
            Err(error) => return Err(error),
        }
        Ok(self.put_zone(ZoneTree::Served, id, staged, &form)?)
    }

    /// Drops the stage of a zone.
    ///
    /// # Errors
    /// [`ZoneError::Unknown`] if nothing is staged.
    pub fn abandon_stage(&mut self, id: &ZoneId) -> Result<(), ZoneError> {
        let staged = self.remove(ZoneTree::Staged, id)?;
        self.drop_trees(staged);
        Ok(())
    }

    /// Closes the version and makes it the head. Readers see it once it is published.
    pub fn seal(mut self) -> Version {
        self.sealed = true;
        self.store.seal(self.root)
    }

    /// The zones with the changes so far.
    #[must_use]
    pub fn set(&self) -> SetVersion<'_> {
        SetVersion::new(self.store.view(), self.root)
    }

    /// Puts the changed leaves into the trees of a zone.
    fn put_effect(&mut self, record: &mut ZoneRecord, effect: Effect) -> Result<(), Full> {
        let live_before = self.store.live_bytes();
        for change in effect.leaves {
            let tree = if change.hashed { &mut record.hashed } else { &mut record.names };
            *tree = match &change.leaf {
                Some(leaf) => self.store.put(*tree, leaf)?,
                None => self.store.remove(*tree, &change.owner)?,
            };
        }
        record.grow(live_before, self.store.live_bytes());
        record.hash = record.hash.wrapping_add(effect.hash);
        record.record_count = record.record_count.wrapping_add(effect.record_count);
        Ok(())
    }

    fn drop_trees(&mut self, zone: ZoneRecord) {
        // The bytes are known only for both trees together, so they are passed with one of them.
        let (names_bytes, hashed_bytes) = if zone.names.is_empty() { (0, zone.bytes) } else { (zone.bytes, 0) };
        self.store.drop_tree(zone.names, names_bytes);
        self.store.drop_tree(zone.hashed, hashed_bytes);
    }

    fn view_record(&self, view: u16) -> ViewRecord {
        ViewRecord::find(self.store.view(), self.root, view)
    }

    fn put_view_record(&mut self, record: ViewRecord) -> Result<(), Full> {
        self.root = if record == ViewRecord::empty(record.view) {
            let mut key = Key::new();
            write_view_key(record.view, &mut key);
            self.store.remove(self.root, &key)?
        } else {
            self.store.put(self.root, &record.to_leaf())?
        };
        Ok(())
    }

    fn zone(&self, tree_kind: ZoneTree, id: &ZoneId) -> Option<ZoneRecord> {
        let tree = *self.view_record(id.view).tree(tree_kind);
        let leaf = self.store.view().get(tree, &key::of(id.apex.as_ref()))?;
        ZoneRecord::from_leaf(leaf).map(|(_, record, _)| record)
    }

    /// Puts a zone into one of the two zone trees, with the form of its SOA. Replaces an existing one.
    fn put_zone(&mut self, tree_kind: ZoneTree, id: &ZoneId, zone: ZoneRecord, form: &[u8]) -> Result<(), Full> {
        let before = self.zone(tree_kind, id);
        let mut view = self.view_record(id.view);
        let tree = view.tree(tree_kind);
        *tree = self.store.put(*tree, &zone.to_leaf(canonical(&id.apex).as_ref(), form))?;
        view.count(tree_kind, before, Some(zone));
        self.put_view_record(view)
    }

    /// Takes a zone out of one of the two zone trees. The caller gets its trees.
    fn remove(&mut self, tree_kind: ZoneTree, id: &ZoneId) -> Result<ZoneRecord, ZoneError> {
        let zone = self.zone(tree_kind, id).ok_or(ZoneError::Unknown)?;
        let mut view = self.view_record(id.view);
        let tree = view.tree(tree_kind);
        *tree = self.store.remove(*tree, &key::of(id.apex.as_ref()))?;
        view.count(tree_kind, Some(zone), None);
        self.put_view_record(view)?;
        Ok(zone)
    }
}

impl Drop for Edit<'_> {
    fn drop(&mut self) {
        if !self.sealed {
            self.store.abandon();
        }
    }
}

impl ViewRecord {
    const fn tree(&mut self, tree_kind: ZoneTree) -> &mut Tree {
        match tree_kind {
            ZoneTree::Served => &mut self.zones,
            ZoneTree::Staged => &mut self.staged,
        }
    }

    /// Updates the count and the sum of hashes when a zone replaces another.
    fn count(&mut self, tree_kind: ZoneTree, before: Option<ZoneRecord>, after: Option<ZoneRecord>) {
        let hash = |zone: Option<ZoneRecord>| zone.map_or(0, |zone| zone.hash);
        let change = hash(after).wrapping_sub(hash(before));
        match tree_kind {
            ZoneTree::Served => {
                self.zones_hash = self.zones_hash.wrapping_add(change);
                self.zone_count = self.zone_count + u32::from(after.is_some()) - u32::from(before.is_some());
            }
            ZoneTree::Staged => self.staged_hash = self.staged_hash.wrapping_add(change),
        }
    }
}

fn hasher(id: &ZoneId) -> RecordHasher {
    RecordHasher::new(id.view, id.apex.as_ref())
}

fn canonical(apex: &wire::name::Name) -> wire::name::Name {
    apex.as_ref().to_canonical()
}
