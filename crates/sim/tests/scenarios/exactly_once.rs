//! The same bytes are sent to two members, at different times and with different leader faults. They have one outcome.

use super::cluster::*;
use replica::io::{NodeId, Verdict};
use std::collections::BTreeMap;
use tsig::client::UpdateBuilder;
use wire::number::{Class, Rcode, Rtype};
use wire::parse::Section;
use zone::Record;

/// The leader's fault between the two sendings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Stays,
    Dies,
    /// The leader dies, and restores its state from disk.
    Returns,
}

const LEADERS: [Leader; 3] = [Leader::Stays, Leader::Dies, Leader::Returns];

/// An update and its required response.
struct Case {
    message: Vec<u8>,
    rcode: Rcode,
    /// Whether the update creates a version.
    is_step: bool,
    /// An update that changes the state that the case depends on. A second execution would then have another outcome.
    undo: Option<Vec<u8>>,
}

/// The zone has the records `address(1)` to `address(THERE)` from the start.
const THERE: u8 = 5;

/// One case for each RCODE after a valid TSIG, and for both kinds of NOERROR.
fn cases(wall_ms: u64) -> Vec<Case> {
    let id = std::cell::Cell::new(100);
    let builder = |apex: &str| {
        id.set(id.get() + 1);
        UpdateBuilder::new(id.get(), name(apex).as_ref())
    };
    let ours = || builder("example.test.");
    let signed = |builder: UpdateBuilder| sign(builder.finish(), wall_ms);
    let put = |builder: UpdateBuilder, record: &Record| {
        signed(builder.add(record.owner.as_ref(), record.ttl, record.rtype, &record.rdata))
    };
    let delete =
        |builder: UpdateBuilder, record: &Record| signed(builder.delete_rrset(record.owner.as_ref(), record.rtype));
    let owner = |record: &Record| record.owner.clone();
    let rrset = |record: &Record| ours().require_rrset(owner(record).as_ref(), Rtype::A);
    let no_rrset = |record: &Record| ours().require_no_rrset(owner(record).as_ref(), Rtype::A);
    let there = [1, 2, 3, 4, THERE].map(address);
    let new = [10, 11, 12, 13].map(address);
    let marker = address(20);
    let case = |message, rcode, is_step, undo| Case { message, rcode, is_step, undo };
    let elsewhere = Record { owner: name("www.other.test."), ..address(1) };
    let key = Record { rtype: Rtype::DNSKEY, rdata: [1, 0, 3, 13, 1, 2, 3, 4].into(), ..address(1) };
    vec![
        // Without the update in between, these would have another outcome the second time.
        case(put(no_rrset(&new[0]), &new[0]), Rcode::NOERROR, true, Some(delete(ours(), &new[0]))),
        case(delete(rrset(&there[0]), &there[0]), Rcode::NOERROR, true, Some(put(ours(), &there[0]))),
        case(put(ours(), &there[1]), Rcode::NOERROR, false, Some(delete(ours(), &there[1]))),
        case(delete(ours(), &new[1]), Rcode::NOERROR, false, Some(put(ours(), &new[1]))),
        case(put(rrset(&new[2]), &marker), Rcode::NXRRSET, false, Some(put(ours(), &new[2]))),
        case(put(no_rrset(&there[2]), &marker), Rcode::YXRRSET, false, Some(delete(ours(), &there[2]))),
        case(
            put(ours().require_name(owner(&new[3]).as_ref()), &marker),
            Rcode::NXDOMAIN,
            false,
            Some(put(ours(), &new[3])),
        ),
        case(
            put(ours().require_no_name(owner(&there[3]).as_ref()), &marker),
            Rcode::YXDOMAIN,
            false,
            Some(delete(ours(), &there[3])),
        ),
        // These cases do not depend on state that an update changes.
        case(put(ours(), &elsewhere), Rcode::NOTZONE, false, None),
        case(put(builder("other.test."), &elsewhere), Rcode::NOTAUTH, false, None),
        case(put(ours(), &key), Rcode::REFUSED, false, None),
        // RFC 2136 3.4.1.2: a deletion must have a TTL of zero.
        case(
            signed(ours().raw(Section::UPDATE, owner(&marker).as_ref(), (Rtype::A, Class::ANY, 1), &[])),
            Rcode::FORMERR,
            false,
            None,
        ),
    ]
}

/// A cluster whose zone has some records, and its serial.
fn cluster() -> (Cluster, u32) {
    let mut cluster = Cluster::with_zone(3);
    for last in 1..=THERE {
        let request = cluster.add(1, &address(last));
        cluster.assert_done(request);
    }
    cluster.run(100);
    let serial = cluster.serial(1);
    (cluster, serial)
}

/// Advances time, with a tick whenever one is due.
fn pass(cluster: &mut Cluster, ms: u64) {
    cluster.run(ms / 10 * 10);
    cluster.now.monotonic_ms += ms % 10;
    cluster.now.wall_ms += ms % 10;
    cluster.settle();
}

/// Passes the time between the two sendings. The leader dies in the middle. An election may still be in progress at the
/// end.
fn between(cluster: &mut Cluster, what: Leader, ms: u64) {
    let leader = cluster.leader().unwrap();
    pass(cluster, ms / 2);
    if what != Leader::Stays {
        cluster.kill(leader);
    }
    pass(cluster, ms / 4);
    if what == Leader::Returns {
        cluster.start(leader);
    }
    pass(cluster, ms - ms / 2 - ms / 4);
}

fn send(cluster: &mut Cluster, id: NodeId, cases: &[Case], source: &str) -> Vec<u64> {
    let send = |case: &Case| cluster.update_bytes(id, case.message.clone(), source);
    cases.iter().map(send).collect()
}

/// Checks that all requests got the required response. Requests at a member that died may have got none.
fn assert_answers(cluster: &Cluster, requests: &[u64], cases: &[Case], may_be_silent: bool, of: &str) {
    for (number, (&request, case)) in requests.iter().zip(cases).enumerate() {
        match cluster.verdict(request) {
            None if may_be_silent => {}
            verdict => assert_eq!(verdict, Some(Verdict::Answer(case.rcode)), "update {number}, {of}"),
        }
    }
}

fn assert_end(cluster: &mut Cluster, serial: u32, steps: usize, of: &str) {
    cluster.run(1_000);
    cluster.elect();
    for id in cluster.alive() {
        assert_eq!(cluster.serial(id) as usize, serial as usize + steps, "member {id}, {of}");
        assert!(!cluster.has(id, &address(20)), "what a prerequisite forbids is on {id}, {of}");
    }
    cluster.assert_same();
}

/// The first copy is answered before the second is sent. By then, the state has changed.
fn answered_before(first: NodeId, what: Leader, ms: u64) {
    let of = &*format!("first at {first}, {ms} ms, the leader {what:?}");
    let (mut cluster, serial) = cluster();
    let cases = cases(cluster.now.wall_ms);
    let requests = send(&mut cluster, first, &cases, "192.0.2.200:4000");
    cluster.settle();
    assert_answers(&cluster, &requests, &cases, false, of);
    let mut steps = cases.iter().filter(|case| case.is_step).count();
    for undo in cases.iter().filter_map(|case| case.undo.clone()) {
        let request = cluster.update_bytes(first, undo, "192.0.2.200:4000");
        cluster.settle();
        cluster.assert_done(request);
        steps += 1;
    }
    between(&mut cluster, what, ms);
    for second in cluster.alive() {
        // `nsupdate` keeps its port, `knsupdate` uses another one.
        for port in [4_000, 4_001] {
            let again = send(&mut cluster, second, &cases, &format!("192.0.2.200:{port}"));
            cluster.run(600);
            assert_answers(&cluster, &again, &cases, false, &format!("{of}, again at {second}"));
        }
    }
    assert_end(&mut cluster, serial, steps, of);
}

/// Frames take 2 ms. Depending on `ms`, the leader dies before it has the update, before the others have it, or before
/// any response. Meanwhile the second copy arrives at all remaining members.
fn in_flight(first: NodeId, what: Leader, ms: u64) {
    let of = &*format!("first at {first}, {ms} ms while it is in flight, the leader {what:?}");
    let (mut cluster, serial) = cluster();
    cluster.way_ms = 2;
    let cases = cases(cluster.now.wall_ms);
    let leader = cluster.leader().unwrap();
    let requests = send(&mut cluster, first, &cases, "192.0.2.200:4000");
    cluster.settle();
    // Advances in steps of a millisecond, so that frames arrive on time.
    (0..ms).for_each(|_| pass(&mut cluster, 1));
    if what != Leader::Stays {
        cluster.kill(leader);
    }
    if what == Leader::Returns {
        cluster.start(leader);
    }
    let mut again = BTreeMap::new();
    for second in cluster.alive() {
        again.insert(second, send(&mut cluster, second, &cases, "192.0.2.200:4001"));
    }
    cluster.run(2_400);
    let has_died = first == leader && what != Leader::Stays;
    assert_answers(&cluster, &requests, &cases, has_died, of);
    for (second, requests) in again {
        assert_answers(&cluster, &requests, &cases, false, &format!("{of}, again at {second}"));
    }
    let steps = cases.iter().filter(|case| case.is_step).count();
    assert_end(&mut cluster, serial, steps, of);
}

fn each_first_and_each_leader(ms: &[u64], case: fn(NodeId, Leader, u64)) {
    for first in [1, 2, 3] {
        for what in LEADERS {
            ms.iter().for_each(|&ms| case(first, what, ms));
        }
    }
}

#[test]
fn retry_within_a_minute_gets_the_first_rcode_after_leader_faults() {
    each_first_and_each_leader(&[1, 10, 1_000, 60_000], answered_before);
}

#[test]
fn retry_after_290_s_gets_the_first_rcode_after_leader_faults() {
    each_first_and_each_leader(&[290_000], answered_before);
}

#[test]
fn retry_in_flight_is_executed_once_despite_leader_faults() {
    each_first_and_each_leader(&[0, 1, 2, 3, 4, 5, 6, 8], in_flight);
}
