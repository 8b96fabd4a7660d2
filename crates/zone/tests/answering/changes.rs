//! Changes of zones against a plain model: what fits, what is left as it was, and that the hash depends on content
//! alone.

use crate::common::{add_zone, record, set_of, small_set, soa, zone_id};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use wire::number::{Rtype, Serial};
use zone::record::{Changeset, Record};
use zone::set::{ApplyError, ContentFault, ImportError, RecordFault, ZoneError, ZoneSet};

const APEX: &str = "example.test.";

/// What one owner has of one type; RRSIGs count by the type that they cover.
type RrsetKey = (wire::name::Name, Rtype, Option<[u8; 2]>);
/// TTL and rdatas, as compared.
type Model = BTreeMap<RrsetKey, (u32, BTreeSet<Vec<u8>>)>;

fn rrset_key(record: &Record) -> RrsetKey {
    let covered = (record.rtype == Rtype::RRSIG).then(|| [record.rdata[0], record.rdata[1]]);
    (record.owner.clone(), record.rtype, covered)
}

fn compared(record: &Record) -> Vec<u8> {
    let mut rdata = record.rdata.to_vec();
    wire::rdata::rdata_lowercase(record.rtype, &mut rdata);
    rdata
}

fn delete(model: &mut Model, record: &Record) -> Result<(), RecordFault> {
    let (ttl, rdatas) = model.get_mut(&rrset_key(record)).ok_or(RecordFault::Missing)?;
    if !rdatas.contains(&compared(record)) {
        return Err(RecordFault::Missing);
    }
    if *ttl != record.ttl {
        return Err(RecordFault::Ttl);
    }
    rdatas.remove(&compared(record));
    if rdatas.is_empty() {
        model.remove(&rrset_key(record));
    }
    Ok(())
}

fn add(model: &mut Model, record: &Record) -> Result<(), RecordFault> {
    let (ttl, rdatas) = model.entry(rrset_key(record)).or_insert((record.ttl, BTreeSet::new()));
    if rdatas.contains(&compared(record)) {
        return Err(RecordFault::Present);
    }
    if *ttl != record.ttl {
        return Err(RecordFault::Ttl);
    }
    rdatas.insert(compared(record));
    Ok(())
}

/// The content of the zone at the head.
fn content(set: &ZoneSet) -> Model {
    let mut model = Model::new();
    let mut count = 0;
    let zone = set.head().zone(&zone_id(APEX)).unwrap();
    for record in zone.records() {
        add(&mut model, &record.to_record()).unwrap();
        count += 1;
    }
    assert_eq!(zone.record_count(), count);
    model
}

fn any_record() -> impl Strategy<Value = Record> {
    let owners = ["example.test.", "A.example.test.", "a.example.test.", "b.a.example.test.", "*.example.test."];
    let data = prop_oneof![
        (0..4u8).prop_map(|last| (Rtype::A, vec![192, 0, 2, last])),
        (0..3u8).prop_map(|text| (Rtype::TXT, vec![1, b'A' + text])),
        prop::sample::select(vec![&b"\x02ns\x00"[..], b"\x02NS\x00", b"\x01n\x00"])
            .prop_map(|target| (Rtype::NS, target.to_vec())),
        (0..2u8, prop::sample::select(vec![Rtype::A, Rtype::NSEC3, Rtype::MX])).prop_map(|(last, covered)| {
            let mut rdata = covered.0.to_be_bytes().to_vec();
            rdata.extend([8, 2, 0, 0, 0, 60, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, last]);
            (Rtype::RRSIG, rdata)
        }),
        (0..2u8).prop_map(|last| (Rtype::NSEC3, vec![1, 0, 0, 1, 0, 1, last])),
    ];
    (prop::sample::select(owners.to_vec()), data, prop::sample::select(vec![60, 300]))
        .prop_map(|(owner, (rtype, rdata), ttl)| record(owner, ttl, rtype, &rdata))
}

fn any_changes() -> impl Strategy<Value = Vec<(Vec<Record>, Vec<Record>)>> {
    let records = || prop::collection::vec(any_record(), 0..4);
    prop::collection::vec((records(), records()), 1..30)
}

/// A set that has this content, come by in one import.
fn imported(model: &Model) -> ZoneSet {
    let records: Vec<Record> = model
        .iter()
        .flat_map(|((owner, rtype, _), (ttl, rdatas))| {
            rdatas.iter().map(|rdata| Record {
                owner: owner.clone(),
                rtype: *rtype,
                ttl: *ttl,
                rdata: rdata.as_slice().into(),
            })
        })
        .rev()
        .collect();
    set_of(APEX, &records)
}

proptest! {
    #[test]
    fn changes_equal_those_of_the_model(changes in any_changes()) {
        let mut set = set_of(APEX, &[soa(APEX, Serial(1))]);
        let mut model = content(&set);
        let mut serial = Serial(1);
        for (deleted, mut added) in changes {
            // Most records that a change deletes are made to be there, or few changes would fit.
            let mut after = model.clone();
            let mut deleted = deleted;
            deleted.retain(|record| delete(&mut after, record).is_ok());
            let keep = added.len() % 3 != 0;
            let mut trial = after.clone();
            if keep {
                added.retain(|record| add(&mut trial, record).is_ok());
            }
            deleted.push(soa(APEX, serial));
            added.push(soa(APEX, serial.next()));
            let changeset = Changeset { serial_from: Some(serial), serial_to: serial.next(), deleted, added };

            let mut expected = model.clone();
            let mut fits = true;
            // As records are grouped by owner, which of several faults is found is not the model's to say.
            for record in &changeset.deleted {
                fits &= delete(&mut expected, record).is_ok();
            }
            for record in &changeset.added {
                fits &= add(&mut expected, record).is_ok();
            }
            let hash_before = set.head().state_hash();
            let mut edit = set.edit();
            let result = edit.apply(&zone_id(APEX), &changeset);
            let version = edit.seal();
            prop_assert_eq!(result.is_ok(), fits, "{:?} {:?}", result, changeset);
            if fits {
                model = expected;
                serial = serial.next();
                set.publish(version);
            } else {
                prop_assert_eq!(set.head().state_hash(), hash_before);
            }
            prop_assert_eq!(&content(&set), &model);
            prop_assert_eq!(set.head().zone(&zone_id(APEX)).unwrap().serial(), Some(serial));
        }
        prop_assert_eq!(imported(&model).head().state_hash(), set.head().state_hash());
    }

    #[test]
    fn any_difference_changes_the_hash(records in prop::collection::vec(any_record(), 1..6), ttl in 1..50u32) {
        let mut with = vec![soa(APEX, Serial(1))];
        let without = set_of(APEX, &with).head().state_hash();
        with.extend(records);
        let set = set_of(APEX, &with);
        prop_assert_ne!(set.head().state_hash(), without);
        with[1].ttl = ttl;
        prop_assert_ne!(set_of(APEX, &with).head().state_hash(), set.head().state_hash());
    }
}

fn change(from: u32, to: u32, deleted: Vec<Record>, added: Vec<Record>) -> Changeset {
    Changeset { serial_from: Some(Serial(from)), serial_to: Serial(to), deleted, added }
}

/// Applies a change and tells why it does not fit.
fn fault(set: &mut ZoneSet, changeset: &Changeset) -> ApplyError {
    let before = set.head().state_hash();
    let mut edit = set.edit();
    let error = edit.apply(&zone_id(APEX), changeset).unwrap_err();
    drop(edit);
    assert_eq!(set.head().state_hash(), before);
    error
}

#[test]
fn every_fault_has_its_name() {
    let (old, new) = (soa(APEX, Serial(1)), soa(APEX, Serial(2)));
    let here = record("a.example.test.", 60, Rtype::A, &[192, 0, 2, 1]);
    let other = |ttl, last| record("a.example.test.", ttl, Rtype::A, &[192, 0, 2, last]);
    let outside = record("a.example.", 60, Rtype::A, &[192, 0, 2, 1]);
    let mut set = set_of(APEX, &[old.clone(), here.clone()]);
    let (deleted, added) = (vec![old.clone()], vec![new.clone()]);

    let unknown = set.edit().apply(&zone_id("other.test."), &change(1, 2, vec![], vec![]));
    assert_eq!(unknown, Err(ApplyError::Unknown));
    let base = ApplyError::Base { expected: Some(Serial(9)), found: Some(Serial(1)) };
    assert_eq!(fault(&mut set, &change(9, 2, deleted.clone(), added.clone())), base);
    let target = ApplyError::Target { expected: Serial(3), found: Serial(2) };
    assert_eq!(fault(&mut set, &change(1, 3, deleted.clone(), added.clone())), target);
    assert_eq!(fault(&mut set, &change(1, 2, deleted.clone(), vec![])), ApplyError::Content(ContentFault::Soa));

    let of_deleted = |record| change(1, 2, vec![old.clone(), record], added.clone());
    let of_added = |record| change(1, 2, deleted.clone(), vec![new.clone(), record]);
    for (record, fault_expected) in [
        (outside.clone(), RecordFault::OutOfZone),
        (other(60, 2), RecordFault::Missing),
        (other(61, 1), RecordFault::Ttl),
    ] {
        let expected = ApplyError::Deleted { index: 1, fault: fault_expected };
        assert_eq!(fault(&mut set, &of_deleted(record)), expected);
    }
    for (record, fault_expected) in [
        (outside.clone(), RecordFault::OutOfZone),
        (here.clone(), RecordFault::Present),
        (other(61, 2), RecordFault::Ttl),
    ] {
        let expected = ApplyError::Added { index: 1, fault: fault_expected };
        assert_eq!(fault(&mut set, &of_added(record)), expected);
    }
    let iterations = record(APEX, 0, Rtype::NSEC3PARAM, &[1, 0, 0, 151, 0]);
    assert!(matches!(fault(&mut set, &of_added(iterations)), ApplyError::Content(ContentFault::Nsec3(_))));
    let imported = set.edit().add_records(&zone_id(APEX), &[here, outside]);
    assert_eq!(imported, Err(ImportError::Record { index: 1, fault: RecordFault::OutOfZone }));
}

#[test]
fn a_ttl_changes_with_the_whole_rrset() {
    let ends = |ttl, last| record("a.example.test.", ttl, Rtype::A, &[192, 0, 2, last]);
    let mut set = set_of(APEX, &[soa(APEX, Serial(1)), ends(60, 1), ends(60, 2)]);
    let deleted = vec![soa(APEX, Serial(1)), ends(60, 1), ends(60, 2)];
    let added = vec![soa(APEX, Serial(2)), ends(90, 1), ends(90, 2)];
    let mut edit = set.edit();
    edit.apply(&zone_id(APEX), &change(1, 2, deleted, added)).unwrap();
    edit.seal();
    let owner = crate::common::name("A.EXAMPLE.test.");
    let rrset = set.head().zone(&zone_id(APEX)).unwrap().rrset(owner.as_ref(), Rtype::A).unwrap();
    assert_eq!((rrset.ttl, rrset.rdatas().count()), (90, 2));
}

#[test]
fn imports_take_records_in_any_order() {
    let ends = |ttl, last| record("a.example.test.", ttl, Rtype::A, &[192, 0, 2, last]);
    let other = record("b.example.test.", 5, Rtype::TXT, &[1, b'x']);
    let mixed =
        set_of(APEX, &[ends(60, 2), other.clone(), ends(30, 1), ends(90, 2), ends(90, 3), soa(APEX, Serial(1))]);
    let plain = set_of(APEX, &[soa(APEX, Serial(1)), ends(30, 1), ends(30, 2), ends(30, 3), other]);
    assert_eq!(content(&mixed), content(&plain));
    assert_eq!(mixed.head().state_hash(), plain.head().state_hash());
}

#[test]
fn zones_are_added_removed_and_staged() {
    let mut set = small_set();
    let empty = set.head().state_hash();
    let id = zone_id(APEX);
    let mut edit = set.edit();
    edit.create_zone(&id).unwrap();
    assert_eq!(edit.create_zone(&id), Err(ZoneError::Exists));
    assert_eq!(edit.commit_stage(&id), Err(ZoneError::Unknown));
    let version = edit.seal();
    set.publish(version);
    assert_eq!(set.published().zone_count(), 1);
    assert_eq!(set.published().zone(&id).unwrap().serial(), None);
    assert_ne!(set.published().state_hash(), empty);

    // A stage may span versions, and is not served.
    let mut edit = set.edit();
    edit.add_records(&id, &[record("a.example.test.", 60, Rtype::A, &[192, 0, 2, 1])]).unwrap();
    let version = edit.seal();
    set.publish(version);
    assert_eq!(set.published().staged(&id).unwrap().record_count(), 1);
    assert_eq!(set.published().zone(&id).unwrap().record_count(), 0);
    assert_eq!(set.edit().commit_stage(&id), Err(ZoneError::Content(ContentFault::Soa)));
    let mut edit = set.edit();
    edit.add_records(&id, &[soa(APEX, Serial(7))]).unwrap();
    edit.commit_stage(&id).unwrap();
    assert_eq!(edit.abandon_stage(&id), Err(ZoneError::Unknown));
    let version = edit.seal();
    set.publish(version);
    assert_eq!(set.published().zone(&id).unwrap().serial(), Some(Serial(7)));
    assert_eq!(set.published().state_hash(), imported(&content(&set)).head().state_hash());

    add_zone(&mut set, "test.", &[soa("test.", Serial(3))]);
    add_zone(&mut set, ".", &[soa(".", Serial(4))]);
    let apexes: Vec<String> = set.published().zones().map(|zone| zone.apex().to_string()).collect();
    assert_eq!(apexes, [".", "test.", "example.test."]);
    let found = |name: &str, rtype| {
        set.published().find_for(crate::common::name(name).as_ref(), rtype).unwrap().apex().to_string()
    };
    assert_eq!(found("x.example.test.", Rtype::A), "example.test.");
    assert_eq!(found("Example.TEST.", Rtype::DS), "test.");
    assert_eq!(found("x.example.test.", Rtype::DS), "example.test.");
    assert_eq!((found("test.", Rtype::DS), found(".", Rtype::DS)), (".".to_owned(), ".".to_owned()));

    let mut edit = set.edit();
    for apex in [APEX, "test.", "."] {
        edit.remove_zone(&zone_id(apex)).unwrap();
    }
    assert_eq!(edit.remove_zone(&id), Err(ZoneError::Unknown));
    let version = edit.seal();
    set.publish(version);
    assert_eq!((set.published().zone_count(), set.published().state_hash()), (0, empty));
    assert!(set.published().find(crate::common::name("x.example.test.").as_ref()).is_none());
}

#[test]
fn versions_are_held_dropped_and_rewound() {
    let mut set = set_of(APEX, &[soa(APEX, Serial(1))]);
    let id = zone_id(APEX);
    let mut reader = set.reader();
    let step = |set: &mut ZoneSet, from: u32| {
        let mut edit = set.edit();
        edit.apply(&id, &change(from, from + 1, vec![soa(APEX, Serial(from))], vec![soa(APEX, Serial(from + 1))]))
            .unwrap();
        edit.seal()
    };
    let frozen = set.freeze();
    let second = step(&mut set, 1);
    step(&mut set, 2);
    let serials = |set: &ZoneSet| {
        let serial = |set: zone::set::SetVersion<'_>| set.zone(&id).unwrap().serial().unwrap().0;
        (serial(set.published()), serial(set.head()))
    };
    assert_eq!(serials(&set), (1, 3));
    set.publish(second);
    assert_eq!(serials(&set), (2, 3));
    assert_eq!(reader.pin().zone(&id).unwrap().serial(), Some(Serial(2)));
    assert_eq!(frozen.set().zone(&id).unwrap().serial(), Some(Serial(1)));
    set.rewind();
    assert_eq!(serials(&set), (2, 2));
    // An edit that is not sealed changes nothing.
    set.edit().remove_zone(&id).unwrap();
    assert_eq!(serials(&set), (2, 2));
    reader.offline();
}

#[test]
fn removed_zones_are_counted_while_a_version_holds_them() {
    let mut set = set_of("other.test.", &[soa("other.test.", Serial(1))]);
    let id = zone_id(APEX);
    let hashed = |number: u32| {
        record(&format!("{number:08}.{APEX}"), 60, Rtype::NSEC3, &[1, 0, 0, 0, 0, 1, number as u8, 0, 1, 0x40])
    };
    let plain = |number: u32| record(&format!("n{number}.{APEX}"), 60, Rtype::A, &number.to_be_bytes());
    let mut edit = set.edit();
    edit.add_records(&id, &[soa(APEX, Serial(1))]).unwrap();
    edit.add_records(&id, &(0..500).map(plain).chain((0..100).map(hashed)).collect::<Vec<_>>()).unwrap();
    edit.add_records(&id, &(250..1_000).map(plain).collect::<Vec<_>>()).unwrap();
    edit.commit_stage(&id).unwrap();
    let version = edit.seal();
    set.publish(version);
    let mut edit = set.edit();
    let deleted = [soa(APEX, Serial(1))].into_iter().chain((0..300).map(plain)).chain((0..9).map(hashed)).collect();
    edit.apply(&id, &change(1, 2, deleted, vec![soa(APEX, Serial(2)), plain(2_000)])).unwrap();
    let version = edit.seal();
    set.publish(version);
    while set.reclaim() {}
    assert_eq!(set.stats().retired_bytes, 0);
    let (let_go_before, frozen) = (set.retired_bytes_total(), set.freeze());
    let mut edit = set.edit();
    edit.remove_zone(&id).unwrap();
    let version = edit.seal();
    set.publish(version);
    while set.reclaim() {}
    let held = set.stats();
    assert_eq!(held.retired_bytes as u64, set.retired_bytes_total() - let_go_before);
    assert_eq!(frozen.set().zone(&id).unwrap().records().count(), 1 + 701 + 91);
    drop(frozen);
    while set.reclaim() {}
    let after = set.stats();
    assert_eq!((held.used_bytes - after.used_bytes, after.retired_bytes), (held.retired_bytes, 0));
    assert!(held.retired_bytes > 20 * 793, "{held:?}");
}
