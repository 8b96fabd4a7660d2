//! The owners of a zone that one update touches, before and after.
//!
//! Each owner is read from the zone once, when it is first named. An operation takes logarithmic time in the owner's
//! size, or time proportional to the records that it removes. So a thousand steps at one owner cost no more than at
//! many owners.

use super::limits::{
    CHANGE_BYTES_MAX, OWNER_BYTES_MAX, OWNER_RRSETS_MAX, RRSET_BYTES_MAX, RRSET_RECORD_OVERHEAD, RRSET_RECORDS_MAX,
    UPDATE_TOUCHED_BYTES_MAX,
};
use policy::ZoneLimits;
use policy::limits::UPDATE_TOUCHED_RECORDS_MAX;
use policy::{Permit, ZoneRead};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use wire::name::Name;
use wire::number::Rtype;
use wire::rdata::rdata_lowercase;
use zone::Record;
use zone::set::RecordRef;

/// The limit that an update would exceed. The update is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LimitReached {
    /// [`UPDATE_TOUCHED_RECORDS_MAX`]
    TouchedRecords,
    /// [`UPDATE_TOUCHED_BYTES_MAX`]
    TouchedBytes,
    /// [`RRSET_RECORDS_MAX`]
    RrsetRecords,
    /// [`RRSET_BYTES_MAX`]
    RrsetBytes,
    /// [`OWNER_RRSETS_MAX`]
    OwnerRrsets,
    /// [`OWNER_BYTES_MAX`]
    OwnerBytes,
    /// [`CHANGE_BYTES_MAX`]
    ChangeBytes,
    /// Records of a type at one owner that a rule allows.
    GrantedRrsetRecords,
    /// Records at one owner that the limit of a key allows.
    KeyNameRecords,
    /// Records in the zone that the limit of a key allows.
    KeyZoneRecords,
    /// Bytes by which a key may enlarge a zone.
    KeyGrowth,
    /// See [`ZoneLimits::ttl_max_s`].
    ZoneTtl,
    /// See [`ZoneLimits::rrset_records_max`].
    ZoneRrsetRecords,
    /// See [`ZoneLimits::records_max`].
    ZoneRecords,
}

impl LimitReached {
    /// A stable label for metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TouchedRecords => "update_touched_records",
            Self::TouchedBytes => "update_touched_bytes",
            Self::RrsetRecords => "rrset_records",
            Self::RrsetBytes => "rrset_bytes",
            Self::OwnerRrsets => "owner_rrsets",
            Self::OwnerBytes => "owner_bytes",
            Self::ChangeBytes => "change_bytes",
            Self::GrantedRrsetRecords => "granted_rrset_records",
            Self::KeyNameRecords => "key_name_records",
            Self::KeyZoneRecords => "key_zone_records",
            Self::KeyGrowth => "key_growth",
            Self::ZoneTtl => "zone_ttl",
            Self::ZoneRrsetRecords => "zone_rrset_records",
            Self::ZoneRecords => "zone_records",
        }
    }

    /// The limit in a few words, for the client.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TouchedRecords => "the update concerns more than 100000 records",
            Self::TouchedBytes => "the update concerns more than 16 MiB of records",
            Self::RrsetRecords => "an RRset has at most 4000 records",
            Self::RrsetBytes => "an RRset has at most 64000 bytes",
            Self::OwnerRrsets => "a name has at most 100 types",
            Self::OwnerBytes => "a name has at most 256 KiB of records",
            Self::ChangeBytes => "an update changes at most 4 MiB of records",
            Self::GrantedRrsetRecords => "the rule grants fewer records of this type at a name",
            Self::KeyNameRecords => "the limit of the key on records at a name (policy: limit name-records)",
            Self::KeyZoneRecords => "the limit of the key on records in the zone (policy: limit zone-records)",
            Self::KeyGrowth => "the key has made the zone larger by zones.key_growth_bytes_max: delete, or raise it",
            Self::ZoneTtl => "the TTL is longer than the zone allows (zone set --ttl-max)",
            Self::ZoneRrsetRecords => {
                "the zone allows fewer records of a type at a name (zone set --rrset-records-max)"
            }
            Self::ZoneRecords => "the zone allows fewer records (zone set --records-max)",
        }
    }

    /// All limits, in order.
    pub const ALL: [Self; 14] = [
        Self::TouchedRecords,
        Self::TouchedBytes,
        Self::RrsetRecords,
        Self::RrsetBytes,
        Self::OwnerRrsets,
        Self::OwnerBytes,
        Self::ChangeBytes,
        Self::GrantedRrsetRecords,
        Self::KeyNameRecords,
        Self::KeyZoneRecords,
        Self::KeyGrowth,
        Self::ZoneTtl,
        Self::ZoneRrsetRecords,
        Self::ZoneRecords,
    ];
}

/// Rdata of one RRset: the form for comparison (names in lower case according to RFC 4034 6.2), and the stored form.
type Rdatas = BTreeMap<Arc<[u8]>, Arc<[u8]>>;

/// The form of rdata in which equal records have equal bytes (RFC 2136 1.1.1, 1.1.2).
pub(super) fn comparable(rtype: Rtype, rdata: &[u8]) -> Arc<[u8]> {
    let mut lower = rdata.to_vec();
    rdata_lowercase(rtype, &mut lower);
    lower.into()
}

/// The type, and for RRSIGs also the covered type, because RRSIGs form one RRset per covered type (RFC 4034 3).
/// Clients cannot write RRSIGs, but they can delete an owner that has some.
pub(super) type RrsetKey = (Rtype, Rtype);

fn rrset_key(rtype: Rtype, rdata: &[u8]) -> RrsetKey {
    match (rtype, rdata.first_chunk()) {
        (Rtype::RRSIG, Some(&covered)) => (rtype, Rtype(u16::from_be_bytes(covered))),
        _ => (rtype, Rtype(0)),
    }
}

/// One RRset before and after.
#[derive(Default)]
pub(super) struct WorkingRrset {
    rtype: Rtype,
    ttl_before: u32,
    before: Rdatas,
    ttl: u32,
    now: Rdatas,
}

impl WorkingRrset {
    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// The records as stored.
    pub(super) fn rdatas(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.now.values()
    }

    /// Adds a record, or sets its TTL if it exists. A record that is in the zone, or was before this update, keeps
    /// its stored form.
    pub(super) fn put(&mut self, ttl: u32, rdata: &[u8]) {
        self.ttl = ttl;
        if let Entry::Vacant(vacant) = self.now.entry(comparable(self.rtype, rdata)) {
            let stored = match self.before.get(vacant.key()) {
                Some(stored) => Arc::clone(stored),
                None if **vacant.key() == *rdata => Arc::clone(vacant.key()),
                None => rdata.into(),
            };
            vacant.insert(stored);
        }
    }

    pub(super) fn remove(&mut self, rdata: &[u8]) {
        self.now.remove(&comparable(self.rtype, rdata));
    }

    pub(super) fn contains(&self, rdata: &[u8]) -> bool {
        self.now.contains_key(&comparable(self.rtype, rdata))
    }

    pub(super) fn len(&self) -> usize {
        self.now.len()
    }

    pub(super) fn clear(&mut self) {
        self.now.clear();
    }

    /// Replaces all records by this one; the TTL stays.
    pub(super) fn replace(&mut self, rdata: &[u8]) {
        self.now.clear();
        self.put(self.ttl, rdata);
    }

    /// Removes the records whose comparable rdata starts with `prefix`.
    pub(super) fn remove_prefix(&mut self, prefix: &[u8]) {
        let range = self.now.range::<[u8], _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        let found: Vec<_> = range.map(|(key, _)| key.clone()).take_while(|key| key.starts_with(prefix)).collect();
        for key in found {
            self.now.remove(&key);
        }
    }

    /// A new TTL changes every record of the RRset (RFC 2181 5.2).
    fn is_ttl_changed(&self) -> bool {
        self.ttl != self.ttl_before && !self.before.is_empty() && !self.now.is_empty()
    }

    fn is_changed(&self) -> bool {
        self.is_ttl_changed() || !self.now.keys().eq(self.before.keys())
    }

    fn bytes(rdatas: &Rdatas) -> usize {
        rdatas.keys().map(|rdata| rdata.len() + RRSET_RECORD_OVERHEAD).sum()
    }

    /// Refuses an RRset that newly exceeds a limit of the zone by its number of records or its TTL.
    fn check_zone(&self, limits: ZoneLimits) -> Result<(), LimitReached> {
        let ZoneLimits { ttl_max_s, rrset_records_max, .. } = limits;
        let has_grown = self.now.len() > self.before.len();
        if rrset_records_max > 0 && has_grown && self.now.len() > rrset_records_max as usize {
            return Err(LimitReached::ZoneRrsetRecords);
        }
        let has_new_ttl = self.before.is_empty() || self.ttl != self.ttl_before;
        if ttl_max_s > 0 && !self.now.is_empty() && has_new_ttl && self.ttl > ttl_max_s {
            return Err(LimitReached::ZoneTtl);
        }
        Ok(())
    }

    /// Returns a limit that the RRset newly exceeds. An RRset that was larger before may stay or shrink.
    fn check(&self) -> Result<(), LimitReached> {
        if self.now.len() > self.before.len().max(RRSET_RECORDS_MAX) {
            return Err(LimitReached::RrsetRecords);
        }
        // Counted only if it can exceed the limit: most RRsets are small.
        let bytes = Self::bytes(&self.now);
        if bytes > RRSET_BYTES_MAX && bytes > Self::bytes(&self.before) {
            return Err(LimitReached::RrsetBytes);
        }
        Ok(())
    }
}

/// One owner: its name as first written, and its RRsets.
pub(super) struct Owner {
    name: Name,
    rrsets: BTreeMap<RrsetKey, WorkingRrset>,
    /// Number of the zone's RRsets.
    rrsets_before: usize,
    /// Whether `name` comes from a record, and not only from an earlier prerequisite or deletion.
    has_writer: bool,
}

impl Owner {
    /// The types of RRsets with records.
    pub(super) fn rtypes(&self) -> impl Iterator<Item = Rtype> {
        self.rrsets.iter().filter(|(_, rrset)| !rrset.is_empty()).map(|(&(rtype, _), _)| rtype)
    }

    /// Whether the records of a type are exactly these.
    pub(super) fn equals(&self, rtype: Rtype, comparable: &BTreeSet<Arc<[u8]>>) -> bool {
        let mut of_rtype = self.rrsets.range((rtype, Rtype(0))..=(rtype, Rtype(u16::MAX)));
        let count: usize = of_rtype.clone().map(|(_, rrset)| rrset.len()).sum();
        count == comparable.len() && of_rtype.all(|(_, rrset)| rrset.now.keys().all(|key| comparable.contains(key)))
    }

    /// All RRsets by type, including empty ones.
    pub(super) fn rrsets_mut(&mut self) -> impl Iterator<Item = (Rtype, &mut WorkingRrset)> {
        self.rrsets.iter_mut().map(|(&(rtype, _), rrset)| (rtype, rrset))
    }

    /// Returns a limit that the owner newly exceeds. An owner that was larger before may stay or shrink.
    fn check(&self) -> Result<(), LimitReached> {
        self.rrsets.values().try_for_each(WorkingRrset::check)?;
        let rrsets = self.rtypes().count();
        if rrsets > self.rrsets_before.max(OWNER_RRSETS_MAX) {
            return Err(LimitReached::OwnerRrsets);
        }
        let bytes = |of: fn(&WorkingRrset) -> &Rdatas| -> usize {
            self.rrsets.values().map(|rrset| WorkingRrset::bytes(of(rrset))).sum()
        };
        let now = bytes(|rrset| &rrset.now);
        if now > OWNER_BYTES_MAX && now > bytes(|rrset| &rrset.before) {
            return Err(LimitReached::OwnerBytes);
        }
        Ok(())
    }
}

/// Deleted and added records, in canonical order of owners, then by type and rdata.
#[derive(Default)]
pub(super) struct Difference {
    pub(super) deleted: Vec<Record>,
    pub(super) added: Vec<Record>,
    bytes: usize,
}

impl Difference {
    fn collect(&mut self, owner: &Name, rrset: &WorkingRrset) -> Result<(), LimitReached> {
        let all = rrset.is_ttl_changed();
        let mut record = |ttl: u32, rdata: &Arc<[u8]>| {
            self.bytes += rdata.len();
            if self.bytes > CHANGE_BYTES_MAX {
                return Err(LimitReached::ChangeBytes);
            }
            Ok(Record { owner: owner.clone(), rtype: rrset.rtype, ttl, rdata: (**rdata).into() })
        };
        for (_, rdata) in rrset.before.iter().filter(|(key, _)| all || !rrset.now.contains_key(*key)) {
            self.deleted.push(record(rrset.ttl_before, rdata)?);
        }
        for (_, rdata) in rrset.now.iter().filter(|(key, _)| all || !rrset.before.contains_key(*key)) {
            self.added.push(record(rrset.ttl, rdata)?);
        }
        Ok(())
    }
}

/// All owners named by the update so far.
pub(super) struct Working<'z, Z> {
    zone: &'z Z,
    /// By name in lower case.
    owners: BTreeMap<Box<[u8]>, Owner>,
    touched: &'z mut Touched,
}

/// What was read from the zone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Touched {
    /// Number of records.
    pub(super) records: usize,
    /// Bytes of their rdata.
    pub(super) bytes: usize,
}

impl Touched {
    fn count(&mut self, record: &RecordRef<'_>) -> Result<(), LimitReached> {
        self.records += 1;
        self.bytes += record.rdata.len();
        match () {
            () if self.records > UPDATE_TOUCHED_RECORDS_MAX => Err(LimitReached::TouchedRecords),
            () if self.bytes > UPDATE_TOUCHED_BYTES_MAX => Err(LimitReached::TouchedBytes),
            () => Ok(()),
        }
    }
}

impl<'z, Z: ZoneRead> Working<'z, Z> {
    pub(super) const fn new(zone: &'z Z, touched: &'z mut Touched) -> Self {
        Self { zone, owners: BTreeMap::new(), touched }
    }

    /// An owner, read from the zone when first named.
    pub(super) fn owner(&mut self, name: &Name) -> Result<&mut Owner, LimitReached> {
        let owner = match self.owners.entry(name.as_bytes().to_ascii_lowercase().into()) {
            Entry::Occupied(occupied) => occupied.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(read_owner(self.zone, name, self.touched)?),
        };
        Ok(owner)
    }

    /// One RRset of any type but RRSIG; empty if there is none.
    pub(super) fn rrset(&mut self, name: &Name, rtype: Rtype) -> Result<&mut WorkingRrset, LimitReached> {
        let rrsets = &mut self.owner(name)?.rrsets;
        Ok(rrsets.entry((rtype, Rtype(0))).or_insert_with(|| WorkingRrset { rtype, ..WorkingRrset::default() }))
    }

    /// One RRset that gets a record. A new owner takes the case of its name from here.
    pub(super) fn rrset_to_write(&mut self, name: &Name, rtype: Rtype) -> Result<&mut WorkingRrset, LimitReached> {
        let owner = self.owner(name)?;
        if !owner.has_writer {
            owner.name = name.clone();
            owner.has_writer = true;
        }
        self.rrset(name, rtype)
    }

    /// Whether there is any difference.
    pub(super) fn is_changed(&self) -> bool {
        self.owners.values().flat_map(|owner| owner.rrsets.values()).any(WorkingRrset::is_changed)
    }

    /// Returns a limit of the requestor that the update newly exceeds. What others made larger may stay or shrink.
    pub(super) fn check_permit(&self, permit: &Permit) -> Result<(), LimitReached> {
        if planted!(QuotaNotChecked) {
            return Ok(());
        }
        let (mut zone_before, mut zone_now) = (0, 0);
        for owner in self.owners.values() {
            let (mut before, mut now) = (0, 0);
            for rrset in owner.rrsets.values() {
                before += rrset.before.len();
                now += rrset.now.len();
                rrset.check_zone(permit.zone_limits())?;
                let has_grown = rrset.now.len() > rrset.before.len();
                if has_grown
                    && permit.rrset_records_max(&owner.name, rrset.rtype).is_some_and(|max| rrset.now.len() > max)
                {
                    return Err(LimitReached::GrantedRrsetRecords);
                }
            }
            if now > before && permit.name_records_max().is_some_and(|max| now > max) {
                return Err(LimitReached::KeyNameRecords);
            }
            zone_before += before as u64;
            zone_now += now as u64;
        }
        let zone_records = self.zone.record_count().saturating_sub(zone_before).saturating_add(zone_now);
        if zone_now > zone_before && permit.zone_records_max().is_some_and(|max| zone_records > max) {
            return Err(LimitReached::KeyZoneRecords);
        }
        let records_max = u64::from(permit.zone_limits().records_max);
        if zone_now > zone_before && records_max > 0 && zone_records > records_max {
            return Err(LimitReached::ZoneRecords);
        }
        Ok(())
    }

    /// The net difference of the zone.
    pub(super) fn difference(&self) -> Result<Difference, LimitReached> {
        let mut owners: Vec<_> = self.owners.values().collect();
        owners.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut difference = Difference::default();
        for owner in owners {
            owner.check()?;
            for rrset in owner.rrsets.values() {
                difference.collect(&owner.name, rrset)?;
            }
        }
        Ok(difference)
    }
}

/// Reads an owner with all its records; `touched` counts over the whole update.
fn read_owner(zone: &impl ZoneRead, name: &Name, touched: &mut Touched) -> Result<Owner, LimitReached> {
    let mut owner = Owner { name: name.clone(), rrsets: BTreeMap::new(), rrsets_before: 0, has_writer: false };
    let mut result = Ok(());
    zone.records_at(name.as_ref(), &mut |record| {
        result = touched.count(&record);
        if result.is_err() {
            return ControlFlow::Break(());
        }
        if owner.rrsets.is_empty() {
            owner.name = record.owner.to_name();
        }
        let RecordRef { rtype, ttl, rdata, .. } = record;
        let rrset = owner.rrsets.entry(rrset_key(rtype, rdata)).or_insert_with(|| WorkingRrset {
            rtype,
            ttl,
            ttl_before: ttl,
            ..WorkingRrset::default()
        });
        let key = comparable(rtype, rdata);
        let stored = if *key == *rdata { Arc::clone(&key) } else { rdata.into() };
        rrset.before.insert(key, stored);
        ControlFlow::Continue(())
    });
    result?;
    for rrset in owner.rrsets.values_mut() {
        rrset.now = rrset.before.clone();
    }
    owner.rrsets_before = owner.rrsets.len();
    owner.has_writer = owner.rrsets_before > 0;
    Ok(owner)
}
