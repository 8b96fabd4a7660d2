//! Members join, are removed, and get and lose votes.

use super::cluster::*;
use replica::Replica;
use replica::io::{AdminCommand, AdminError, AdminReply, Input, Serving};

fn join(cluster: &mut Cluster, at: u64, digest: [u8; 32]) -> u64 {
    let address = format!("[::1]:{}", 7100 + cluster.machines.len());
    let AdminReply::Joined { id } = cluster.admin_ok(at, AdminCommand::Join { digest, address }) else {
        panic!("not joined")
    };
    let mut machine = Machine::default();
    for op in Replica::init_joining(&cluster.config(id)) {
        machine.disk.contents_mut().execute(&op);
    }
    cluster.machines.insert(id, machine);
    cluster.start(id);
    id
}

#[test]
fn a_node_joins_with_a_token_and_becomes_a_voter() {
    let mut cluster = Cluster::with_zone(3);
    cluster.add(1, &address(1));
    let life_ms = 60_000;
    cluster.admin_ok(2, AdminCommand::CreateToken { digest: [3; 32], life_ms, is_learner: false });
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
fn revoked_token_cannot_join() {
    let mut cluster = Cluster::with_zone(3);
    let life_ms = 60_000;
    for (digest, is_learner) in [([5; 32], false), ([6; 32], true), ([7; 32], false)] {
        cluster.admin_ok(2, AdminCommand::CreateToken { digest, life_ms, is_learner });
    }
    let open = |cluster: &Cluster, id| -> Vec<u8> {
        cluster.replica(id).trust().join_tokens.iter().map(|token| token.digest[0]).collect()
    };
    assert_eq!(open(&cluster, 2), [5, 6, 7]);
    for digest in [[5; 32], [6; 32]] {
        assert_eq!(cluster.admin_ok(1, AdminCommand::RevokeToken { digest }), AdminReply::Done);
    }
    // A void, used or unknown token does not change.
    for digest in [[5; 32], [9; 32]] {
        assert_eq!(cluster.admin_ok(3, AdminCommand::RevokeToken { digest }), AdminReply::Unchanged);
    }
    cluster.run(200);
    for id in cluster.alive() {
        assert_eq!(open(&cluster, id), [7], "{id}");
    }
    for (digest, port) in [([5; 32], 7_095), ([6; 32], 7_096)] {
        let request = cluster.admin(1, AdminCommand::Join { digest, address: format!("[::1]:{port}") });
        cluster.run(200);
        assert_eq!(cluster.admin[&request], Err(AdminError::TokenInvalid));
    }
    assert_eq!(join(&mut cluster, 3, [7; 32]), 4);
    cluster.run(2_000);
    assert_eq!(open(&cluster, 1), [0; 0]);
    cluster.assert_same();
}

#[test]
fn a_follower_is_removed() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let gone = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: gone }), AdminReply::Done);
    assert_eq!(cluster.replica(leader).status().members.len(), 2);
    // The removed member stops answering immediately. It learns of its removal while the others still send to it.
    cluster.run(300);
    let removed = |cluster: &Cluster| (cluster.machines[&gone].removed, cluster.machines[&gone].serving);
    assert_eq!(removed(&cluster), (Some(true), Some(Serving::No)));
    assert!(cluster.replica(leader).membership().is_out(gone));
    // After a restart, the member knows that from its own log.
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
    // The node number is used again with its next incarnation.
    let add = AdminCommand::AddNode { node: gone as u32, address: "[::1]:7000".to_owned() };
    assert_eq!(cluster.admin_ok(leader, add), AdminReply::Joined { id: 1 << 32 | gone });
}

#[test]
fn absent_member_learns_of_its_removal() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let gone = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.kill(gone);
    assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: gone }), AdminReply::Done);
    cluster.run(300);
    let membership = cluster.replica(leader).membership();
    assert!(membership.is_out(gone) && !membership.is_out(leader));
    assert!(
        !membership.is_out(9) && !membership.is_out(1 << 32 | gone),
        "an id that never was a member is not a former member"
    );
    cluster.start(gone);
    cluster.run(6_000);
    // No member sends anything to it, so it answers like a member without a leader.
    assert_eq!((cluster.machines[&gone].removed, cluster.replica(gone).serving()), (None, Serving::Stale));
    // A report from a non-member is ignored.
    cluster.input(gone, Input::ReportedRemoved { by: 9 });
    cluster.run(10);
    assert_eq!(cluster.machines[&gone].removed, None);
    cluster.input(gone, Input::ReportedRemoved { by: leader });
    cluster.run(10);
    assert_eq!((cluster.machines[&gone].removed, cluster.machines[&gone].serving), (Some(true), Some(Serving::No)));
    cluster.run(6_000);
    assert_eq!(cluster.replica(gone).serving(), Serving::No);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
}

/// Adds a permanent learner.
pub(super) fn join_learner(cluster: &mut Cluster, at: u64) -> u64 {
    let life_ms = 60_000;
    let digest = [7; 32];
    cluster.admin_ok(at, AdminCommand::CreateToken { digest, life_ms, is_learner: true });
    let id = join(cluster, at, digest);
    cluster.run(2_000);
    id
}

pub(super) fn voters(cluster: &Cluster, at: u64) -> Vec<u64> {
    let members = cluster.replica(at).status().members;
    members.iter().filter(|member| member.is_voter).map(|member| member.member.id).collect()
}

#[test]
fn a_learner_answers_and_never_votes() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let learner = join_learner(&mut cluster, leader);
    assert_eq!(voters(&cluster, leader), [1, 2, 3]);
    assert_eq!(cluster.replica(learner).serving(), Serving::Yes);
    let request = cluster.add(learner, &address(1));
    cluster.run(50);
    cluster.assert_done(request);
    assert!(cluster.has(learner, &address(1)));
    // The member is still a learner after a restart, and from a checkpoint.
    cluster.kill(learner);
    cluster.start(learner);
    cluster.run(1_000);
    assert_eq!((voters(&cluster, learner), cluster.replica(learner).serving()), (vec![1, 2, 3], Serving::Yes));
    // Only one of three voters is alive. There is no leader, and the learner still answers.
    let dead: Vec<_> = [1, 2, 3].into_iter().filter(|&id| id != leader).collect();
    for &id in &dead {
        cluster.kill(id);
    }
    let term = cluster.replica(learner).status().term;
    cluster.run(3_000);
    assert_eq!(cluster.leader(), None);
    assert_eq!(cluster.replica(learner).status().term, term);
    assert_eq!(cluster.replica(learner).serving(), Serving::Yes);
    // The learner knows of no leader, although the last leader is alive and has stepped down.
    assert_eq!(cluster.replica(learner).status().leader, None);
    let request = cluster.add(learner, &address(2));
    assert_eq!(cluster.verdict(request), None);
    cluster.start(dead[0]);
    let leader = cluster.elect();
    cluster.run(1_000);
    assert_eq!(cluster.replica(learner).status().leader, Some(leader));
    cluster.assert_same();
}

#[test]
fn address_belongs_to_one_member_at_a_time() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let other = [1, 2, 3].into_iter().find(|&id| id != leader).unwrap();
    let life_ms = 60_000;
    let digest = [9; 32];
    cluster.admin_ok(leader, AdminCommand::CreateToken { digest, life_ms, is_learner: true });
    let member = |cluster: &Cluster, id| {
        let members = cluster.replica(leader).status().members;
        members.into_iter().find(|member| member.member.id == id).unwrap().member.address
    };
    for id in [leader, other] {
        let address = member(&cluster, id);
        let request = cluster.admin(leader, AdminCommand::Join { digest, address });
        cluster.run(200);
        assert_eq!(cluster.admin[&request], Err(AdminError::NodeExists));
    }
    // The machine of a removed member may join as another member, with a token that is still valid.
    cluster.kill(other);
    cluster.run(5_000);
    let address = member(&cluster, other);
    let reply = cluster.admin_ok(leader, AdminCommand::Join { digest, address });
    assert!(matches!(reply, AdminReply::Joined { .. }), "{reply:?}");
}

#[test]
fn commands_promote_and_demote_voters() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let learner = join_learner(&mut cluster, leader);
    let set = |votes| AdminCommand::SetVote { id: learner, votes };
    assert_eq!(cluster.admin_ok(learner, set(false)), AdminReply::Unchanged);
    assert_eq!(cluster.admin_ok(learner, set(true)), AdminReply::Done);
    assert_eq!(voters(&cluster, leader), [1, 2, 3, learner]);
    assert_eq!(cluster.admin_ok(leader, set(true)), AdminReply::Unchanged);
    assert_eq!(cluster.admin_ok(leader, set(false)), AdminReply::Done);
    cluster.run(500);
    assert_eq!(voters(&cluster, learner), [1, 2, 3]);
    // A leader hands over before its vote is removed.
    let refused = cluster.admin(learner, AdminCommand::SetVote { id: leader, votes: false });
    cluster.run(500);
    assert_eq!(cluster.admin[&refused], Err(AdminError::LeaderWouldGo));
    let command = AdminCommand::SetVote { id: leader, votes: false };
    assert_eq!(cluster.admin_ok(learner, command), AdminReply::Done);
    assert_eq!(voters(&cluster, learner).len(), 2);
    let unknown = cluster.admin(1, AdminCommand::SetVote { id: 99, votes: false });
    cluster.run(100);
    assert_eq!(cluster.admin[&unknown], Err(AdminError::NodeUnknown));
    cluster.assert_same();
}

/// The log of the removed leader has the removal. No other live log has it.
#[test]
fn a_leader_whose_own_removal_is_committed_leads_no_more() {
    let mut cluster = Cluster::with_zone(4);
    cluster.admin_ok(1, AdminCommand::TransferLeader { to: Some(1) });
    cluster.admin(1, AdminCommand::RemoveNode { id: 2 });
    cluster.cut = [(1, 3), (1, 4), (2, 1), (3, 1), (4, 1)].into();
    let last = |cluster: &Cluster, id| cluster.replica(id).brief_status().last_index;
    let before = last(&cluster, 2);
    for _ in 0..10 {
        if last(&cluster, 2) == before {
            cluster.run(10);
        }
    }
    assert_eq!([1, 2, 3, 4].map(|id| last(&cluster, id) - before), [1, 1, 0, 0]);
    cluster.cut.clear();
    cluster.machines.get_mut(&2).unwrap().removed = None;
    cluster.machines.get_mut(&1).unwrap().replica = None;
    for id in [2, 3, 4] {
        cluster.replica_mut(id).forget_leader();
    }
    cluster.replica_mut(2).campaign_now();
    let request = cluster.add(3, &address(1));
    cluster.run(2_000);
    assert_eq!(cluster.machines[&2].removed, Some(true));
    let leader = cluster.leader().unwrap();
    assert!([3, 4].contains(&leader), "{leader} leads");
    assert_eq!(voters(&cluster, leader), [1, 3, 4]);
    cluster.assert_done(request);
    let request = cluster.add(leader, &address(2));
    cluster.assert_done(request);
}
