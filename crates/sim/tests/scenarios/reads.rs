//! Reads see everything acknowledged before them, even if a request is lost or the leader cannot answer yet.

use super::cluster::*;
use replica::io::{AdminCommand, Input, NodeId, Right, Verdict};
use replica::limits::FORWARD_AGAIN_MS;
use replica::peer::Frame;

fn is_read(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::ReadIndex { .. })))
}

fn is_read_answer(frame: &[u8]) -> bool {
    matches!(Frame::decode(frame), Ok((_, Frame::ReadIndexAnswer { .. })))
}

fn follower_of(cluster: &Cluster, leader: NodeId) -> NodeId {
    cluster.alive().into_iter().find(|&id| id != leader).unwrap()
}

#[test]
fn read_with_a_lost_request_or_answer_is_retried() {
    for lose in [is_read, is_read_answer] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let follower = follower_of(&cluster, leader);
        cluster.lose = lose;
        cluster.input(follower, Input::ReadIndex { request_id: 900 });
        cluster.run(100);
        assert!(!cluster.reads.contains_key(&900));
        cluster.lose = |_| false;
        cluster.run(FORWARD_AGAIN_MS);
        assert!(cluster.reads[&900].is_ok());
    }
}

#[test]
fn update_is_refused_although_the_first_read_was_lost() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = follower_of(&cluster, leader);
    cluster.admin_ok(leader, AdminCommand::Revoke { key: name("key."), zone: None, right: Right::Update });
    cluster.lose = is_read;
    let message = add(&address(1), 77, cluster.now.wall_ms);
    let request = cluster.update_looked_at(follower, message, "192.0.2.200:4000");
    cluster.run(100);
    cluster.lose = |_| false;
    cluster.run(FORWARD_AGAIN_MS);
    assert_eq!(cluster.verdict(request), Some(Verdict::Refused));
}

#[test]
fn read_before_the_leaders_first_entry_is_retried() {
    let mut cluster = Cluster::with_zone(3);
    let old = cluster.elect();
    // The next member leads, but its entries do not commit.
    cluster.lose = is_append_response;
    cluster.kill(old);
    cluster.run(200);
    let leader = cluster.leader().unwrap();
    let follower = follower_of(&cluster, leader);
    assert_eq!(cluster.replica(follower).brief_status().leader, Some(leader));
    assert!(!cluster.replica(leader).has_applied_own_term());
    for (request_id, id) in [(900, follower), (901, leader)] {
        cluster.input(id, Input::ReadIndex { request_id });
    }
    cluster.run(20);
    cluster.lose = |_| false;
    cluster.run(FORWARD_AGAIN_MS);
    assert!(cluster.reads[&900].is_ok() && cluster.reads[&901].is_ok());
    assert_eq!(cluster.leader(), Some(leader), "there was no other election");
}

#[test]
fn reads_see_all_earlier_acknowledged_updates() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let follower = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    for (request_id, id) in [(900, leader), (901, follower)] {
        cluster.input(id, Input::ReadIndex { request_id });
        cluster.settle();
        assert!(cluster.reads[&request_id].is_ok());
        assert!(cluster.has(id, &address(1)));
    }
    // A leader that is cut off confirms no read.
    for id in cluster.alive() {
        cluster.cut.insert((id, leader));
    }
    cluster.input(leader, Input::ReadIndex { request_id: 902 });
    cluster.run(3_000);
    assert!(cluster.reads[&902].is_err());
}
