//! One version of all zones, and the ways to hold one.

use super::view_record::ViewRecord;
use super::zone::Zone;
use crate::hash::StateHash;
use crate::key;
use crate::record::ZoneId;
use crate::vertex::LeafNames;
use store::{Key, Path, Trail, Tree, View};
use wire::name::NameRef;
use wire::number::Rtype;

/// One version of all zones. Everything in a response comes from one of them.
#[derive(Clone, Copy)]
pub struct SetVersion<'a> {
    store: View<'a, LeafNames>,
    root: Tree,
    /// The zones of view 0, which answers queries.
    zones: Tree,
}

impl<'a> SetVersion<'a> {
    pub(super) fn new(store: View<'a, LeafNames>, root: Tree) -> Self {
        let zones = ViewRecord::find(store, root, 0).zones;
        Self { store, root, zones }
    }

    /// The zone that `qname` belongs to: the one with the longest apex at or above it.
    #[must_use]
    pub fn find(&self, qname: NameRef<'_>) -> Option<Zone<'a>> {
        self.find_for(qname, Rtype::ANY)
    }

    /// The zone that answers a query. For DS at an apex it is the zone above, if that is served (RFC 4035 3.1.4.1).
    #[must_use]
    pub fn find_for(&self, qname: NameRef<'_>, qtype: Rtype) -> Option<Zone<'a>> {
        let key = key::of(qname);
        let trail = self.store.trail(self.zones, &key);
        self.find_nearest(qname, qtype, &trail).or_else(|| self.find_key(&key, qtype, &mut Path::new()))
    }

    /// Like [`SetVersion::find_for`], if the trail of the name in the tree of zones ends at a zone that contains the
    /// name. That zone then has the longest common suffix with the name. If it returns `None`, use the full search.
    pub(crate) fn find_nearest(&self, qname: NameRef<'_>, qtype: Rtype, trail: &Trail) -> Option<Zone<'a>> {
        let zone = Zone::from_leaf(self.store, 0, self.store.trail_leaf(trail)?)?;
        let apex = zone.apex();
        let is_of_parent = qtype == Rtype::DS && qname.as_bytes().len() == apex.as_bytes().len();
        (qname.is_at_or_below(apex) && !is_of_parent).then_some(zone)
    }

    /// Like [`SetVersion::find_for`], for a name with a known key.
    pub(crate) fn find_key(&self, qname: &Key, qtype: Rtype, path: &mut Path<'a>) -> Option<Zone<'a>> {
        self.store.locate(self.zones, qname, path);
        let exact = path.exact();
        let above = || path.prefixes().last().copied();
        let leaf = if qtype == Rtype::DS { above().or(exact) } else { exact.or_else(above) };
        leaf.and_then(|leaf| Zone::from_leaf(self.store, 0, leaf))
    }

    /// A zone by its identity.
    #[must_use]
    pub fn zone(&self, id: &ZoneId) -> Option<Zone<'a>> {
        let leaf = self.store.get(self.view_record(id.view).zones, &key::of(id.apex.as_ref()))?;
        Zone::from_leaf(self.store, id.view, leaf)
    }

    /// The stage of a zone, which can be read like a zone.
    #[must_use]
    pub fn staged(&self, id: &ZoneId) -> Option<Zone<'a>> {
        let leaf = self.store.get(self.view_record(id.view).staged, &key::of(id.apex.as_ref()))?;
        Zone::from_leaf(self.store, id.view, leaf)
    }

    /// All zones, by view and apex in canonical order.
    pub fn zones(&self) -> impl Iterator<Item = Zone<'a>> + use<'a> {
        self.zones_of_views(|view| view.zones)
    }

    /// All zones that are staged, by view and apex in canonical order.
    pub fn all_staged(&self) -> impl Iterator<Item = Zone<'a>> + use<'a> {
        self.zones_of_views(|view| view.staged)
    }

    /// Number of zones.
    #[must_use]
    pub fn zone_count(&self) -> usize {
        self.view_records().map(|view| view.zone_count as usize).sum()
    }

    /// The sum of the hashes of all zones, plus those of all stages times a factor. It depends only on the content, so
    /// replicas with the same content have the same hash.
    #[must_use]
    pub fn state_hash(&self) -> StateHash {
        self.view_records().fold(0, |hash, view| hash.wrapping_add(view.hash()))
    }

    /// Reads the trees.
    pub(crate) const fn store(&self) -> View<'a, LeafNames> {
        self.store
    }

    /// Apex to zone, in view 0.
    pub(crate) const fn zones_tree(&self) -> Tree {
        self.zones
    }

    fn zones_of_views(&self, tree: fn(&ViewRecord) -> Tree) -> impl Iterator<Item = Zone<'a>> + use<'a> {
        let store = self.store;
        self.view_records().flat_map(move |record| {
            store.iter(tree(&record)).filter_map(move |leaf| Zone::from_leaf(store, record.view, leaf))
        })
    }

    fn view_records(&self) -> impl Iterator<Item = ViewRecord> + use<'a> {
        self.store.iter(self.root).filter_map(ViewRecord::from_leaf)
    }

    fn view_record(&self, view: u16) -> ViewRecord {
        ViewRecord::find(self.store, self.root, view)
    }
}

/// Reads published versions. Each thread has its own.
pub struct ZoneReader(store::Reader<LeafNames>);

impl ZoneReader {
    pub(super) const fn new(reader: store::Reader<LeafNames>) -> Self {
        Self(reader)
    }

    /// The newest published version. It stays unchanged until the next call. Pin once for a batch of queries.
    pub fn pin(&mut self) -> SetVersion<'_> {
        let pinned = self.0.pin();
        SetVersion::new(pinned.view(), pinned.root())
    }

    /// Call this before blocking. The writer then does not wait for this reader until it pins again.
    pub fn offline(&mut self) {
        self.0.offline();
    }
}

/// A version that is held for long (checkpoints, transfers) while changes continue.
pub struct Frozen(store::Frozen<LeafNames>);

impl Frozen {
    pub(super) const fn new(frozen: store::Frozen<LeafNames>) -> Self {
        Self(frozen)
    }

    /// The number of the version.
    #[must_use]
    pub fn version(&self) -> store::Version {
        self.0.version()
    }

    /// The zones.
    #[must_use]
    pub fn set(&self) -> SetVersion<'_> {
        SetVersion::new(self.0.view(), self.0.root())
    }
}
