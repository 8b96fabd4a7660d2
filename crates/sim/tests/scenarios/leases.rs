//! Leases of `ack = all-live`: a member answers for such a zone only while it holds one.

use super::all_live::{answers, cluster, is_in, run_until_acknowledged};
use super::cluster::*;
use replica::io::{Input, NodeId};
use replica::limits::{LEASE_MS, ROTATION_CAUGHT_UP_MS};
use replica::peer::{Frame, LeaseGrant};

#[test]
fn partitioned_member_stops_answering_before_updates_resume() {
    let (mut cluster, leader, others) = cluster(3);
    let away = others[1];
    for &id in &[leader, others[0]] {
        cluster.cut.extend([(away, id), (id, away)]);
    }
    let cut_ms = cluster.now.monotonic_ms;
    let request = cluster.add(leader, &address(1));
    let mut silent_ms = None;
    while cluster.verdict(request).is_none() {
        cluster.run(10);
        if silent_ms.is_none() && !answers(&cluster, away) {
            silent_ms = Some(cluster.now.monotonic_ms);
        }
        assert!(cluster.now.monotonic_ms < cut_ms + 2_500, "the client got no response");
    }
    cluster.assert_done(request);
    let (silent_ms, acknowledged_ms) = (silent_ms.unwrap(), cluster.now.monotonic_ms);
    // The rates of the two clocks may differ by a tenth.
    assert!(
        silent_ms <= cut_ms + LEASE_MS && acknowledged_ms >= silent_ms + LEASE_MS / 10,
        "{cut_ms} {silent_ms} {acknowledged_ms}"
    );
    assert!(!cluster.has(away, &address(1)) && !answers(&cluster, away));
    // A late grant is useless: a lease starts at its request, and is only valid during one stay in the rotation.
    cluster.cut.clear();
    cluster.run(1_000);
    assert!(cluster.has(away, &address(1)) && !answers(&cluster, away));
    cluster.run(ROTATION_CAUGHT_UP_MS);
    assert!(answers(&cluster, away));
    cluster.assert_same();
}

#[test]
fn a_new_leader_waits_for_the_leases_of_the_one_before() {
    let (mut cluster, old, others) = cluster(5);
    // The leader keeps one other member and grants leases for a moment, so both still answer.
    let minority = [old, others[0]];
    for &id in &others[1..] {
        for of in minority {
            cluster.cut.extend([(of, id), (id, of)]);
        }
    }
    let mut new_leader = None;
    for _ in 0..300 {
        cluster.run(10);
        let new = others[1..].iter().copied().find(|&id| {
            let status = cluster.replica(id).status();
            status.role == replica::io::Role::Leader && cluster.replica(id).has_applied_own_term()
        });
        let Some(new) = new else { continue };
        let since_ms = cluster.now.monotonic_ms;
        let request = cluster.add(new, &address(1));
        assert_eq!(cluster.verdict(request), None);
        run_until_acknowledged(&mut cluster, request, &address(1), 2_400);
        assert!(cluster.now.monotonic_ms >= since_ms + LEASE_MS);
        assert!(minority.iter().all(|&id| !cluster.has(id, &address(1)) && !answers(&cluster, id)));
        new_leader = Some(new);
        break;
    }
    let new = new_leader.expect("there is no leader");
    let request = cluster.add(new, &address(2));
    cluster.assert_done(request);
    cluster.cut.clear();
    cluster.run(ROTATION_CAUGHT_UP_MS + 1_500);
    assert!(cluster.alive().into_iter().all(|id| answers(&cluster, id)));
    cluster.assert_same();
}

/// The leader counts from the arrival of the request. The member must not count from the arrival of the answer.
#[test]
fn lease_starts_at_the_time_of_the_request() {
    let (mut cluster, _, others) = cluster(3);
    cluster.way_ms = 40;
    let round_trip_ms = 2 * cluster.way_ms;
    cluster.run(2 * round_trip_ms);
    for _ in 0..200 {
        cluster.run(10);
        let (now_ms, until_ms) = (cluster.now.monotonic_ms, cluster.machines[&others[0]].lease_until_ms);
        assert!(until_ms + round_trip_ms <= now_ms + LEASE_MS, "{until_ms} at {now_ms}");
    }
    assert!(answers(&cluster, others[0]));
}

/// A leader without a majority does not know whether another one leads.
#[test]
fn a_leader_without_a_majority_grants_no_lease() {
    let (mut cluster, leader, others) = cluster(5);
    let minority = [leader, others[0]];
    for &id in &others[1..] {
        for of in minority {
            cluster.cut.extend([(of, id), (id, of)]);
        }
    }
    let cut_ms = cluster.now.monotonic_ms;
    let mut led_ms = 0;
    while cluster.replica(leader).status().role == replica::io::Role::Leader && led_ms < 3_000 {
        cluster.run(10);
        led_ms += 10;
        for id in minority {
            let until_ms = cluster.machines[&id].lease_until_ms;
            assert!(until_ms <= cut_ms + LEASE_MS, "{id} has a lease until {until_ms}, cut off at {cut_ms}");
        }
    }
    // Members send several requests per second, so the leader could have granted some.
    assert!(led_ms >= 300, "{led_ms}");
}

/// A member that returned to the rotation may lack updates until it has applied the entry that added it.
#[test]
fn lease_is_invalid_until_the_member_applied_its_rotation_entry() {
    let (mut cluster, leader, others) = cluster(3);
    let id = others[0];
    for of in [leader, others[1]] {
        cluster.cut.insert((of, id));
    }
    cluster.run(LEASE_MS / 2);
    assert!(answers(&cluster, id), "its last lease is still valid");
    let boot_id = cluster.replica(id).config().boot_id;
    let since = cluster.replica(id).state_hash().0 + 1_000;
    let at_ms = cluster.replica(id).lease_requested_ms().unwrap();
    let grant = replica::peer::LeaseGrant { boot_id, at_ms, since, shown: None };
    let frame = replica::peer::Frame::LeaseGrant(grant).encode(0);
    cluster.input(id, replica::io::Input::Peer { from: leader, frame });
    cluster.settle();
    assert!(!answers(&cluster, id), "it does not know of this stay in the rotation");
}

/// Runs until the leader has sent a lease to this member.
fn next_grant(cluster: &mut Cluster, leader: NodeId, id: NodeId) -> LeaseGrant {
    let grant = (0..100).find_map(|_| {
        cluster.run(10);
        cluster.on_the_way(leader, id).into_iter().find_map(|frame| match frame {
            Frame::LeaseGrant(grant) => Some(grant),
            _ => None,
        })
    });
    grant.expect("members send several requests per second")
}

#[test]
fn a_restarted_member_answers_only_by_a_lease_of_its_own() {
    let (mut cluster, leader, others) = cluster(3);
    let id = others[0];
    cluster.way_ms = 20;
    let late = next_grant(&mut cluster, leader, id);
    cluster.kill(id);
    cluster.start(id);
    cluster.machines.get_mut(&id).unwrap().lease_until_ms = 0;
    cluster.input(id, Input::Peer { from: leader, frame: Frame::LeaseGrant(late).encode(0) });
    cluster.settle();
    assert_eq!(cluster.machines[&id].lease_until_ms, 0, "the grant was for the process before");
    assert!(!answers(&cluster, id));
    cluster.way_ms = 0;
    cluster.run(500);
    // The member was away too briefly to leave the rotation.
    assert!(is_in(&cluster, leader, id) && answers(&cluster, id));
    let request = cluster.add(others[1], &address(1));
    cluster.assert_done(request);
    cluster.run(1_000);
    cluster.assert_same();
}

/// A copy of a member may have confirmed updates that the original lacks. The original is still in the rotation.
#[test]
fn lease_is_valid_only_after_all_acknowledged_entries_are_applied() {
    let (mut cluster, leader, others) = cluster(3);
    let id = others[0];
    let request = cluster.add(leader, &address(1));
    run_until_acknowledged(&mut cluster, request, &address(1), 500);
    let acknowledged = cluster.replica(leader).state_hash().0;
    cluster.way_ms = 20;
    let grant = next_grant(&mut cluster, leader, id);
    assert_eq!(grant.shown, Some(acknowledged));
    for of in [leader, others[1]] {
        cluster.cut.insert((of, id));
    }
    cluster.run(LEASE_MS / 2);
    assert!(answers(&cluster, id), "its last lease is still valid");
    let at_ms = cluster.replica(id).lease_requested_ms().unwrap();
    let mut hear = |shown| {
        let frame = Frame::LeaseGrant(LeaseGrant { at_ms, shown: Some(shown), ..grant }).encode(0);
        cluster.input(id, Input::Peer { from: leader, frame });
        cluster.settle();
        answers(&cluster, id)
    };
    assert!(!hear(acknowledged + 1), "it has not applied that entry");
}

/// A machine and its monotonic clock were paused. Afterwards its lease still looks valid.
#[test]
fn a_lease_is_void_once_the_wall_clock_shows_that_the_machine_was_paused() {
    for step_ms in [-3_600_000, -150, 150, 5_000] {
        let (mut cluster, leader, others) = cluster(3);
        let paused = others[1];
        cluster.cut_off(paused);
        assert!(answers(&cluster, paused));
        cluster.machines.get_mut(&paused).unwrap().wall_error_ms += step_ms;
        cluster.input(paused, Input::Tick);
        cluster.settle();
        assert!(!answers(&cluster, paused), "{step_ms}");
        assert_eq!(cluster.replica(paused).leases_voided(), 1);
        // When the member receives frames from the leader, it sends a request. Then it answers with the state that it
        // has.
        cluster.cut.clear();
        cluster.run(200);
        assert!(answers(&cluster, paused) && is_in(&cluster, leader, paused), "{step_ms}");
    }
}

#[test]
fn slewed_clock_keeps_the_lease() {
    let (mut cluster, _, others) = cluster(3);
    for _ in 0..200 {
        // A time service slews by at most 500 ppm. This is a hundred times as much.
        cluster.machines.get_mut(&others[1]).unwrap().wall_error_ms += 1;
        cluster.run(20);
        assert!(answers(&cluster, others[1]));
    }
    assert_eq!(cluster.replica(others[1]).leases_voided(), 0);
}

/// A grant that was on its way while the machine was paused is void.
#[test]
fn restored_machine_ignores_leases_requested_earlier() {
    let (mut cluster, leader, others) = cluster(3);
    let restored = others[1];
    cluster.cut.insert((leader, restored));
    cluster.run(100);
    assert!(answers(&cluster, restored));
    cluster.input(restored, Input::MachineRestored);
    cluster.settle();
    assert!(!answers(&cluster, restored));
    let grant = |at_ms| {
        let since = cluster.replica(leader).rotation()[&restored];
        let boot_id = cluster.replica(restored).config().boot_id;
        Frame::LeaseGrant(LeaseGrant { boot_id, at_ms, since, shown: None })
    };
    let grants: Vec<_> = (0..=50).map(|ago| grant(cluster.now.monotonic_ms - 10 * ago)).collect();
    for frame in grants {
        let frame = frame.encode(cluster.replica(restored).config().group);
        cluster.input(restored, Input::Peer { from: leader, frame });
        cluster.settle();
    }
    assert!(!answers(&cluster, restored));
    cluster.cut.clear();
    cluster.run(200);
    assert!(answers(&cluster, restored));
}
