//! Random updates against a simple model that follows the text of RFC 2136: a list of records, scanned for each
//! question.
#![expect(clippy::unwrap_used, reason = "an unexpected value fails the test")]

mod support;

use catamaran_replica::io::SerialPolicyOption;
use catamaran_replica::update::{evaluate, prescan, serial};
use proptest::prelude::*;
use support::test_zone::{TestZone, is_same};
use support::{name, name_in};
use tsig::client::UpdateBuilder;
use wire::name::Name;
use wire::number::{Class, Rcode, Rtype, Serial};
use wire::parse::{Parsed, Section, parse_request};
use wire::rdata::rdata_lowercase;
use zone::Record;

/// A record of an UPDATE message.
#[derive(Clone, Debug)]
struct Raw {
    class: Class,
    ttl: u32,
    record: Record,
}

// The model.

/// RFC 2136 3.2 and 3.4, in the order of its sentences. `zone` is changed only on success.
fn model(zone: &mut TestZone, prerequisites: &[Raw], updates: &[Raw]) -> Rcode {
    let outcome = model_prerequisites(zone, prerequisites).and_then(|()| model_prescan(zone, updates));
    if let Err(rcode) = outcome {
        return rcode;
    }
    let before = zone.clone();
    updates.iter().for_each(|update| model_update(zone, before.serial(), update));
    if comparable(zone) != comparable(&before) && zone.serial() == before.serial() {
        let soa = zone.records.iter_mut().find(|record| record.rtype == Rtype::SOA).unwrap();
        let next = if before.serial().0 == u32::MAX { 1 } else { before.serial().0 + 1 };
        soa.rdata = serial::with_serial(&soa.rdata, Serial(next)).unwrap();
    }
    Rcode::NOERROR
}

fn at<'z>(zone: &'z TestZone, owner: &Name) -> impl Iterator<Item = &'z Record> {
    zone.records.iter().filter(move |record| record.owner == *owner)
}

fn rrset<'z>(zone: &'z TestZone, owner: &Name, rtype: Rtype) -> Vec<&'z Record> {
    at(zone, owner).filter(|record| record.rtype == rtype).collect()
}

fn fail_if(condition: bool, rcode: Rcode) -> Result<(), Rcode> {
    if condition { Err(rcode) } else { Ok(()) }
}

fn model_prerequisites(zone: &TestZone, prerequisites: &[Raw]) -> Result<(), Rcode> {
    let mut named: Vec<&Record> = Vec::new();
    for Raw { class, ttl, record } in prerequisites {
        let Record { owner, rtype, rdata, .. } = record;
        fail_if(*ttl != 0, Rcode::FORMERR)?;
        fail_if(!owner.as_ref().is_at_or_below(zone.apex.as_ref()), Rcode::NOTZONE)?;
        match *class {
            Class::ANY | Class::NONE => {
                let wanted = *class == Class::ANY;
                fail_if(!rdata.is_empty(), Rcode::FORMERR)?;
                if *rtype == Rtype::ANY {
                    let rcode = if wanted { Rcode::NXDOMAIN } else { Rcode::YXDOMAIN };
                    fail_if((at(zone, owner).count() > 0) != wanted, rcode)?;
                } else {
                    let rcode = if wanted { Rcode::NXRRSET } else { Rcode::YXRRSET };
                    fail_if(rrset(zone, owner, *rtype).is_empty() == wanted, rcode)?;
                }
            }
            Class::IN => named.push(record),
            _ => return Err(Rcode::FORMERR),
        }
    }
    for record in &named {
        let found = rrset(zone, &record.owner, record.rtype);
        let of_this_rrset = || named.iter().filter(|other| other.owner == record.owner && other.rtype == record.rtype);
        let all_exist = of_this_rrset().all(|wanted| found.iter().any(|found| is_same(found, wanted)));
        let no_other = found.iter().all(|found| of_this_rrset().any(|wanted| is_same(found, wanted)));
        fail_if(!all_exist || !no_other, Rcode::NXRRSET)?;
    }
    Ok(())
}

fn model_prescan(zone: &TestZone, updates: &[Raw]) -> Result<(), Rcode> {
    for Raw { class, ttl, record } in updates {
        let is_meta = [Rtype::AXFR, Rtype::MAILA, Rtype::MAILB].contains(&record.rtype);
        let is_any = record.rtype == Rtype::ANY;
        fail_if(!record.owner.as_ref().is_at_or_below(zone.apex.as_ref()), Rcode::NOTZONE)?;
        let malformed = match *class {
            Class::IN => is_any || is_meta,
            Class::ANY => *ttl != 0 || !record.rdata.is_empty() || is_meta,
            Class::NONE => *ttl != 0 || is_any || is_meta,
            _ => true,
        };
        fail_if(malformed, Rcode::FORMERR)?;
        fail_if([Rtype::NSEC, Rtype::DNSKEY].contains(&record.rtype), Rcode::REFUSED)?;
    }
    Ok(())
}

fn model_update(zone: &mut TestZone, serial_before: Serial, Raw { class, ttl, record }: &Raw) {
    let at_apex = record.owner == zone.apex;
    let stays = |rtype: Rtype| at_apex && [Rtype::SOA, Rtype::NS].contains(&rtype);
    match (*class, record.rtype) {
        (Class::IN, rtype) => model_add(zone, serial_before, &Record { rtype, ttl: *ttl, ..record.clone() }),
        (Class::ANY, Rtype::ANY) => zone.records.retain(|other| other.owner != record.owner || stays(other.rtype)),
        (Class::ANY, rtype) if stays(rtype) => {}
        (Class::ANY, rtype) => zone.records.retain(|other| other.owner != record.owner || other.rtype != rtype),
        (_, Rtype::SOA) if at_apex => {}
        (_, Rtype::NS) if at_apex && rrset(zone, &record.owner, Rtype::NS).len() == 1 => {}
        _ => zone.records.retain(|other| !is_same(other, record)),
    }
}

fn model_add(zone: &mut TestZone, serial_before: Serial, record: &Record) {
    let beside_cname = |rtype| [Rtype::KEY, Rtype::SIG, Rtype::NXT].contains(&rtype);
    let ignored = match record.rtype {
        Rtype::CNAME => at(zone, &record.owner).any(|other| other.rtype != Rtype::CNAME && !beside_cname(other.rtype)),
        rtype => !beside_cname(rtype) && !rrset(zone, &record.owner, Rtype::CNAME).is_empty(),
    };
    if ignored {
        return;
    }
    if record.rtype == Rtype::SOA {
        let new = serial::of_soa(&record.rdata).unwrap();
        if record.owner != zone.apex || !new.is_newer_than(zone.serial()) || !new.is_newer_than(serial_before) {
            return;
        }
    }
    zone.records.retain(|other| {
        let replaced = other.owner == record.owner
            && other.rtype == record.rtype
            && match record.rtype {
                Rtype::SOA | Rtype::CNAME | Rtype::DNAME => true,
                Rtype::WKS => other.rdata[..5] == record.rdata[..5],
                _ => is_same(other, record),
            };
        !replaced
    });
    zone.records.push(record.clone());
    for other in &mut zone.records {
        if other.owner == record.owner && other.rtype == record.rtype {
            other.ttl = record.ttl;
        }
    }
}

/// The records as a set, with names in lower case.
fn comparable(zone: &TestZone) -> Vec<(Name, Rtype, u32, Vec<u8>)> {
    let mut records = zone.sorted();
    for (_, rtype, _, rdata) in &mut records {
        rdata_lowercase(*rtype, rdata);
    }
    records.sort();
    records
}

// Generators: few names, types and values, so that records collide.

fn apex() -> Name {
    name("example.test")
}

fn owner() -> impl Strategy<Value = Name> {
    prop_oneof![
        80 => prop::sample::select(vec!["@", "a", "A", "b", "c.b", "C.B", "*.w", "d.e.f"])
            .prop_map(|text| name_in(text, &apex())),
        1 => Just(name("example.org")),
        1 => Just(name("test")),
    ]
}

fn rdata(rtype: Rtype, choice: u8) -> Box<[u8]> {
    let target = |choice: u8| name_in(["a", "A", "b", "c.b"][choice as usize % 4], &apex()).as_bytes().to_vec();
    match rtype {
        Rtype::A => vec![192, 0, 2, choice],
        Rtype::NS | Rtype::CNAME | Rtype::DNAME => target(choice),
        Rtype::MX => [vec![0, choice / 4], target(choice)].concat(),
        Rtype::TXT => vec![1, b"aAbB"[choice as usize % 4]],
        Rtype::WKS => vec![192, 0, 2, choice / 4, 6 + choice % 2 * 11, choice],
        Rtype::KEY => vec![0, 0, 3, 1, choice],
        Rtype::DNSKEY => vec![1, 1, 3, 8, 3, 1, 0, 1, choice],
        Rtype::NSEC => [target(choice), vec![0, 1, 0x40]].concat(),
        Rtype::SOA => {
            let serial = [0, 1, 2, 3, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, u32::MAX][choice as usize % 8];
            [target(choice), target(0), serial.to_be_bytes().to_vec(), vec![0; 16]].concat()
        }
        _ => vec![choice],
    }
    .into()
}

/// Types of the records in the zone.
const HELD: &[Rtype] = &[
    Rtype::A,
    Rtype::A,
    Rtype::NS,
    Rtype::CNAME,
    Rtype::CNAME,
    Rtype::DNAME,
    Rtype::MX,
    Rtype::TXT,
    Rtype::WKS,
    Rtype::KEY,
    Rtype(65_400),
];
/// Additional types in updates.
const RARE: &[Rtype] = &[Rtype::SOA, Rtype::SOA, Rtype::SOA, Rtype::NSEC, Rtype::DNSKEY];

fn record(rare: u32) -> impl Strategy<Value = Record> {
    let rtype = prop_oneof![20 => prop::sample::select(HELD), rare => prop::sample::select(RARE)];
    (owner(), rtype, prop::sample::select(vec![0u32, 60, 300]), 0u8..8).prop_map(|(owner, rtype, ttl, choice)| Record {
        owner,
        rtype,
        ttl,
        rdata: rdata(rtype, choice),
    })
}

fn zone() -> impl Strategy<Value = TestZone> {
    let serials = prop::sample::select(vec![1u32, 0x7FFF_FFFF, u32::MAX]);
    (prop::collection::vec(record(0), 0..14), serials).prop_map(|(records, serial)| {
        let mut zone = TestZone { apex: apex(), records: Vec::new() };
        let soa = serial::with_serial(&rdata(Rtype::SOA, 0), Serial(serial)).unwrap();
        zone.records.push(Record { owner: apex(), rtype: Rtype::SOA, ttl: 300, rdata: soa });
        zone.records.push(Record { owner: apex(), rtype: Rtype::NS, ttl: 300, rdata: rdata(Rtype::NS, 0) });
        for record in records.iter().filter(|record| record.owner.as_ref().is_at_or_below(apex().as_ref())) {
            model_add(&mut zone, Serial(serial), record);
        }
        zone
    })
}

/// Mostly well-formed prerequisites and steps.
fn raw(is_prerequisite: bool) -> impl Strategy<Value = Raw> {
    let class =
        prop_oneof![30 => Just(Class::IN), 15 => Just(Class::ANY), 15 => Just(Class::NONE), 1 => Just(Class::CH)];
    let with_rtype_any = prop::bool::weighted(0.2);
    let odd = prop::bool::weighted(0.02);
    let meta = prop::sample::select(vec![Rtype::AXFR, Rtype::MAILA, Rtype::MAILB, Rtype::ANY]);
    (class, record(2), with_rtype_any, odd, meta).prop_map(move |(class, mut record, any, odd, meta)| {
        let has_value = class == Class::IN || class == Class::NONE && !is_prerequisite;
        if odd {
            record.rtype = meta;
            record.rdata = Box::default();
        } else if !has_value {
            record.rdata = Box::default();
            record.rtype = if any { Rtype::ANY } else { record.rtype };
        }
        let has_ttl = class == Class::IN && !is_prerequisite;
        let ttl = if has_ttl { record.ttl } else { u32::from(odd && record.ttl > 60) };
        Raw { class, ttl, record: Record { ttl, ..record } }
    })
}

/// Prerequisites that often hold: many are drawn from the zone.
fn case() -> impl Strategy<Value = (TestZone, Vec<Raw>, Vec<Raw>)> {
    zone().prop_flat_map(|zone| {
        let whole_rrset = {
            let zone = zone.clone();
            prop::sample::select(zone.records.clone()).prop_map(move |record| {
                let found = rrset(&zone, &record.owner, record.rtype);
                let named =
                    |record: &Record| Raw { class: Class::IN, ttl: 0, record: Record { ttl: 0, ..record.clone() } };
                found.into_iter().map(named).collect::<Vec<_>>()
            })
        };
        let one = raw(true).prop_map(|raw| vec![raw]);
        let prerequisites = prop_oneof![
            3 => Just(Vec::new()).boxed(),
            3 => prop::collection::vec(whole_rrset, 1..3).prop_map(|sets| sets.concat()).boxed(),
            2 => prop::collection::vec(one, 1..4).prop_map(|sets| sets.concat()).boxed(),
        ];
        (Just(zone), prerequisites, prop::collection::vec(raw(false), 0..8))
    })
}

fn message(prerequisites: &[Raw], updates: &[Raw]) -> Vec<u8> {
    let mut builder = UpdateBuilder::new(1, apex().as_ref());
    for (section, raws) in [(Section::PREREQUISITE, prerequisites), (Section::UPDATE, updates)] {
        for Raw { class, ttl, record } in raws {
            builder = builder.raw(section, record.owner.as_ref(), (record.rtype, *class, *ttl), &record.rdata);
        }
    }
    builder.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn evaluation_does_what_the_model_does((zone, prerequisites, updates) in case()) {
        let bytes = message(&prerequisites, &updates);
        let Parsed::Request(request) = parse_request(&bytes) else { panic!("{bytes:?}") };
        let parsed = prescan(&request).unwrap();
        let evaluated = evaluate(&zone, &parsed, SerialPolicyOption::Increment, 0);

        let mut expected = zone.clone();
        let rcode = model(&mut expected, &prerequisites, &updates);
        prop_assert_eq!(evaluated.rcode, rcode);
        prop_assert!(parsed.verdict_without_zone().is_none_or(|early| early == rcode));

        let mut got = zone.clone();
        if let Some(changeset) = &evaluated.changeset {
            got.apply(changeset);
            // The net difference: no record is deleted and added again with the same TTL.
            for deleted in &changeset.deleted {
                prop_assert!(!changeset.added.iter().any(|added| is_same(added, deleted) && added.ttl == deleted.ttl));
            }
        }
        prop_assert_eq!(comparable(&got), comparable(&expected));
        prop_assert_eq!(evaluated.changeset.is_some(), comparable(&zone) != comparable(&expected));
    }
}

/// Many updates of one zone in the real store: each evaluation equals that on the list of records, and its changes
/// can be applied.
#[test]
fn a_stored_zone_changes_as_the_model_does() {
    use proptest::strategy::ValueTree as _;
    use zone::set::{StoreConfig, ZoneSet, ZoneSetConfig};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut changes = 0;
    for _ in 0..20 {
        let mut listed = zone().new_tree(&mut runner).unwrap().current();
        // A single RRSIG, and two with different TTLs: a zone may contain them, and updates delete them with their
        // owner.
        for (covered, ttl) in [(Rtype::A, 60), (Rtype::AAAA, 300)] {
            let rdata = [&covered.0.to_be_bytes(), [5, 2].as_slice(), &[0; 14], b"\0sig"].concat().into();
            listed.records.push(Record { owner: name("a.example.test"), rtype: Rtype::RRSIG, ttl, rdata });
        }
        let mut set =
            ZoneSet::new(ZoneSetConfig { store: StoreConfig { reserve_bytes: 64 << 20, huge_pages: false } }).unwrap();
        let id = zone::ZoneId { view: 0, apex: apex() };
        let mut edit = set.edit();
        edit.add_records(&id, &listed.records).unwrap();
        edit.commit_stage(&id).unwrap();
        let _ = edit.seal();
        for turn in 0..300 {
            let strategy = (prop::collection::vec(raw(true), 0..2), prop::collection::vec(raw(false), 0..8));
            let (prerequisites, updates) = strategy.new_tree(&mut runner).unwrap().current();
            let bytes = message(if turn % 4 == 0 { &prerequisites } else { &[] }, &updates);
            let Parsed::Request(request) = parse_request(&bytes) else { panic!("{bytes:?}") };
            let parsed = prescan(&request).unwrap();
            let on_list = evaluate(&listed, &parsed, SerialPolicyOption::UnixTime, turn / 7);
            let on_store = evaluate(&set.head().zone(&id).unwrap(), &parsed, SerialPolicyOption::UnixTime, turn / 7);
            assert_eq!((on_list.rcode, on_list.refusal), (on_store.rcode, on_store.refusal));
            assert_eq!(on_list.changeset.is_some(), on_store.changeset.is_some());
            if let Some(changeset) = &on_store.changeset {
                listed.apply(&on_list.changeset.unwrap());
                let mut edit = set.edit();
                edit.apply(&id, changeset).unwrap();
                let version = edit.seal();
                set.publish(version);
                changes += 1;
            }
            let records = set.head().zone(&id).unwrap().records().map(|record| record.to_record()).collect();
            assert_eq!(comparable(&TestZone { apex: apex(), records }), comparable(&listed));
        }
    }
    assert!(changes > 1_000, "only {changes} updates changed anything");
}

#[test]
fn the_generator_reaches_every_outcome() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..4_000 {
        let (mut zone, prerequisites, updates) = case().new_tree(&mut runner).unwrap().current();
        let before = comparable(&zone);
        let rcode = model(&mut zone, &prerequisites, &updates);
        *seen.entry((rcode, before != comparable(&zone))).or_insert(0u32) += 1;
    }
    println!("{seen:?}");
    for rcode in [
        Rcode::FORMERR,
        Rcode::NXDOMAIN,
        Rcode::YXDOMAIN,
        Rcode::NXRRSET,
        Rcode::YXRRSET,
        Rcode::NOTZONE,
        Rcode::REFUSED,
        Rcode::NOERROR,
    ] {
        assert!(seen.get(&(rcode, false)).is_some_and(|&count| count >= 20), "{rcode:?} of {seen:?}");
    }
    assert!(seen[&(Rcode::NOERROR, true)] >= 800, "{seen:?}");
}
