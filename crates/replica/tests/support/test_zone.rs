//! A zone as a list of records, on which updates are evaluated and to which their changes are applied.

use policy::ZoneRead;
use std::ops::ControlFlow;
use wire::name::{Name, NameRef};
use wire::number::{Rtype, Serial};
use wire::rdata::rdata_eq;
use zone::set::RecordRef;
use zone::{Changeset, Record};

#[derive(Clone, Debug)]
pub(crate) struct TestZone {
    pub(crate) apex: Name,
    pub(crate) records: Vec<Record>,
}

impl ZoneRead for TestZone {
    fn apex(&self) -> NameRef<'_> {
        self.apex.as_ref()
    }

    fn is_presigned(&self) -> bool {
        self.records.iter().any(|record| record.owner == self.apex && record.rtype == Rtype::DNSKEY)
    }

    fn record_count(&self) -> u64 {
        self.records.len() as u64
    }

    fn records_at(&self, owner: NameRef<'_>, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) {
        for record in self.records.iter().filter(|record| record.owner.as_ref() == owner) {
            let Record { owner, rtype, ttl, rdata } = record;
            let stored = RecordRef { owner: owner.as_ref(), rtype: *rtype, ttl: *ttl, rdata };
            if visit(stored).is_break() {
                return;
            }
        }
    }
}

/// Whether two records are the same (RFC 2136 1.1.1): the TTL does not count.
pub(crate) fn is_same(a: &Record, b: &Record) -> bool {
    a.owner == b.owner && a.rtype == b.rtype && rdata_eq(a.rtype, &a.rdata, &b.rdata)
}

impl TestZone {
    pub(crate) fn serial(&self) -> Serial {
        let soas: Vec<_> = self.records.iter().filter(|record| record.rtype == Rtype::SOA).collect();
        assert_eq!(soas.len(), 1, "SOA records of {}", self.apex);
        catamaran_replica::update::serial::of_soa(&soas[0].rdata).unwrap()
    }

    /// Applies a change, which must fit exactly.
    pub(crate) fn apply(&mut self, changeset: &Changeset) {
        assert_eq!(changeset.serial_from, Some(self.serial()));
        for deleted in &changeset.deleted {
            // To the byte, because a replica that applies it searches for its own record.
            let at = self.records.iter().position(|record| record == deleted);
            self.records.remove(at.unwrap_or_else(|| panic!("{deleted:?} is not in the zone")));
        }
        for added in &changeset.added {
            assert!(!self.records.iter().any(|record| is_same(record, added)), "{added:?} is in the zone already");
            self.records.push(added.clone());
        }
        assert_eq!(changeset.serial_to, self.serial());
        assert!(changeset.serial_to.is_newer_than(changeset.serial_from.unwrap()), "{changeset:?}");
        let (deleted, added) = (&changeset.deleted[0], &changeset.added[0]);
        assert_eq!((deleted.rtype, added.rtype), (Rtype::SOA, Rtype::SOA), "each half starts with its SOA");
        for record in &self.records {
            let mut others = self.records.iter().filter(|other| other.owner == record.owner);
            assert!(
                others
                    .all(|other| other.rtype != record.rtype || other.ttl == record.ttl || other.rtype == Rtype::RRSIG),
                "{record:?}: one RRset, several TTLs"
            );
        }
    }

    /// The records in an order that does not depend on their insertion.
    pub(crate) fn sorted(&self) -> Vec<(Name, Rtype, u32, Vec<u8>)> {
        let mut records: Vec<_> = self
            .records
            .iter()
            .map(|record| (record.owner.clone(), record.rtype, record.ttl, record.rdata.to_vec()))
            .collect();
        records.sort();
        records
    }
}
