//! The trust between members is part of each member's state, and survives the member that created it.

use super::cluster::*;
use replica::io::{AdminCommand, AdminError, AdminReply, CredentialProgress, Input, TrustCommand};
use replica::{Ca, DataKey, ReplicaConfig};

fn add_ca(number: u32) -> AdminCommand {
    let (certificate, key) = (vec![0x30, number as u8], vec![number as u8; 138]);
    AdminCommand::Trust(TrustCommand::AddCa { number, certificate, key, nonce: [number as u8; 12] })
}

fn stand(accepts: u32, issued_by: u32) -> AdminCommand {
    AdminCommand::Trust(TrustCommand::ReportCredentials {
        progress: CredentialProgress { accepts, issued_by, renewal: 0, expires_s: 9, data_key: 1 },
    })
}

#[test]
fn any_member_can_issue_after_the_ca_founder_is_gone() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    assert_eq!(cluster.admin_ok(leader, add_ca(1)), AdminReply::Done);
    assert_eq!(
        cluster.admin_ok(leader % 3 + 1, add_ca(1)),
        AdminReply::Unchanged,
        "another member already added the same CA"
    );
    let AdminReply::Checkpoint { .. } = cluster.admin_ok(leader, AdminCommand::Checkpoint) else { panic!() };
    cluster.kill(leader);
    cluster.elect();
    let expected = Ca { number: 1, certificate: vec![0x30, 1], key: Some(vec![1; 138]) };
    for id in cluster.alive() {
        assert_eq!(cluster.replica(id).trust().issuing(), Some(&expected), "at {id}");
    }
    // The leader restores it from its checkpoint and from its log.
    cluster.start(leader);
    for id in [1, 2, 3] {
        cluster.kill(id);
        cluster.start(id);
    }
    cluster.elect();
    assert!([1, 2, 3].into_iter().all(|id| cluster.replica(id).trust().issuing() == Some(&expected)));
    cluster.assert_same();
    // A member with another data key sees that there is a CA, but cannot read its key.
    cluster.kill(2);
    let config = ReplicaConfig { data_key: DataKey::new(1, &[5; 32]), ..cluster.config(2) };
    cluster.start_with(2, config);
    assert_eq!(cluster.replica(2).trust().issuing(), Some(&Ca { key: None, ..expected }));
}

#[test]
fn a_ca_issues_once_all_members_accept_it() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (use_2, remove_1) = (TrustCommand::UseCa { number: 2 }, TrustCommand::RemoveCa { number: 1 });
    let (use_2, remove_1) = (AdminCommand::Trust(use_2), AdminCommand::Trust(remove_1));
    cluster.admin_ok(leader, add_ca(1));
    cluster.admin_ok(leader, add_ca(2));
    for id in [1, 2, 3] {
        let early = cluster.admin(leader, use_2.clone());
        cluster.run(500);
        assert_eq!(cluster.admin[&early], Err(AdminError::MembersBehind), "before {id}");
        assert_eq!(cluster.admin_ok(id, stand(2, 1)), AdminReply::Done);
    }
    assert_eq!(cluster.admin_ok(leader % 3 + 1, use_2.clone()), AdminReply::Done);
    assert_eq!(cluster.admin_ok(leader, use_2), AdminReply::Unchanged);
    let early = cluster.admin(leader, remove_1.clone());
    cluster.run(500);
    assert_eq!(cluster.admin[&early], Err(AdminError::MembersBehind));
    [1, 2, 3].into_iter().for_each(|id| assert_eq!(cluster.admin_ok(id, stand(2, 2)), AdminReply::Done));
    assert_eq!(cluster.admin_ok(leader, remove_1), AdminReply::Done);
    let status = cluster.replica(3).status();
    assert!(status.members.iter().all(|member| member.credentials.is_some_and(|progress| progress.issued_by == 2)));
    assert_eq!(cluster.replica(3).trust().cas.len(), 1);
    cluster.assert_same();
}

/// Sets which of the test's keys a member has.
fn hold(cluster: &mut Cluster, id: u64, numbers: &[u32]) {
    let keys = [(1, [9; 32]), (2, [8; 32])].into_iter().filter(|(number, _)| numbers.contains(number));
    let mut keys = keys.collect::<Vec<_>>().into_iter();
    let (number, first) = keys.next().unwrap();
    let keys = keys.fold(DataKey::new(number, &first), |all, (number, key)| all.with(number, &key));
    cluster.input(id, Input::DataKeys { keys });
    cluster.settle();
}

fn trust(command: TrustCommand) -> AdminCommand {
    AdminCommand::Trust(command)
}

#[test]
fn secrets_are_resealed_with_the_new_data_key() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.admin_ok(leader, add_ca(1));
    let can_open = |cluster: &Cluster, id: u64| {
        let is_issuer = cluster.replica(id).trust().issuing().is_some_and(|issuing| issuing.key.is_some());
        (cluster.replica(id).key_table().len(), is_issuer)
    };
    assert!([1, 2, 3].into_iter().all(|id| can_open(&cluster, id) == (1, true)));
    cluster.admin_ok(2, trust(TrustCommand::BeginDataKey { number: 2, digest: [2; 32] }));
    assert_eq!(cluster.replica(3).trust().next_data_key, Some((2, [2; 32])));
    for id in [1, 2, 3] {
        let early = cluster.admin(leader, trust(TrustCommand::UseDataKey { number: 2 }));
        cluster.run(500);
        assert_eq!(cluster.admin[&early], Err(AdminError::MembersBehind), "before {id}");
        hold(&mut cluster, id, &[1, 2]);
        let progress = CredentialProgress { data_key: 2, ..CredentialProgress::default() };
        cluster.admin_ok(id, trust(TrustCommand::ReportCredentials { progress }));
    }
    cluster.admin_ok(leader, trust(TrustCommand::UseDataKey { number: 2 }));
    assert!(cluster.replica(leader).trust().is_sealed_before);
    let reseal = || trust(TrustCommand::Reseal { nonces: vec![[5; 12], [6; 12], [7; 12]] });
    assert_eq!(cluster.admin_ok(leader % 3 + 1, reseal()), AdminReply::Done);
    assert_eq!(cluster.admin_ok(leader, reseal()), AdminReply::Unchanged);
    assert!(!cluster.replica(leader).trust().is_sealed_before);
    for id in [1, 2, 3] {
        hold(&mut cluster, id, &[2]);
        assert_eq!(can_open(&cluster, id), (1, true), "at {id}");
    }
    let request = cluster.add(leader, &address(1));
    cluster.assert_done(request);
    cluster.assert_same();
    // A removed member with only the old key cannot open anything. Secrets that it seals are refused.
    hold(&mut cluster, 3, &[1]);
    assert_eq!(can_open(&cluster, 3), (0, false));
    let add = AdminCommand::AddKey {
        name: name("late."),
        algorithm: tsig::KeyAlgorithm::HmacSha256,
        secret: vec![1; 32],
        nonce: [4; 12],
    };
    let request = cluster.admin(3, add);
    cluster.run(500);
    assert_eq!(cluster.admin[&request], Err(AdminError::DataKeyOld));
}

#[test]
fn trust_changes_are_refused_below_the_feature_level() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let last = cluster.replica(leader).status().last_index;
    for id in [1, 2, 3] {
        cluster.replica_mut(id).pretend_feature_level(1);
    }
    let begin = trust(TrustCommand::BeginDataKey { number: 2, digest: [2; 32] });
    for (id, command) in [(leader, add_ca(1)), (leader % 3 + 1, stand(1, 1)), (leader, begin)] {
        let request = cluster.admin(id, command);
        assert_eq!(cluster.admin[&request], Err(AdminError::LevelTooLow), "at once, at {id}");
    }
    cluster.run(500);
    assert_eq!(cluster.replica(leader).status().last_index, last);
    assert!(cluster.replica(leader).trust().cas.is_empty());
}
