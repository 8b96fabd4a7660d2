//! A vote is not removed if the other members need it for a majority.

use super::cluster::*;
use super::membership::{join_learner, voters};
use replica::io::{AdminCommand, AdminError, AdminReply};

#[test]
fn the_last_voter_stays() {
    let mut cluster = Cluster::with_zone(1);
    let refused = cluster.admin(1, AdminCommand::RemoveNode { id: 1 });
    cluster.run(100);
    assert_eq!(cluster.admin[&refused], Err(AdminError::LastVoter));
}

#[test]
fn demotion_of_a_voter_that_the_majority_needs_is_refused() {
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
    // The removal of the other one is permitted.
    assert_eq!(cluster.admin_ok(others[1], AdminCommand::RemoveNode { id: others[0] }), AdminReply::Done);
    let request = cluster.add(others[1], &address(1));
    cluster.assert_done(request);
}

/// Members 1 to 4. Member 3 leads, and 4 is dead.
fn four_with_a_dead_one() -> Cluster {
    let mut cluster = Cluster::with_zone(4);
    cluster.admin_ok(1, AdminCommand::TransferLeader { to: Some(3) });
    assert_eq!(cluster.leader(), Some(3));
    cluster.kill(4);
    cluster.run(2_000);
    cluster
}

/// Each of the two votes is dispensable, but not both.
#[test]
fn concurrent_demotions_are_refused() {
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

/// A replacement must complete before another vote is removed, even that of the promoted member.
#[test]
fn demotion_is_refused_during_a_replacement() {
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

/// A future voter that never arrives does not count as a change in progress, and can be removed.
#[test]
fn absent_learner_does_not_block_a_removal() {
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

/// The voter's vote was given to a learner that lags when the removal is due. Without the voter there would be no
/// majority.
#[test]
fn voter_stays_until_the_rest_has_a_majority() {
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
    assert!(cluster.replica(leader).voters()[0].contains(&gone));
    let request = cluster.add(leader, &address(200));
    cluster.assert_done(request);
    cluster.cut.clear();
    cluster.run(2_000);
    assert_eq!(cluster.admin.get(&replaced), Some(&Ok(AdminReply::Done)));
    let mut rest = vec![leader, dead, new];
    rest.sort_unstable();
    assert_eq!(voters(&cluster, leader), rest);
}

/// The leader that decided the removal of 2 has died. Without 2, member 3 has no majority until 1 is removed.
#[test]
fn dead_member_is_removed_before_a_needed_voter() {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(1, AdminCommand::TransferLeader { to: Some(1) });
    cluster.admin(1, AdminCommand::RemoveNode { id: 2 });
    cluster.kill(1);
    cluster.run(2_000);
    assert_eq!((cluster.leader(), voters(&cluster, 3)), (Some(3), vec![1, 3]));
    assert_eq!(cluster.replica(3).voters()[0], [1, 2, 3]);
    let request = cluster.add(3, &address(1));
    cluster.assert_done(request);
    assert_eq!(cluster.admin_ok(3, AdminCommand::RemoveNode { id: 1 }), AdminReply::Done);
    assert_eq!(cluster.replica(3).voters()[0], [3]);
    assert_eq!(cluster.machines[&2].removed, Some(true));
    let request = cluster.add(3, &address(2));
    cluster.assert_done(request);
}
