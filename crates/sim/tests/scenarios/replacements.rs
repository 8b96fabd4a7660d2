//! A learner gets the vote of a removed member in one step, by a joint configuration.

use super::cluster::*;
use super::membership::{join_learner, voters};
use replica::io::{AdminCommand, AdminError, AdminReply};

/// The next leader completes the change, no matter at which step the first leader dies.
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
            assert!(!cluster.replica(id).is_joint());
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

/// The votes of both configurations count until the members leave the old one. A member that restarts in this time
/// knows both.
#[test]
fn a_member_that_starts_in_a_joint_configuration_knows_both_halves() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let new = join_learner(&mut cluster, leader);
    let gone = [1, 2, 3].into_iter().find(|&id| id != leader).unwrap();
    assert!(cluster.replica_mut(leader).propose_swap(gone, new));
    // The leader leaves the joint configuration at its next tick. Until then, all members are in it.
    cluster.settle();
    // The record of an update has the commit index of the previous update.
    for last in 1..=2 {
        let request = cluster.add(leader, &address(last));
        cluster.assert_done(request);
    }
    let joint = cluster.alive().into_iter().filter(|&id| cluster.replica(id).is_joint()).count();
    let other = [1, 2, 3].into_iter().find(|&id| id != leader && id != gone).unwrap();
    cluster.kill(other);
    cluster.start(other);
    assert_eq!((joint, cluster.replica(other).is_joint()), (4, true));
    let conf_state = cluster.replica(other).conf_state();
    assert_eq!(conf_state, cluster.replica(leader).conf_state());
    // In the end the settings decide: `gone` is still a member and gets its vote back, and `new` remains a learner.
    cluster.run(2_000);
    assert_eq!(voters(&cluster, leader), [1, 2, 3]);
    cluster.assert_same();
}

/// Members 1 to 4 in a joint configuration in which 4 takes the vote of `gone`. `leader` leads.
fn replacing(leader: u64, gone: u64) -> Cluster {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(leader, AdminCommand::TransferLeader { to: Some(leader) });
    assert_eq!(cluster.leader(), Some(leader));
    let new = join_learner(&mut cluster, leader);
    assert_eq!(new, 4);
    cluster.admin(leader, AdminCommand::ReplaceNode { gone, new });
    let is_joint = |cluster: &Cluster| (1..=4).all(|id| cluster.replica(id).is_joint());
    for _ in 0..10 {
        if !is_joint(&cluster) {
            cluster.run(10);
        }
    }
    assert!(is_joint(&cluster));
    cluster
}

/// The process of `leader` dies without a notification, and `next` campaigns first.
fn lead_instead(cluster: &mut Cluster, leader: u64, next: u64) {
    cluster.machines.get_mut(&leader).unwrap().replica = None;
    for id in cluster.alive() {
        cluster.replica_mut(id).forget_leader();
    }
    cluster.replica_mut(next).campaign_now();
    cluster.settle();
    assert_eq!(cluster.leader(), Some(next));
}

#[test]
fn a_leader_that_a_joint_configuration_leaves_behind_hands_over_first() {
    let mut cluster = replacing(1, 2);
    lead_instead(&mut cluster, 1, 2);
    // An election without a request to lead would take longer.
    cluster.run(200);
    let leader = cluster.leader().unwrap();
    assert!([3, 4].contains(&leader), "{leader} leads");
    cluster.run(500);
    assert_eq!(cluster.machines[&2].removed, Some(true));
    for id in [3, 4] {
        assert!(!cluster.replica(id).is_joint());
        assert_eq!(voters(&cluster, id), [1, 3, 4]);
    }
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
}

#[test]
fn staying_member_campaigns_before_a_leaving_one() {
    let mut cluster = replacing(2, 1);
    let term = cluster.replica(2).status().term;
    cluster.kill(2);
    cluster.run(10);
    assert_eq!((cluster.leader(), cluster.replica(3).status().term), (Some(3), term + 1));
    cluster.run(1_000);
    assert_eq!(voters(&cluster, 3), [2, 3, 4]);
}
