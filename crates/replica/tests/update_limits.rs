//! Limits of updates, and the time for the most expensive permitted ones.
#![expect(clippy::disallowed_methods, reason = "a bound on time is measured with a clock")]
#![expect(clippy::unwrap_used, reason = "an unexpected value fails the test")]

mod support;

use catamaran_replica::io::SerialPolicyOption;
use catamaran_replica::update::limits::*;
use catamaran_replica::update::{Evaluated, LimitReached, Refusal, evaluate, prescan};
use policy::ZoneRead;
use std::ops::ControlFlow;
use support::name;
use support::test_zone::TestZone;
use tsig::client::UpdateBuilder;
use wire::name::{Name, NameRef};
use wire::number::{Rcode, Rtype};
use wire::parse::{Parsed, parse_request};
use zone::Record;
use zone::set::RecordRef;

fn apex() -> Name {
    name("example.test")
}

fn builder() -> UpdateBuilder {
    UpdateBuilder::new(1, apex().as_ref())
}

fn soa() -> Record {
    let rdata = [b"\x01a\0\x01b\0".as_slice(), &[0, 0, 0, 1], &[0; 16]].concat().into();
    Record { owner: apex(), rtype: Rtype::SOA, ttl: 300, rdata }
}

fn a(owner: &str, number: u32) -> Record {
    Record { owner: name(owner), rtype: Rtype::A, ttl: 300, rdata: number.to_be_bytes().into() }
}

fn zone(records: Vec<Record>) -> TestZone {
    let records = std::iter::once(soa()).chain(records).collect();
    TestZone { apex: apex(), records }
}

fn run(zone: &impl ZoneRead, builder: UpdateBuilder) -> Evaluated {
    let bytes = builder.finish();
    let Parsed::Request(request) = parse_request(&bytes) else { panic!("no request") };
    match prescan(&request) {
        Ok(parsed) => evaluate(zone, &parsed, SerialPolicyOption::Increment, 0),
        Err(rcode) => Evaluated { rcode, changeset: None, refusal: None, work: 0 },
    }
}

fn refused(evaluated: &Evaluated, limit: LimitReached) {
    assert_eq!((evaluated.rcode, evaluated.refusal), (Rcode::REFUSED, Some(Refusal::Limit(limit))));
    assert_eq!(evaluated.changeset, None);
}

#[test]
fn a_thousand_records_are_the_limit() {
    let www = name("www.example.test");
    let of = |count: usize| {
        (0..count as u32).fold(builder(), |builder, at| builder.add(www.as_ref(), 60, Rtype::A, &at.to_be_bytes()))
    };
    let evaluated = run(&zone(vec![]), of(UPDATE_RECORDS_MAX));
    assert_eq!(evaluated.rcode, Rcode::NOERROR);
    assert_eq!(evaluated.changeset.unwrap().added.len(), 1 + UPDATE_RECORDS_MAX);
    assert_eq!(run(&zone(vec![]), of(UPDATE_RECORDS_MAX + 1)).rcode, Rcode::REFUSED);
    // Prerequisites count too.
    let evaluated = run(&zone(vec![]), {
        let all = (0..UPDATE_RECORDS_MAX).fold(builder(), |builder, _| builder.require_no_name(www.as_ref()));
        all.add(www.as_ref(), 60, Rtype::A, &[0; 4])
    });
    assert_eq!(evaluated.rcode, Rcode::REFUSED);
}

#[test]
fn an_rrset_grows_to_its_limits() {
    let www = name("www.example.test");
    let full = || zone((0..RRSET_RECORDS_MAX as u32).map(|at| a("www.example.test", at)).collect());
    refused(&run(&full(), builder().add(www.as_ref(), 300, Rtype::A, &[9; 4])), LimitReached::RrsetRecords);
    // A replacement is possible, and so is a deletion from an RRset that was larger from the start.
    let swap = builder().delete_record(www.as_ref(), Rtype::A, &[0; 4]).add(www.as_ref(), 300, Rtype::A, &[9; 4]);
    assert_eq!(run(&full(), swap).rcode, Rcode::NOERROR);
    let mut larger = full();
    larger.records.extend([a("www.example.test", 1 << 30), a("www.example.test", 1 << 29)]);
    let evaluated = run(&larger, builder().delete_record(www.as_ref(), Rtype::A, &[0; 4]));
    assert_eq!(evaluated.changeset.unwrap().deleted.len(), 2);

    let text = |at: u8| [vec![255; 256], vec![255; 256], vec![1, at]].concat();
    let record = |at: u8| Record { owner: www.clone(), rtype: Rtype::TXT, ttl: 300, rdata: text(at).into() };
    let half = zone((0..60).map(record).collect());
    let add =
        |up_to: u8| (60..up_to).fold(builder(), |builder, at| builder.add(www.as_ref(), 300, Rtype::TXT, &text(at)));
    assert_eq!(run(&half, add(121)).rcode, Rcode::NOERROR);
    refused(&run(&half, add(122)), LimitReached::RrsetBytes);
}

#[test]
fn rrsets_of_an_owner_are_limited() {
    let www = name("www.example.test");
    let types = |count: usize| {
        let types = (0..count as u16).map(|at| Rtype(60_000 + at));
        types.fold(builder(), |builder, rtype| builder.add(www.as_ref(), 300, rtype, b"x"))
    };
    assert_eq!(run(&zone(vec![]), types(OWNER_RRSETS_MAX)).rcode, Rcode::NOERROR);
    refused(&run(&zone(vec![]), types(OWNER_RRSETS_MAX + 1)), LimitReached::OwnerRrsets);
}

#[test]
fn bytes_of_an_owner_are_limited_and_a_larger_owner_may_shrink() {
    let www = name("www.example.test");
    let record = |rtype: u16, at: u8| {
        let rdata = vec![at; 2_000].into();
        Record { owner: www.clone(), rtype: Rtype(60_000 + rtype), ttl: 300, rdata }
    };
    let of = |types: u16| zone((0..types).flat_map(|rtype| (0..30).map(move |at| record(rtype, at))).collect());
    let add = |rtype: u16| {
        let add = |builder: UpdateBuilder, at: u8| builder.add(www.as_ref(), 300, Rtype(60_000 + rtype), &[at; 2_000]);
        (0..30).fold(builder(), add)
    };
    assert_eq!(run(&of(3), add(3)).rcode, Rcode::NOERROR);
    refused(&run(&of(4), add(4)), LimitReached::OwnerBytes);
    // A zone file contained more.
    refused(&run(&of(50), add(50)), LimitReached::OwnerBytes);
    let one = builder().delete_record(www.as_ref(), Rtype(60_007), &[3; 2_000]);
    assert_eq!(run(&of(50), one).changeset.unwrap().deleted.len(), 2);
    let all = run(&of(50), builder().delete_name(www.as_ref()));
    assert_eq!(all.changeset.unwrap().deleted.len(), 1 + 50 * 30);
}

#[test]
fn limits_are_counted_in_their_order() {
    assert!(LimitReached::ALL.iter().enumerate().all(|(position, limit)| *limit as usize == position));
}

/// A zone in which every owner has an RRset of the same size.
struct Endless {
    apex: Name,
    records: u32,
    bytes: usize,
}

impl ZoneRead for Endless {
    fn apex(&self) -> NameRef<'_> {
        self.apex.as_ref()
    }
    fn is_presigned(&self) -> bool {
        false
    }
    fn record_count(&self) -> u64 {
        u64::MAX
    }
    fn records_at(&self, owner: NameRef<'_>, visit: &mut dyn FnMut(RecordRef<'_>) -> ControlFlow<()>) {
        if owner == self.apex.as_ref() {
            let _ = visit(RecordRef { owner, rtype: Rtype::SOA, ttl: 300, rdata: &soa().rdata });
            return;
        }
        let mut rdata = vec![0; self.bytes];
        for at in 0..self.records {
            rdata[..4].copy_from_slice(&at.to_be_bytes());
            if visit(RecordRef { owner, rtype: Rtype(65_400), ttl: 300, rdata: &rdata }).is_break() {
                return;
            }
        }
    }
}

#[test]
fn what_one_update_reads_and_changes_is_bounded() {
    let deletes =
        (0..900).fold(builder(), |builder, at| builder.delete_name(name(&format!("n{at}.example.test")).as_ref()));
    let of = |records, bytes| Endless { apex: apex(), records, bytes };
    refused(&run(&of(4_000, 4), deletes.clone()), LimitReached::TouchedRecords);
    refused(&run(&of(100, 60), deletes.clone()), LimitReached::ChangeBytes);
    refused(&run(&of(50, 1_000), deletes.clone()), LimitReached::TouchedBytes);
    let evaluated = run(&of(100, 4), deletes);
    assert_eq!(evaluated.changeset.unwrap().deleted.len(), 1 + 90_000);
}

#[test]
fn rdata_that_grows_when_it_is_written_out_is_bounded() {
    // Each target is a pointer to one long name.
    let long = name(&format!("{0}.{0}.{0}.{1}.example.test", "a".repeat(63), "b".repeat(45)));
    let mut bytes = builder().add(long.as_ref(), 60, Rtype::MX, &[&[0, 0], long.as_bytes()].concat()).finish();
    let long_at = 12 + apex().as_bytes().len() + 4;
    for at in 0..999u16 {
        let [high, low] = (0xC000 | long_at as u16).to_be_bytes();
        let [a, b] = at.to_be_bytes();
        bytes.extend([high, low, 0, 15, 0, 1, 0, 0, 0, 60, 0, 4, a, b, high, low]);
    }
    bytes[8..10].copy_from_slice(&1000u16.to_be_bytes());
    let Parsed::Request(request) = parse_request(&bytes) else { panic!("no request") };
    let parsed = prescan(&request).unwrap();
    assert_eq!(parsed.steps.len(), 1000);
    // 1000 * 257 bytes would not fit into an answer as one RRset.
    let evaluated = evaluate(&zone(vec![]), &parsed, SerialPolicyOption::Increment, 0);
    refused(&evaluated, LimitReached::RrsetBytes);
}

#[test]
fn a_thousand_steps_at_one_owner_are_not_a_million() {
    let www = name("www.example.test");
    let zone = zone((0..RRSET_RECORDS_MAX as u32).map(|at| a("www.example.test", at)).collect());
    let rdata = |at: u32| (at + (1 << 30)).to_be_bytes();
    let alternating = (0..500).fold(builder(), |builder, at| {
        builder.delete_rrset(www.as_ref(), Rtype::A).add(www.as_ref(), 300, Rtype::A, &rdata(at))
    });
    let wks = |at: u32| [vec![1, 1, (at >> 8) as u8, at as u8, 6], vec![0x80; 3]].concat();
    let services = (0..1000).fold(builder(), |builder, at| builder.add(www.as_ref(), 300, Rtype::WKS, &wks(at)));
    let aliases = (0..1000).fold(builder(), |builder, at: u32| {
        let target = name(&format!("t{at}.example.test"));
        builder.add(name("alias.example.test").as_ref(), 300, Rtype::CNAME, target.as_bytes())
    });
    let values =
        (0..1000).fold(builder(), |builder, at: u32| builder.require_record(www.as_ref(), Rtype::A, &at.to_be_bytes()));
    for (what, builder) in [("alternating", alternating), ("wks", services), ("cname", aliases), ("values", values)] {
        let start = std::time::Instant::now();
        let evaluated = run(&zone, builder);
        // The limit allows for an unoptimized build on a busy machine; a quadratic step would take seconds.
        let took = start.elapsed();
        println!("{what}: {:?} in {took:?}", evaluated.rcode);
        assert!(took.as_millis() < 500, "{what} took {took:?}");
    }
}
