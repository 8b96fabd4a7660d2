//! Members come and go.

use super::cluster::*;
use crate::Replica;
use crate::io::{AdminCommand, AdminError, AdminReply, Input, Serving};

fn join(cluster: &mut Cluster, at: u64, digest: [u8; 32]) -> u64 {
    let address = "[::1]:7099".to_owned();
    let AdminReply::Joined { id } = cluster.admin_ok(at, AdminCommand::Join { digest, address }) else {
        panic!("not joined")
    };
    let mut machine = Machine::default();
    for op in Replica::init_joining(&cluster.config(id)) {
        machine.disk.execute(&op);
    }
    cluster.machines.insert(id, machine);
    cluster.start(id);
    id
}

#[test]
fn a_node_joins_with_a_token_and_becomes_a_voter() {
    let mut cluster = Cluster::with_zone(3);
    cluster.add(1, &address(1));
    let expires_wall_ms = cluster.now.wall_ms + 60_000;
    cluster.admin_ok(2, AdminCommand::CreateToken { digest: [3; 32], expires_wall_ms });
    let id = join(&mut cluster, 3, [3; 32]);
    assert_eq!(id, 4);
    cluster.run(2_000);
    let status = cluster.replica(id).status();
    assert_eq!(status.serving, Serving::Yes);
    assert!(status.members.iter().all(|member| member.is_voter), "{:?}", status.members);
    assert!(cluster.has(id, &address(1)));
    let request = cluster.add(id, &address(2));
    cluster.assert_done(request);
    let again = AdminCommand::Join { digest: [3; 32], address: "[::1]:7098".to_owned() };
    let again = cluster.admin(1, again);
    cluster.run(200);
    assert_eq!(cluster.admin[&again], Err(AdminError::TokenInvalid));
    cluster.run(200);
    cluster.assert_same();
    // Two of four are no majority, three are.
    let leader = cluster.elect();
    let rest: Vec<_> = cluster.alive().into_iter().filter(|&other| other != leader).collect();
    cluster.kill(rest[0]);
    let request = cluster.add(leader, &address(3));
    cluster.assert_done(request);
    cluster.kill(rest[1]);
    let request = cluster.add(leader, &address(4));
    assert_eq!(cluster.verdict(request), None);
}

#[test]
fn a_follower_is_removed() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let gone = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: gone }), AdminReply::Done);
    assert_eq!(cluster.replica(leader).status().members.len(), 2);
    // It stops answering at once, and learns that it is out while the others still talk to it.
    cluster.run(300);
    let removed = |cluster: &Cluster| (cluster.machines[&gone].removed, cluster.machines[&gone].serving);
    assert_eq!(removed(&cluster), (Some(true), Some(Serving::No)));
    assert!(cluster.replica(leader).membership().is_out(gone));
    // Started again it knows it from its own log.
    cluster.kill(gone);
    cluster.machines.get_mut(&gone).unwrap().removed = None;
    cluster.start(gone);
    cluster.run(6_000);
    assert_eq!(removed(&cluster).0, Some(true));
    assert_eq!(cluster.replica(gone).serving(), Serving::No);
    cluster.kill(gone);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    let unknown = cluster.admin(leader, AdminCommand::RemoveNode { id: gone });
    cluster.run(100);
    assert_eq!(cluster.admin[&unknown], Err(AdminError::NodeUnknown));
    // The number comes back under its next incarnation.
    let add = AdminCommand::AddNode { node: gone as u32, address: "[::1]:7000".to_owned() };
    assert_eq!(cluster.admin_ok(leader, add), AdminReply::Joined { id: 1 << 32 | gone });
}

#[test]
fn a_member_that_was_away_when_it_was_removed_is_told() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let gone = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.kill(gone);
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: gone }), AdminReply::Done);
    cluster.run(300);
    let membership = cluster.replica(leader).membership();
    assert!(membership.is_out(gone) && !membership.is_out(leader));
    assert!(!membership.is_out(9) && !membership.is_out(1 << 32 | gone), "who never was a member is not out");
    cluster.start(gone);
    cluster.run(6_000);
    // Nobody sends it anything: by itself it answers as one that hears no leader.
    assert_eq!((cluster.machines[&gone].removed, cluster.replica(gone).serving()), (None, Serving::Stale));
    // One that is no member has no say.
    cluster.input(gone, Input::ToldRemoved { by: 9 });
    cluster.run(10);
    assert_eq!(cluster.machines[&gone].removed, None);
    cluster.input(gone, Input::ToldRemoved { by: leader });
    cluster.run(10);
    assert_eq!((cluster.machines[&gone].removed, cluster.machines[&gone].serving), (Some(true), Some(Serving::No)));
    cluster.run(6_000);
    assert_eq!(cluster.replica(gone).serving(), Serving::No);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
}

#[test]
fn a_leader_hands_over_before_it_is_removed() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let refused = cluster.admin(leader, AdminCommand::RemoveNode { id: leader });
    cluster.run(500);
    assert_eq!(cluster.admin[&refused], Err(AdminError::LeaderWouldGo));
    let new = cluster.leader().unwrap();
    assert_ne!(new, leader);
    assert_eq!(cluster.admin_ok(new, AdminCommand::RemoveNode { id: leader }), AdminReply::Done);
    cluster.kill(leader);
    let request = cluster.add(new, &address(1));
    cluster.run(100);
    cluster.assert_done(request);
}

#[test]
fn the_last_voter_stays() {
    let mut cluster = Cluster::with_zone(1);
    let refused = cluster.admin(1, AdminCommand::RemoveNode { id: 1 });
    cluster.run(100);
    assert_eq!(cluster.admin[&refused], Err(AdminError::LastVoter));
}
