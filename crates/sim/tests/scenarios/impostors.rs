//! Answers from a member that was not asked are ignored.

use super::cluster::*;
use replica::io::{AckOption, AdminCommand, AdminReply, Input, NodeId, OptionsChange};
use replica::limits::LEASE_GUARD_MS;
use replica::peer::{Frame, LeaseGrant};
use replica::testing::Answer;
use wire::number::Rcode;

/// A cluster with slow links. Returns the leader, a follower that asks, and a follower that lies.
fn cluster() -> (Cluster, NodeId, NodeId, NodeId) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.run(LEASE_GUARD_MS + 100);
    cluster.way_ms = 20;
    (cluster, leader, leader % 3 + 1, (leader + 1) % 3 + 1)
}

fn send_forged(cluster: &mut Cluster, from: NodeId, to: NodeId, frame: &Frame) {
    let refused = cluster.replica(to).status().invariant_violations.refused_messages;
    cluster.input(to, Input::Peer { from, frame: frame.encode(0) });
    cluster.settle();
    assert_eq!(cluster.replica(to).status().invariant_violations.refused_messages, refused + 1, "{frame:?}");
}

#[test]
fn outcome_counts_only_from_the_leader_that_got_the_update() {
    let answers = [
        Answer::Repeat { rcode: Rcode::NOERROR, index: 1 },
        Answer::BadTime,
        Answer::NotProposed,
        Answer::Overloaded,
        Answer::Done { index: 1 },
        Answer::Proposed { index: 1, term: 1 },
    ];
    let (mut cluster, leader, asker, liar) = cluster();
    for (last, answer) in (1..).zip(answers) {
        let request = cluster.add(asker, &address(last));
        let token = cluster.on_the_way(asker, leader).into_iter().find_map(|frame| match frame {
            Frame::Forward { token, .. } => Some(token),
            _ => None,
        });
        send_forged(&mut cluster, liar, asker, &Frame::Answer { token: token.unwrap(), answer });
        assert_eq!(cluster.verdict(request), None, "{answer:?}");
        cluster.run(300);
        cluster.assert_done(request);
        assert!(cluster.has(leader, &address(last)));
    }
}

#[test]
fn read_index_counts_only_from_the_queried_leader() {
    let (mut cluster, leader, asker, liar) = cluster();
    cluster.input(asker, Input::ReadIndex { request_id: 7 });
    cluster.settle();
    let token = cluster.on_the_way(asker, leader).into_iter().find_map(|frame| match frame {
        Frame::ReadIndex { token } => Some(token),
        _ => None,
    });
    send_forged(&mut cluster, liar, asker, &Frame::ReadIndexAnswer { token: token.unwrap(), index: 1 });
    assert!(!cluster.reads.contains_key(&7));
    cluster.run(300);
    assert!(cluster.reads[&7].is_ok());
}

#[test]
fn lease_counts_only_from_the_leader_that_got_the_request() {
    let (mut cluster, leader, asker, liar) = cluster();
    cluster.way_ms = 0;
    let change = OptionsChange { ack: Some(AckOption::AllLive), ..OptionsChange::default() };
    let command = AdminCommand::SetZoneOptions { zone: zone_id("example.test."), change };
    assert_eq!(cluster.admin_ok(asker, command), AdminReply::Done);
    cluster.way_ms = 20;
    let ask = (0..20).find_map(|_| {
        cluster.run(10);
        cluster.on_the_way(asker, leader).into_iter().find_map(|frame| match frame {
            Frame::LeaseRequest(ask) => Some(ask),
            _ => None,
        })
    });
    let (ask, until_ms) = (ask.unwrap(), cluster.machines[&asker].lease_until_ms);
    let since = *cluster.replica(asker).rotation().get(&asker).unwrap();
    let grant = LeaseGrant { boot_id: ask.boot_id, at_ms: ask.at_ms, since, shown: None };
    cluster.input(asker, Input::Peer { from: liar, frame: Frame::LeaseGrant(grant).encode(0) });
    cluster.settle();
    assert_eq!(cluster.machines[&asker].lease_until_ms, until_ms);
    cluster.input(asker, Input::Peer { from: leader, frame: Frame::LeaseGrant(grant).encode(0) });
    cluster.settle();
    assert!(cluster.machines[&asker].lease_until_ms > until_ms);
}
