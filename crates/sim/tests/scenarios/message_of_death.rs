//! An update whose evaluation panics. The leader survives, and the client gets an outcome.

use super::cluster::*;
use replica::io::{Right, Verdict};
use replica::testing::panics::{EVALUATION_LABEL, plan_evaluation};
use std::collections::BTreeSet;
use wire::number::{Rcode, Rtype};
use zone::Record;

fn panic_record() -> Record {
    let owner = format!("{EVALUATION_LABEL}.example.test.");
    Record { owner: name(&owner), rtype: Rtype::A, ttl: 60, rdata: [192, 0, 2, 9].into() }
}

fn panics(cluster: &Cluster) -> Vec<u64> {
    let ids = cluster.alive().into_iter();
    ids.map(|id| cluster.replica(id).status().invariant_violations.evaluation_panics).collect()
}

#[test]
fn panic_in_evaluation_does_not_stop_the_leader() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    plan_evaluation(true);
    let fatal = add(&panic_record(), 900, cluster.now.wall_ms);
    let expected = Some(Verdict::Answer(Rcode::SERVFAIL));
    // It is sent through the leader, through a follower, and as a repeat at all members. It is evaluated once.
    for id in [leader, 1, 2, 3] {
        let request = cluster.update_bytes(id, fatal.clone(), "192.0.2.200:4000");
        cluster.settle();
        cluster.run(100);
        assert_eq!(cluster.verdict(request), expected, "through member {id}");
    }
    assert_eq!(panics(&cluster).iter().sum::<u64>(), 1);
    assert_eq!(cluster.replica(leader).status().invariant_violations.evaluation_panics, 1);
    assert_eq!(cluster.leader(), Some(leader));

    // The next leader knows the update from the log and does not evaluate it.
    cluster.kill(leader);
    let next = cluster.elect();
    for id in cluster.alive() {
        let request = cluster.update_bytes(id, fatal.clone(), "192.0.2.200:4000");
        cluster.settle();
        cluster.run(100);
        assert_eq!(cluster.verdict(request), expected, "through member {id}, under the next leader");
    }
    assert_eq!(panics(&cluster), [0, 0]);

    // The update left no trace, and other updates of the same batch are executed.
    cluster.start(leader);
    cluster.run(500);
    let wall_ms = cluster.now.wall_ms;
    let before = cluster.serial(next);
    let mut batch = Vec::new();
    for (index, record) in [address(1), panic_record(), address(2)].iter().enumerate() {
        let message = add(record, 901 + index as u16, wall_ms);
        batch.push(cluster.update_bytes(next, message, "192.0.2.200:4000"));
    }
    cluster.settle();
    cluster.run(100);
    let outcomes: Vec<_> = batch.into_iter().map(|request| cluster.verdict(request)).collect();
    let done = Some(Verdict::Answer(Rcode::NOERROR));
    assert_eq!(outcomes, [done, expected, done]);
    let hashes: BTreeSet<_> = cluster.alive().into_iter().map(|id| cluster.replica(id).state_hash()).collect();
    assert_eq!(hashes.len(), 1, "{hashes:?}");
    for id in [1, 2, 3] {
        assert!(!cluster.has(id, &panic_record()), "member {id}");
        assert!(cluster.has(id, &address(1)) && cluster.has(id, &address(2)), "member {id}");
        assert_eq!(cluster.serial(id), before + 2, "member {id}");
        assert!(cluster.replica(id).is_granted(&name("key."), &zone_id("example.test."), Right::Update));
    }
}
