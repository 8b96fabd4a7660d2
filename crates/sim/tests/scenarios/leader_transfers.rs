//! Hand-overs of the leadership: before a removal, at a stop, and on command.

use super::cluster::*;
use replica::io::{AdminCommand, AdminError, AdminReply, Input};

#[test]
fn leader_transfers_leadership_before_its_removal() {
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

/// A dead voter has the lowest number among the members with the longest log.
#[test]
fn stopping_leader_transfers_to_a_live_member() {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(2, AdminCommand::TransferLeader { to: Some(3) });
    assert_eq!(cluster.leader(), Some(3));
    cluster.kill(1);
    cluster.run(2_000);
    cluster.input(3, Input::Stop);
    cluster.run(200);
    assert!(cluster.machines[&3].is_stopped);
    assert_eq!(cluster.leader(), Some(2), "the leadership was handed over");
}

/// A member that is cut off briefly looks alive. Then the other member gets the leadership.
#[test]
fn failed_leader_transfer_is_retried_with_another_member() {
    let mut cluster = Cluster::with_zone(3);
    cluster.admin_ok(2, AdminCommand::TransferLeader { to: Some(3) });
    cluster.cut.extend([(1, 3), (3, 1), (1, 2), (2, 1)]);
    cluster.input(3, Input::Stop);
    cluster.run(1_000);
    assert!(cluster.machines[&3].is_stopped);
    assert_eq!(cluster.leader(), Some(2));
}

#[test]
fn leader_transfer_completes_when_another_member_leads() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let others: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    for (from, to) in [(others[0], others[1]), (others[0], others[0]), (leader, leader)] {
        let request = cluster.admin(from, AdminCommand::TransferLeader { to: Some(to) });
        cluster.run(100);
        assert_eq!((cluster.admin.get(&request), cluster.leader()), (Some(&Ok(AdminReply::Done)), Some(to)));
    }
    // Transfers to the best other member, then to a non-member, then to a member that does not answer.
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
