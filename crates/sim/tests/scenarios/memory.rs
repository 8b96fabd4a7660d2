//! The zones of one member exceed its reserved memory.

use super::cluster::*;
use replica::io::{FatalReason, Serving};
use replica::{OpenError, Replica};
use wire::number::Rtype;
use zone::Record;
use zone::set::StoreConfig;

/// The memory of the small member.
const SMALL: StoreConfig = StoreConfig { reserve_bytes: 256 << 10, huge_pages: false };

fn large(number: usize) -> Record {
    let string = [&[200][..], &[b'x'; 200]].concat();
    let owner = name(&format!("m{number}.example.test."));
    Record { owner, rtype: Rtype::TXT, ttl: 60, rdata: string.repeat(4).into() }
}

#[test]
fn a_member_whose_memory_is_full_stops_before_the_entry_and_never_goes_on_without_it() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let small = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.kill(small);
    let config = |cluster: &Cluster| replica::ReplicaConfig { store: SMALL, ..cluster.config(small) };
    let start = config(&cluster);
    cluster.start_with(small, start);
    cluster.run(500);
    let mut count = 0;
    while cluster.machines[&small].fatal.is_none() {
        count += 1;
        assert!(count < 2_000, "the member is never full");
        let request = cluster.add(leader, &large(count));
        cluster.run(20);
        cluster.assert_done(request);
    }
    assert_eq!(cluster.machines[&small].fatal, Some(FatalReason::MemoryFull));
    assert_eq!(cluster.machines[&small].serving, Some(Serving::No));
    assert!(!cluster.has(small, &large(count)));
    cluster.kill(small);
    cluster.machines.get_mut(&small).unwrap().fatal = None;
    // After a restart the member reaches the same entry before any contact with a peer, and does not skip it.
    for _ in 0..2 {
        let opened = Replica::open(&cluster.machines[&small].disk, config(&cluster), cluster.now);
        assert_eq!(opened.err(), Some(OpenError::Full));
    }
    // The others continue. So does this member with more memory.
    let request = cluster.add(leader, &address(1));
    cluster.run(100);
    cluster.assert_done(request);
    cluster.start(small);
    cluster.run(1_000);
    cluster.assert_same();
    assert!(cluster.has(small, &large(count)) && cluster.has(small, &address(1)));
}
