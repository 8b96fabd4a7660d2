//! Members come and go.

use super::cluster::*;
use crate::Replica;
use crate::io::{AdminCommand, AdminError, AdminReply, Input, Serving};

fn join(cluster: &mut Cluster, at: u64, digest: [u8; 32]) -> u64 {
    let address = format!("[::1]:{}", 7100 + cluster.machines.len());
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
fn a_token_that_is_revoked_lets_nobody_in() {
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
    // A void, used or unknown token stays as it is.
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

/// With a voter that is gone for good and has the lowest number of those with the longest log.
#[test]
fn a_leader_that_stops_hands_over_to_one_that_lives() {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(2, AdminCommand::TransferLeader { to: Some(3) });
    assert_eq!(cluster.leader(), Some(3));
    cluster.kill(1);
    cluster.run(2_000);
    cluster.input(3, Input::Stop);
    cluster.run(200);
    assert!(cluster.machines[&3].is_stopped);
    assert_eq!(cluster.leader(), Some(2), "handed over, not left behind");
}

/// Whom nothing reaches any more looks alive for a moment; then the other gets it.
#[test]
fn a_hand_over_that_is_not_taken_goes_to_another() {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(2, AdminCommand::TransferLeader { to: Some(3) });
    cluster.cut.extend([(1, 3), (3, 1), (1, 2), (2, 1)]);
    cluster.input(3, Input::Stop);
    cluster.run(1_000);
    assert!(cluster.machines[&3].is_stopped);
    assert_eq!(cluster.leader(), Some(2));
}

#[test]
fn a_hand_over_is_done_when_another_leads() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    for (from, to) in [(others[0], others[1]), (others[0], others[0]), (leader, leader)] {
        let request = cluster.admin(from, AdminCommand::TransferLeader { to: Some(to) });
        cluster.run(100);
        assert_eq!((cluster.admin.get(&request), cluster.leader()), (Some(&Ok(AdminReply::Done)), Some(to)));
    }
    // The best of the others, then one that is none, then one that does not answer.
    assert_eq!(cluster.admin_ok(others[0], AdminCommand::TransferLeader { to: None }), AdminReply::Done);
    assert_ne!(cluster.leader(), Some(leader));
    let old = cluster.leader().unwrap();
    let unknown = cluster.admin(old, AdminCommand::TransferLeader { to: Some(9) });
    assert_eq!(cluster.admin[&unknown], Err(AdminError::NodeUnknown));
    cluster.kill(leader);
    let request = cluster.admin(old, AdminCommand::TransferLeader { to: Some(leader) });
    cluster.run(4_000);
    assert_eq!((&cluster.admin[&request], cluster.leader()), (&Err(AdminError::LeaderStayed), Some(old)));
}

#[test]
fn no_vote_is_taken_that_a_majority_needs() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    cluster.kill(others[0]);
    cluster.run(2_000);
    for command in [AdminCommand::RemoveNode { id: others[1] }, AdminCommand::SetVote { id: others[1], votes: false }] {
        let refused = cluster.admin(others[1], command);
        cluster.run(100);
        assert_eq!(cluster.admin[&refused], Err(AdminError::MajorityWouldGo));
    }
    // The other way round it helps.
    assert_eq!(cluster.admin_ok(others[1], AdminCommand::RemoveNode { id: others[0] }), AdminReply::Done);
    let request = cluster.add(others[1], &address(1));
    cluster.assert_done(request);
}

/// Joins as one that stays a learner.
fn join_learner(cluster: &mut Cluster, at: u64) -> u64 {
    let life_ms = 60_000;
    let digest = [7; 32];
    cluster.admin_ok(at, AdminCommand::CreateToken { digest, life_ms, is_learner: true });
    let id = join(cluster, at, digest);
    cluster.run(2_000);
    id
}

fn voters(cluster: &Cluster, at: u64) -> Vec<u64> {
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
    // Started again it still is one, and so it is from a checkpoint.
    cluster.kill(learner);
    cluster.start(learner);
    cluster.run(1_000);
    assert_eq!((voters(&cluster, learner), cluster.replica(learner).serving()), (vec![1, 2, 3], Serving::Yes));
    // Of three voters one lives: nobody leads, and it answers on.
    let dead: Vec<_> = [1, 2, 3].into_iter().filter(|&id| id != leader).collect();
    for &id in &dead {
        cluster.kill(id);
    }
    let term = cluster.replica(learner).status().term;
    cluster.run(3_000);
    assert_eq!(cluster.leader(), None);
    assert_eq!(cluster.replica(learner).status().term, term);
    assert_eq!(cluster.replica(learner).serving(), Serving::Yes);
    // And it knows of no leader, where the last one lives and has stepped down.
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
fn an_address_is_one_members_as_long_as_that_one_is_there() {
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
    // The machine of one that is gone may come back as another member, with the token that was good all the time.
    cluster.kill(other);
    cluster.run(5_000);
    let address = member(&cluster, other);
    let reply = cluster.admin_ok(leader, AdminCommand::Join { digest, address });
    assert!(matches!(reply, AdminReply::Joined { .. }), "{reply:?}");
}

#[test]
fn votes_are_given_and_taken_by_command() {
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
    // A leader hands over before its vote goes.
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

/// Whatever the moment at which the leader dies, the next one finishes what was begun.
#[test]
fn a_member_is_replaced_in_one_step_and_any_leader_finishes_it() {
    for die_after_ms in [None, Some(0), Some(10), Some(20), Some(50)] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let gone = [1, 2, 3].into_iter().find(|&id| id != leader).unwrap();
        let new = join_learner(&mut cluster, leader);
        cluster.kill(gone);
        cluster.run(2_000);
        let request = cluster.admin(new, AdminCommand::ReplaceNode { gone, new });
        if let Some(ms) = die_after_ms {
            cluster.run(ms);
            cluster.kill(leader);
            cluster.run(1_000);
            cluster.start(leader);
        }
        cluster.run(3_000);
        assert_eq!(cluster.admin.get(&request), Some(&Ok(AdminReply::Done)), "{die_after_ms:?}");
        let rest: Vec<_> = [1, 2, 3, new].into_iter().filter(|&id| id != gone).collect();
        for &id in &rest {
            assert_eq!(voters(&cluster, id), rest, "{die_after_ms:?}");
            assert!(!cluster.replica(id).driver.is_joint());
        }
        let request = cluster.add(new, &address(1));
        cluster.run(100);
        cluster.assert_done(request);
        cluster.assert_same();
    }
}

#[test]
fn a_replacement_needs_a_learner_that_has_caught_up() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let gone = [1, 2, 3].into_iter().find(|&id| id != leader).unwrap();
    let learner = join_learner(&mut cluster, leader);
    let replace = |gone, new| AdminCommand::ReplaceNode { gone, new };
    let mut refused = |command| {
        let request = cluster.admin(leader, command);
        cluster.run(100);
        cluster.admin[&request].clone()
    };
    assert_eq!(refused(replace(gone, leader)), Err(AdminError::NodeVotes));
    assert_eq!(refused(replace(gone, 99)), Err(AdminError::NodeUnknown));
    assert_eq!(refused(replace(99, learner)), Err(AdminError::NodeUnknown));
    cluster.kill(learner);
    cluster.run(2_000);
    let request = cluster.admin(leader, replace(gone, learner));
    cluster.run(100);
    assert_eq!(cluster.admin[&request], Err(AdminError::NodeBehind));
    assert_eq!(voters(&cluster, leader), [1, 2, 3]);
}

/// The votes of both configurations count until the old one is left; a member that starts again meanwhile knows it.
#[test]
fn a_member_that_starts_in_a_joint_configuration_knows_both_halves() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let new = join_learner(&mut cluster, leader);
    let gone = [1, 2, 3].into_iter().find(|&id| id != leader).unwrap();
    let change = crate::raft::ConfChange::Swap { gone, new };
    let entered = cluster.replica_mut(leader).driver.propose_conf_change(change, Vec::new());
    assert!(entered.is_ok());
    // The leader takes the step that leaves it at its next tick; until then all are in it.
    cluster.settle();
    // The record of an update carries the commit index of the one before it.
    for last in 1..=2 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    let joint = cluster.alive().into_iter().filter(|&id| cluster.replica(id).driver.is_joint()).count();
    let other = [1, 2, 3].into_iter().find(|&id| id != leader && id != gone).unwrap();
    cluster.kill(other);
    cluster.start(other);
    assert_eq!((joint, cluster.replica(other).driver.is_joint()), (4, true));
    let conf_state = cluster.replica(other).driver.conf_state();
    assert_eq!(conf_state, cluster.replica(leader).driver.conf_state());
    // What the settings say holds in the end: `gone` is a member and gets its vote back, `new` stays a learner.
    cluster.run(2_000);
    assert_eq!(voters(&cluster, leader), [1, 2, 3]);
    cluster.assert_same();
}

/// Members 1 to 4, of which 3 leads and 4 does not live.
fn four_with_a_dead_one() -> Cluster {
    let mut cluster = Cluster::with_zone(4);
    cluster.admin_ok(1, AdminCommand::TransferLeader { to: Some(3) });
    assert_eq!(cluster.leader(), Some(3));
    cluster.kill(4);
    cluster.run(2_000);
    cluster
}

/// Each of the two could be spared, both cannot.
#[test]
fn two_votes_are_not_taken_at_once() {
    let remove = |id| AdminCommand::RemoveNode { id };
    let demote = |id| AdminCommand::SetVote { id, votes: false };
    for commands in [[remove(1), remove(2)], [demote(1), demote(2)], [remove(1), demote(2)], [demote(1), remove(2)]] {
        let mut cluster = four_with_a_dead_one();
        let requests = commands.map(|command| cluster.admin(3, command));
        cluster.run(2_000);
        let results = requests.map(|request| cluster.admin.get(&request).cloned());
        assert_eq!(results, [Some(Ok(AdminReply::Done)), Some(Err(AdminError::MajorityWouldGo))]);
        assert_eq!(voters(&cluster, 3), [2, 3, 4]);
        let request = cluster.add(3, &address(1));
        cluster.assert_done(request);
    }
}

/// What a replacement takes and gives is there before anything else is taken, also from the one that is to vote.
#[test]
fn no_vote_is_taken_before_a_replacement_is_over() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let others: Vec<_> = [1, 2, 3].into_iter().filter(|&id| id != leader).collect();
    let new = join_learner(&mut cluster, leader);
    cluster.kill(others[1]);
    cluster.run(2_000);
    let replaced = cluster.admin(leader, AdminCommand::ReplaceNode { gone: others[0], new });
    let refused = cluster.admin(leader, AdminCommand::RemoveNode { id: new });
    cluster.run(2_000);
    assert_eq!(cluster.admin.get(&replaced), Some(&Ok(AdminReply::Done)));
    assert_eq!(cluster.admin.get(&refused), Some(&Err(AdminError::MajorityWouldGo)));
    let request = cluster.add(new, &address(1));
    cluster.run(100);
    cluster.assert_done(request);
}

/// Who is to vote and does not come is no change under way, and goes as anybody does.
#[test]
fn a_member_that_does_not_come_keeps_no_other_from_going() {
    let mut cluster = Cluster::with_zone(4);
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    let dead = join_learner(&mut cluster, leader);
    cluster.kill(dead);
    cluster.run(2_000);
    let waits = cluster.admin(leader, AdminCommand::SetVote { id: dead, votes: true });
    let add = AdminCommand::AddNode { node: 9, address: "[::1]:7009".to_owned() };
    assert_eq!(cluster.admin_ok(leader, add), AdminReply::Joined { id: 9 });
    for command in [
        AdminCommand::RemoveNode { id: others[0] },
        AdminCommand::SetVote { id: others[1], votes: false },
        AdminCommand::RemoveNode { id: 9 },
        AdminCommand::RemoveNode { id: dead },
    ] {
        assert_eq!(cluster.admin_ok(leader, command), AdminReply::Done);
    }
    assert_eq!(cluster.admin.get(&waits), None);
    let mut rest = vec![leader, others[2]];
    rest.sort_unstable();
    assert_eq!(voters(&cluster, leader), rest);
    assert_eq!(cluster.replica(leader).status().members.len(), 3);
}

/// The vote was given up for one that lags when it is due, and nobody could decide anything without either.
#[test]
fn a_vote_stays_until_the_rest_has_a_majority() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let others: Vec<_> = [1, 2, 3].into_iter().filter(|&id| id != leader).collect();
    let (gone, dead) = (others[0], others[1]);
    let new = join_learner(&mut cluster, leader);
    cluster.kill(dead);
    cluster.run(2_000);
    let replaced = cluster.admin(leader, AdminCommand::ReplaceNode { gone, new });
    cluster.cut = [(leader, new), (new, leader)].into();
    for last in 1..=150 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    cluster.run(2_000);
    assert!(cluster.replica(leader).driver.incoming_voters().contains(&gone));
    let request = cluster.add(leader, &address(200));
    cluster.assert_done(request);
    cluster.cut.clear();
    cluster.run(2_000);
    assert_eq!(cluster.admin.get(&replaced), Some(&Ok(AdminReply::Done)));
    let mut rest = vec![leader, dead, new];
    rest.sort_unstable();
    assert_eq!(voters(&cluster, leader), rest);
}

/// Who decided that 2 goes died at once, and 3 can do nothing without 2 before 1 is out.
#[test]
fn a_dead_member_goes_before_one_whose_vote_is_needed() {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(1, AdminCommand::TransferLeader { to: Some(1) });
    cluster.admin(1, AdminCommand::RemoveNode { id: 2 });
    cluster.kill(1);
    cluster.run(2_000);
    assert_eq!((cluster.leader(), voters(&cluster, 3)), (Some(3), vec![1, 3]));
    assert_eq!(cluster.replica(3).driver.incoming_voters(), [1, 2, 3]);
    let request = cluster.add(3, &address(1));
    cluster.assert_done(request);
    assert_eq!(cluster.admin_ok(3, AdminCommand::RemoveNode { id: 1 }), AdminReply::Done);
    assert_eq!(cluster.replica(3).driver.incoming_voters(), [3]);
    assert_eq!(cluster.machines[&2].removed, Some(true));
    let request = cluster.add(3, &address(2));
    cluster.assert_done(request);
}

/// Members 1 to 4, all of them in the joint configuration in which 4 takes the vote of `gone`, and `leader` leads.
fn replacing(leader: u64, gone: u64) -> Cluster {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(leader, AdminCommand::TransferLeader { to: Some(leader) });
    assert_eq!(cluster.leader(), Some(leader));
    let new = join_learner(&mut cluster, leader);
    assert_eq!(new, 4);
    cluster.admin(leader, AdminCommand::ReplaceNode { gone, new });
    let is_joint = |cluster: &Cluster| (1..=4).all(|id| cluster.replica(id).driver.is_joint());
    for _ in 0..10 {
        if !is_joint(&cluster) {
            cluster.run(10);
        }
    }
    assert!(is_joint(&cluster));
    cluster
}

/// The process of `leader` is gone, unseen, and `next` is the first that campaigns.
fn lead_instead(cluster: &mut Cluster, leader: u64, next: u64) {
    cluster.machines.get_mut(&leader).unwrap().replica = None;
    for id in cluster.alive() {
        cluster.replica_mut(id).driver.forget_leader();
    }
    cluster.replica_mut(next).driver.campaign();
    cluster.settle();
    assert_eq!(cluster.leader(), Some(next));
}

#[test]
fn a_leader_that_a_joint_configuration_leaves_behind_hands_over_first() {
    let mut cluster = replacing(1, 2);
    lead_instead(&mut cluster, 1, 2);
    // Sooner than anybody could be elected that was not asked to lead.
    cluster.run(200);
    let leader = cluster.leader().unwrap();
    assert!([3, 4].contains(&leader), "{leader} leads");
    cluster.run(500);
    assert_eq!(cluster.machines[&2].removed, Some(true));
    for id in [3, 4] {
        assert!(!cluster.replica(id).driver.is_joint());
        assert_eq!(voters(&cluster, id), [1, 3, 4]);
    }
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
}

#[test]
fn who_stays_campaigns_before_who_is_to_go() {
    let mut cluster = replacing(2, 1);
    let term = cluster.replica(2).status().term;
    cluster.kill(2);
    cluster.run(10);
    assert_eq!((cluster.leader(), cluster.replica(3).status().term), (Some(3), term + 1));
    cluster.run(1_000);
    assert_eq!(voters(&cluster, 3), [2, 3, 4]);
}

/// The removal is in the log of the one that it removes, and in no other that lives.
#[test]
fn a_leader_whose_own_removal_is_committed_leads_no_more() {
    let mut cluster = Cluster::with_zone(4);
    cluster.admin_ok(1, AdminCommand::TransferLeader { to: Some(1) });
    cluster.admin(1, AdminCommand::RemoveNode { id: 2 });
    cluster.cut = [(1, 3), (1, 4), (2, 1), (3, 1), (4, 1)].into();
    let last = |cluster: &Cluster, id| cluster.replica(id).driver.last_index();
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
        cluster.replica_mut(id).driver.forget_leader();
    }
    cluster.replica_mut(2).driver.campaign();
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
