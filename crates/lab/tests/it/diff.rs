//! Sends the same messages to catamaran and its peers. Every difference must be explained, and injected faults must be
//! found.
//!
//! By default each set is sampled; `CATAMARAN_TEST_FULL=1` sends all of it.

use crate::support::{Folder, data, root_zone, skip_unless_installed};
use compare::recorded::{self, Recorded};
use compare::response::{Reaction, Rr, flag};
use compare::run::{self, Collected, Generated, Plan};
use compare::{Response, Tally};
use testbed::{Kind, ServedZone};
use wire::number::{Rcode, Rtype};

/// Sends the messages, compares the answers, prints the report, and fails on unexplained differences.
fn compare(zones: Vec<ServedZone>, messages: &[Recorded], folder: &Folder) {
    let plan = Plan { ours: Kind::Catamaran, zones, messages, folder: folder.path(), progress: &|_| () };
    let collected = Collected::ask(&plan).unwrap();
    let mut tally = Tally::default();
    collected.judge(&mut tally, |_, _| ());
    for (class, cases) in tally.classes() {
        println!("{} unexplained: {class}\n{}", cases.len(), cases[0].text);
    }
    println!("{tally}");
    assert_eq!(tally.judged, messages.len() + tally.repeated_over_tcp);
    assert_eq!(tally.judged, tally.equal + tally.explained + tally.unexplained.len());
    assert_eq!(tally.unexplained.len(), 0, "differences that nothing explains");
    assert_eq!(tally.silent, 0, "catamaran answers all of these");
    faults_are_seen(&collected);
}

/// A judge that explains everything would pass too. So each fault is put into catamaran's answers and must be found.
fn faults_are_seen(collected: &Collected<'_>) {
    for (name, fault) in FAULTS {
        let mut tally = Tally::default();
        let mut count = 0;
        collected.judge(&mut tally, |index, reply| {
            if index % 3 == 0
                && let Reaction::Response(response) = &mut reply.reaction
                && fault(response)
            {
                count += 1;
            }
        });
        let found = tally.unexplained.len();
        println!("fault {name:<28} in {count:>5} responses, found in {found:>5}");
        assert!(found * 1_000 >= count * FOUND_PER_1000_MIN, "{name}: found {found} of {count}");
    }
}

/// How many of 1,000 injected faults must be found. Where peers stop earlier or answer FORMERR to a type that catamaran
/// looks up, fewer servers can be compared, so some faults stay unseen.
const FOUND_PER_1000_MIN: usize = 960;

/// Injects a fault. Returns false if the response has no place for it.
type Fault = fn(&mut Response) -> bool;

const FAULTS: &[(&str, Fault)] = &[
    ("AA is the other way", |response| {
        response.flags[flag::AA] ^= true;
        true
    }),
    ("another RCODE", |response| {
        response.rcode = if response.rcode == Rcode::NOERROR { Rcode::NXDOMAIN } else { Rcode::NOERROR };
        true
    }),
    ("one RR less in answer", |response| response.answer.pop_last().is_some()),
    ("other rdata in answer", |response| {
        response.answer.pop_first().is_some_and(|mut rr| {
            rr.rdata.last_mut().into_iter().for_each(|byte| *byte ^= 1);
            response.answer.insert(rr)
        })
    }),
    ("one RR less in authority", |response| response.authority.pop_first().is_some()),
    ("another TTL in authority", |response| {
        response.authority.pop_last().is_some_and(|rr| response.authority.insert(Rr { ttl: rr.ttl + 1, ..rr }))
    }),
    ("another RR in authority", |response| !response.flags[flag::TC] && response.authority.insert(foreign(Rtype::NS))),
    ("another RR in additional", |response| !response.flags[flag::TC] && response.additional.insert(foreign(Rtype::A))),
    ("an RR twice", |response| {
        response.duplicate_count = 1;
        true
    }),
];

fn foreign(rtype: Rtype) -> Rr {
    let rdata = if rtype == Rtype::A { vec![192, 0, 2, 200] } else { b"\x05false\0".to_vec() };
    Rr { owner: b"\x05false\0".to_vec(), rtype, class: wire::number::Class::IN, ttl: 60, rdata }
}

/// The first `count` messages, or all of them. Checks that there are `all` messages in total.
fn subset(mut messages: Vec<Recorded>, all: usize, count: usize) -> Vec<Recorded> {
    assert_eq!(messages.len(), all);
    if !skip::is_full_run() {
        messages.truncate(count);
    }
    messages
}

#[test]
fn root_server_capture() {
    let trace = data("captures/lroot-20161006-1354-knot-live.pcap.xz");
    let (Some(trace), Some(zone), false) = (trace, data("zones/root-20170821.zone.xz"), skip_unless_installed()) else {
        return;
    };
    let folder = Folder::new("capture");
    let messages = subset(recorded::read_pcap(&trace).unwrap(), 8_267, 2_000);
    compare(root_zone(&folder, &zone), &messages, &folder);
}

#[test]
fn root_queries_of_2001() {
    let trace = data("queries/root-queries-20011009-a.dnsperf.xz");
    let (Some(trace), Some(zone), false) = (trace, data("zones/root-20170821.zone.xz"), skip_unless_installed()) else {
        return;
    };
    let folder = Folder::new("queries");
    let messages = subset(recorded::read_dnsperf(&trace).unwrap(), 24_869, 1_000);
    compare(root_zone(&folder, &zone), &messages, &folder);
}

#[test]
fn generated_queries() {
    if skip_unless_installed() {
        return;
    }
    let folder = Folder::new("generated");
    let count = if skip::is_full_run() { 100_000 } else { 2_000 };
    let Generated { zones, messages } = run::generate(1, count, folder.path()).unwrap();
    assert_eq!(messages.len(), count);
    compare(zones, &messages, &folder);
}
