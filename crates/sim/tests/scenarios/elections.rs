//! Elections: the first leader, and changes of the leader.

use super::cluster::*;
use raft::eraftpb::MessageType;
use replica::io::{FatalReason, Input, Role, Serving};
use replica::limits::{CAMPAIGN_RANK_MS, CONTACT_NOTE_MS};
use replica::peer::Frame;

#[test]
fn one_leads_and_all_serve() {
    for count in [1, 3, 5] {
        let mut cluster = Cluster::new(count);
        let leader = cluster.elect();
        cluster.run(200);
        for id in cluster.alive() {
            let status = cluster.replica(id).status();
            assert_eq!(status.leader, Some(leader));
            assert_eq!(status.serving, Serving::Yes);
            assert_eq!(cluster.machines[&id].serving, Some(Serving::Yes));
            assert!(status.staleness_ms <= 100, "{}", status.staleness_ms);
        }
        cluster.assert_same();
    }
}

/// A single node needs no election timeout.
#[test]
fn a_member_alone_leads_at_once() {
    let mut cluster = Cluster::new(1);
    for _ in 0..2 {
        cluster.run(20);
        assert_eq!(cluster.leader(), Some(1));
        cluster.kill(1);
        cluster.start(1);
    }
}

#[test]
fn a_killed_leader_is_replaced_at_once_by_evidence_and_rank() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let before = cluster.now.monotonic_ms;
    cluster.kill(leader);
    cluster.settle();
    let new = cluster.leader().expect("the first in rank needs no clock");
    assert_ne!(new, leader);
    assert_eq!(cluster.now.monotonic_ms, before);
    let request = cluster.add(new, &address(1));
    cluster.assert_done(request);
}

#[test]
fn the_next_in_rank_campaigns_when_the_first_does_not_win() {
    let mut cluster = Cluster::new(5);
    let leader = cluster.elect();
    let rest: Vec<_> = cluster.alive().into_iter().filter(|&id| id != leader).collect();
    // The first in rank learns that the leader is gone, but all its links are cut.
    cluster.cut_off(rest[0]);
    cluster.kill(leader);
    cluster.settle();
    cluster.run(CAMPAIGN_RANK_MS - 10);
    assert_eq!(cluster.leader(), None);
    cluster.run(10);
    assert_eq!(cluster.leader(), Some(rest[1]));
}

#[test]
fn another_boot_id_is_evidence_too() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    for id in cluster.alive() {
        if id != leader {
            cluster.input(id, Input::PeerConnected { id: leader, boot_id: 1 });
            cluster.input(id, Input::PeerConnected { id: leader, boot_id: 2 });
        }
    }
    cluster.settle();
    cluster.run(100);
    assert!(cluster.leader().is_some_and(|id| id != leader));
    cluster.run(500);
    cluster.assert_same();
}

#[test]
fn a_partitioned_leader_is_replaced_by_the_time_limit() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.cut_off(leader);
    // The leader is gone without a refused connection, so there is no evidence.
    for id in cluster.alive().into_iter().filter(|&id| id != leader) {
        cluster.input(id, Input::PeerGone { id: leader, refused: false });
    }
    cluster.run(200);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.run(1_000);
    let new = cluster.leader().unwrap();
    assert_ne!(new, leader);
    // The old leader has stepped down and knows how stale its data is. It still answers.
    let status = cluster.replica(leader).status();
    assert_ne!(status.role, replica::io::Role::Leader);
    assert_eq!(status.serving, Serving::Yes);
    assert!((900..10_000).contains(&status.staleness_ms), "{}", status.staleness_ms);
}

#[test]
fn staleness_counts_from_the_last_confirmation_across_a_restart_and_in_quiet_times() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    // Nothing is written for much longer than the interval of contact records.
    cluster.run(2 * CONTACT_NOTE_MS);
    for id in [1, 2, 3] {
        cluster.lose_power(id);
    }
    for id in [1, 2, 3] {
        cluster.start(id);
        cluster.run(1_000);
        let status = cluster.replica(id).status();
        let right = 1_000..CONTACT_NOTE_MS + 10_000;
        assert!(right.contains(&status.staleness_ms), "{id} of leader {leader}: {}", status.staleness_ms);
        cluster.lose_power(id);
    }
}

#[test]
fn a_leader_whose_disk_hangs_hands_over_and_then_stops() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.machines.get_mut(&leader).unwrap().hung = Some(Vec::new());
    let request = cluster.add(leader, &address(1));
    cluster.run(400);
    assert_eq!(cluster.leader(), Some(leader));
    cluster.run(400);
    assert_ne!(cluster.leader(), Some(leader));
    assert_eq!(cluster.replica(leader).status().counters.disk_hung_transfers, 1);
    // With two of three disks, the others have the update. Here they do not, because the disk does not have it.
    let other = cluster.leader().unwrap();
    cluster.run(500);
    assert!(cluster.has(other, &address(1)));
    assert!(!cluster.has(leader, &address(1)));
    let mut revived = cluster.machines[&leader].fatal;
    assert_eq!(revived, None);
    cluster.run(10_000);
    revived = cluster.machines[&leader].fatal;
    assert_eq!(revived, Some(FatalReason::DiskHung));
    let _ = request;
}

#[test]
fn a_disk_that_hangs_briefly_loses_nothing() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.machines.get_mut(&leader).unwrap().hung = Some(Vec::new());
    let request = cluster.add(leader, &address(1));
    cluster.run(2_000);
    cluster.unhang(leader);
    cluster.run(1_000);
    cluster.assert_done(request);
    cluster.assert_same();
}

#[test]
fn a_pause_of_the_process_is_not_taken_for_a_disk_that_hangs() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.machines.get_mut(&leader).unwrap().hung = Some(Vec::new());
    let request = cluster.add(leader, &address(1));
    // All processes were stopped or suspended while a record was on its way to the disk.
    cluster.now.monotonic_ms += 60_000;
    cluster.now.wall_ms += 60_000;
    cluster.run(200);
    assert_eq!(cluster.machines[&leader].fatal, None);
    assert_eq!(cluster.replica(leader).status().counters.disk_hung_transfers, 0);
    cluster.unhang(leader);
    cluster.run(3_000);
    assert!(cluster.has(leader, &address(1)));
    let _ = request;
    cluster.assert_same();
}

#[test]
fn a_start_that_takes_long_is_no_time_without_a_leader_or_a_disk() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let slow = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.run(500);
    cluster.kill(slow);
    for id in cluster.alive() {
        cluster.cut.extend([(slow, id), (id, slow)]);
    }
    // The time at which a replica is opened was taken before its log was read.
    cluster.machines.get_mut(&slow).unwrap().hung = Some(Vec::new());
    cluster.start(slow);
    cluster.now.monotonic_ms += 60_000;
    cluster.now.wall_ms += 60_000;
    cluster.run(100);
    cluster.unhang(slow);
    cluster.run(4_000);
    assert_eq!(cluster.machines[&slow].fatal, None);
    assert_eq!(cluster.replica(slow).serving(), Serving::No);
    cluster.run(2_000);
    assert_eq!(cluster.replica(slow).serving(), Serving::Stale);
}

#[test]
fn a_leader_that_stops_hands_over_first() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.input(leader, Input::Stop);
    cluster.settle();
    cluster.run(50);
    assert!(cluster.machines[&leader].is_stopped);
    assert!(cluster.leader().is_some_and(|id| id != leader));
    // A single member has no successor.
    let mut cluster = Cluster::with_zone(1);
    cluster.input(1, Input::Stop);
    cluster.settle();
    cluster.run(50);
    assert!(cluster.machines[&1].is_stopped);
}

/// Makes a member remember an update that was never sent.
fn corrupt(cluster: &mut Cluster, id: u64) {
    cluster.replica_mut(id).remember_unsent_update(&name("key."));
}

#[test]
fn a_state_that_differs_is_fenced() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let victim = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    corrupt(&mut cluster, victim);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    cluster.run(500);
    let status = cluster.replica(victim).status();
    assert!(status.is_fenced);
    assert_eq!(cluster.machines[&victim].serving, Some(Serving::No));
    assert!(status.invariant_violations.hash_mismatches > 0);
    assert!(cluster.replica(leader).status().invariant_violations.hash_mismatches > 0);
    // The member's log is correct: the others still commit with it.
    let third = cluster.alive().into_iter().find(|&id| id != leader && id != victim).unwrap();
    cluster.kill(third);
    let request = cluster.add(leader, &address(2));
    cluster.run(100);
    cluster.assert_done(request);
    // The wrong state was only in memory. The log and the last good checkpoint lead to the correct state.
    cluster.start(third);
    cluster.kill(victim);
    cluster.start(victim);
    cluster.run(1_000);
    assert_eq!(cluster.machines[&victim].serving, Some(Serving::Yes));
    assert!(!cluster.replica(victim).status().is_fenced);
    let hashes: std::collections::BTreeSet<_> = [1, 2, 3].map(|id| cluster.replica(id).state_hash()).into();
    assert_eq!(hashes.len(), 1);
}

/// Returns a leader, a fenced follower, and a healthy follower.
fn with_fenced_follower() -> (Cluster, u64, u64, u64) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let mut rest = cluster.alive();
    rest.retain(|&id| id != leader);
    corrupt(&mut cluster, rest[0]);
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    cluster.run(500);
    assert!(cluster.replica(rest[0]).status().is_fenced);
    (cluster, leader, rest[0], rest[1])
}

#[test]
fn a_fenced_member_votes_for_another_once_its_leader_is_silent() {
    let (mut cluster, leader, fenced, third) = with_fenced_follower();
    // The leader's host vanishes without refused connections, so there is no evidence.
    cluster.cut = [fenced, third].into_iter().flat_map(|id| [(leader, id), (id, leader)]).collect();
    for id in [fenced, third] {
        cluster.input(id, Input::PeerGone { id: leader, refused: false });
    }
    cluster.run(1_500);
    assert_eq!(cluster.leader(), Some(third));
    let request = cluster.add(third, &address(2));
    cluster.run(100);
    cluster.assert_done(request);
    // A fenced member never campaigns, even if there is no leader for a long time.
    cluster.kill(third);
    let term = cluster.replica(fenced).status().term;
    cluster.run(5_000);
    assert_eq!(cluster.replica(fenced).status().term, term);
    assert_eq!(cluster.replica(fenced).status().role, Role::Follower);
}

#[test]
fn a_leader_in_the_minority_hands_over_and_is_fenced() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    corrupt(&mut cluster, leader);
    let mut rest = cluster.alive();
    rest.retain(|&id| id != leader);
    let token = replica::io::AdminCommand::CreateToken { digest: [1; 32], life_ms: 60_000, is_learner: false };
    cluster.admin(rest[0], token);
    cluster.run(1_000);
    assert!(cluster.replica(leader).status().is_fenced);
    let new = cluster.leader().unwrap();
    assert_ne!(new, leader);
    let request = cluster.add(rest[0], &address(1));
    cluster.run(100);
    cluster.assert_done(request);
}

#[test]
fn a_fenced_member_is_handed_no_leadership() {
    // The healthy member becomes leader, although the fenced one has the lower number.
    let (mut cluster, leader, fenced, third) = with_fenced_follower();
    cluster.input(leader, Input::Stop);
    cluster.run(50);
    assert!(cluster.machines[&leader].is_stopped);
    assert_eq!(cluster.leader(), Some(third), "not {fenced}");
    // If there is no other member and the leader does not know that, it continues to lead.
    let (mut cluster, leader, fenced, third) = with_fenced_follower();
    cluster.kill(third);
    let to = Some(fenced);
    let request = cluster.admin(leader, replica::io::AdminCommand::TransferLeader { to });
    cluster.run(4_000);
    assert_eq!(cluster.admin[&request], Err(replica::io::AdminError::LeaderStayed));
    assert_eq!(cluster.leader(), Some(leader));
    let request = cluster.add(leader, &address(2));
    cluster.run(100);
    cluster.assert_done(request);
}

#[test]
fn fenced_leader_retries_a_failed_transfer() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    corrupt(&mut cluster, leader);
    let mut rest = cluster.alive();
    rest.retain(|&id| id != leader);
    cluster.lose = |frame| match Frame::decode(frame) {
        Ok((_, Frame::Raft(message))) => message.get_msg_type() == MessageType::MsgTimeoutNow,
        _ => false,
    };
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    cluster.run(500);
    assert!(cluster.replica(leader).status().is_fenced);
    assert_eq!(cluster.leader(), Some(leader));
    // From here on, no majority can decide which state is correct.
    cluster.kill(rest[0]);
    cluster.lose = |_| false;
    cluster.run(1_500);
    assert_eq!(cluster.leader(), Some(rest[1]));
    let request = cluster.add(rest[1], &address(2));
    cluster.run(100);
    cluster.assert_done(request);
}

/// A follower with a hung disk is behind by more entries than the ring has hashes, and its state differs.
#[test]
fn a_member_that_lags_far_behind_is_compared_too() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.run(1_000);
    let lagging = cluster.alive().into_iter().find(|&id| id != leader).unwrap();
    cluster.machines.get_mut(&lagging).unwrap().hung = Some(Vec::new());
    for round in 0..replica::limits::HASH_RING_MAX + 100 {
        let id = u16::try_from(round).unwrap();
        // The table of sessions is small, so updates signed earlier are forgotten.
        cluster.now.wall_ms += 2;
        let message = add(&address(round as u8), id, cluster.now.wall_ms);
        cluster.update_bytes(leader, message, "192.0.2.200:4000");
        if round % 10 == 0 {
            cluster.settle();
        }
        if round % 50 == 0 {
            cluster.run(10);
        }
    }
    cluster.run(100);
    let behind = cluster.replica(leader).state_hash().0 - cluster.replica(lagging).state_hash().0;
    assert!(behind > replica::limits::HASH_RING_MAX as u64, "{behind}");
    assert!(!cluster.replica(lagging).status().is_fenced);
    cluster.replica_mut(lagging).replace_hashes();
    cluster.run(2_500);
    assert!(cluster.replica(lagging).status().is_fenced);
    assert!(cluster.replica(leader).status().invariant_violations.hash_mismatches > 0);
    assert_eq!(cluster.machines[&lagging].fatal, None);
}
