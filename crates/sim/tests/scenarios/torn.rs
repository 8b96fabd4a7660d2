//! The last record of a log is torn, by a crash during its write or by a disk that later lost a sector. The member cuts
//! the record. It must not help to elect a leader that may lack acknowledged entries. A cluster must not wait without
//! need.

use super::cluster::*;
use replica::disk::{DiskOp, DiskRead};
use replica::io::{AdminCommand, FatalReason, NodeId, Serving, SuspectedLoss};
use replica::log::Repair;
use replica::log::limits::SECTOR_BYTES;
use wire::number::Rtype;
use zone::Record;

/// A record that fills more than one sector of the log.
fn large_text() -> Record {
    let text = [b'x'; 250];
    let rdata = [[250].as_slice(), &text, &[250], &text].concat();
    Record { owner: name("large.example.test."), rtype: Rtype::TXT, ttl: 60, rdata: rdata.into() }
}

/// The newest segment of a member's log, and the offsets of the sectors of its last record.
fn last_record(cluster: &Cluster, id: NodeId) -> (String, Vec<usize>) {
    let disk = cluster.machines[&id].disk.contents();
    let files = disk.list().unwrap().into_iter().map(|(file, _)| file);
    let file = files.filter(|file| file.starts_with("log-")).max().unwrap();
    let sectors = disk.bytes(&file).unwrap().chunks(SECTOR_BYTES);
    let written = sectors.enumerate().filter(|(_, sector)| sector.iter().any(|byte| *byte != 0));
    let (mut offsets, mut begin) = (Vec::new(), 0);
    for (number, sector) in written {
        if sector[1..5] == *b"CtLg" {
            begin = offsets.len();
        }
        offsets.push(number * SECTOR_BYTES);
    }
    (file, offsets.split_off(begin))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sector {
    First,
    Last,
    /// The only sector of a record, which is followed by its seal.
    Only,
}

impl Sector {
    /// An update whose record has such a sector.
    fn update(self) -> Record {
        if self == Self::Only { address(1) } else { large_text() }
    }
}

/// The disk loses a sector of the last record.
fn lose_sector(cluster: &mut Cluster, id: NodeId, which: Sector) {
    let (file, sectors) = last_record(cluster, id);
    assert_eq!(sectors.len() > 1, which != Sector::Only, "{sectors:?}");
    let offset = match which {
        Sector::First => sectors[0],
        Sector::Last => *sectors.last().unwrap(),
        Sector::Only => sectors[0] - SECTOR_BYTES,
    };
    cluster.machines.get_mut(&id).unwrap().disk.contents_mut().zero_sector(&file, offset);
}

fn is_cut(cluster: &Cluster, id: NodeId) -> bool {
    cluster.replica(id).repairs().iter().any(|repair| matches!(repair, Repair::TailCut { .. }))
}

/// Interrupts a member's write. All sectors of the last record except one are written, and no entry was acknowledged.
fn crash_while_writing(cluster: &mut Cluster, id: NodeId, without: Sector) {
    let machine = cluster.machines.get_mut(&id).unwrap();
    for job in machine.hung.take().unwrap() {
        for op in job.ops {
            machine.disk.contents_mut().execute(&op);
            if let DiskOp::Write { file, offset, data: bytes } = op {
                let last = offset as usize + bytes.len() - SECTOR_BYTES;
                let lost = if without == Sector::Last { last } else { offset as usize };
                machine.disk.contents_mut().zero_sector(&file, lost);
            }
        }
    }
    cluster.kill(id);
}

/// The leader and a second member store an update while the third is cut off, and the update is acknowledged. Then the
/// leader's machine and the second member's process die. The second member's disk has lost a sector of the update.
fn an_update_on_a_torn_record(which: Sector) -> (Cluster, [NodeId; 2]) {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    cluster.run(1_000);
    let (second, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    cluster.cut_off(third);
    let request = cluster.add(leader, &which.update());
    cluster.assert_done(request);
    cluster.kill(leader);
    cluster.kill(second);
    lose_sector(&mut cluster, second, which);
    cluster.cut.clear();
    cluster.start(second);
    (cluster, [leader, second])
}

#[test]
fn an_acknowledged_update_survives_a_lost_sector_of_its_record() {
    for which in [Sector::First, Sector::Last, Sector::Only] {
        let (mut cluster, [leader, second]) = an_update_on_a_torn_record(which);
        assert!(is_cut(&cluster, second), "{which:?}");
        assert!(cluster.machines[&second].suspected_loss.is_some_and(|loss| loss.is_torn), "{which:?}");
        cluster.run(10_000);
        assert_eq!(cluster.leader(), None, "{which:?}: the third lacks what was acknowledged");
        assert_eq!(cluster.machines[&second].unreported_voters, [leader], "{which:?}: the third has shown its log");
        let status = cluster.replica(second).brief_status();
        assert_eq!(
            (status.suspected_loss, status.unreported_voters),
            (cluster.machines[&second].suspected_loss, vec![leader])
        );
        // The suspected loss survives a restart, although the first job of the process has overwritten the torn record.
        cluster.kill(second);
        cluster.start(second);
        assert!(!is_cut(&cluster, second));
        cluster.run(3_000);
        assert_eq!(cluster.leader(), None, "{which:?}");
        cluster.start(leader);
        cluster.run(3_000);
        assert_eq!(cluster.leader(), Some(leader), "{which:?}");
        for id in cluster.alive() {
            assert!(cluster.has(id, &which.update()), "{which:?}: {id}");
        }
        assert_eq!(cluster.machines[&second].suspected_loss, None, "{which:?}");
        cluster.kill(leader);
        cluster.elect();
    }
}

/// The leader has the update, reports the end of its log, and dies again. The member with the torn record knows none or
/// only some of the torn record's entries. It must not count the leader among the voters without the update.
#[test]
fn a_voter_that_holds_more_than_the_cut_log_is_not_counted_as_lacking_the_record() {
    for which in [Sector::First, Sector::Last, Sector::Only] {
        let (mut cluster, [leader, second]) = an_update_on_a_torn_record(which);
        let third = 6 - leader - second;
        // The record also had an entry that the leader does not have.
        if let Some(loss) = cluster.machines[&second].suspected_loss.filter(|loss| loss.index < u64::MAX) {
            cluster.kill(second);
            let loss = SuspectedLoss { index: loss.index + 1, ..loss };
            cluster.machines.get_mut(&second).unwrap().suspected_loss = Some(loss);
            cluster.start(second);
        }
        let entry = cluster.replica(second).brief_status().last_index + 1;
        cluster.cut_off(third);
        cluster.cut.extend([(second, leader)]);
        cluster.start(leader);
        cluster.run(3_000);
        assert_eq!(cluster.leader(), None, "{which:?}: the leader gets no responses");
        cluster.kill(leader);
        cluster.cut.clear();
        cluster.run(10_000);
        assert_eq!(cluster.leader(), None, "{which:?}: both logs lack an acknowledged entry");
        assert!(cluster.machines[&second].suspected_loss.is_some(), "{which:?}");
        assert!(cluster.replica(second).brief_status().last_index < entry);
        cluster.start(leader);
        cluster.run(5_000);
        for id in cluster.alive() {
            assert!(cluster.has(id, &which.update()), "{which:?}: {id}");
        }
        assert!(cluster.leader().is_some() && cluster.machines[&second].suspected_loss.is_none(), "{which:?}");
    }
}

/// The third member was away when the term of the record began. It is running, so the member with the torn record must
/// not wait for it.
#[test]
fn a_voter_of_an_older_term_shows_its_log_too() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (second, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    cluster.run(1_000);
    cluster.cut_off(third);
    cluster.admin_ok(leader, AdminCommand::TransferLeader { to: Some(second) });
    let request = cluster.add(second, &large_text());
    cluster.assert_done(request);
    let terms = [second, third].map(|id| cluster.replica(id).brief_status().term);
    assert_eq!(terms[0], terms[1] + 1);
    cluster.kill(leader);
    cluster.kill(second);
    lose_sector(&mut cluster, second, Sector::First);
    cluster.cut.clear();
    cluster.start(second);
    cluster.run(10_000);
    assert_eq!((cluster.leader(), &cluster.machines[&second].unreported_voters[..]), (None, &[leader][..]));
    cluster.start(leader);
    cluster.run(5_000);
    assert!([leader, second, third].into_iter().all(|id| cluster.has(id, &large_text())));
}

/// A member whose torn record was cut may have served data from its entries. So before it serves older data, it must
/// report that it may be behind.
#[test]
fn a_member_with_a_torn_record_does_not_pass_for_one_that_knows_all_it_published() {
    for which in [Sector::First, Sector::Last, Sector::Only] {
        let (mut cluster, [_, second]) = an_update_on_a_torn_record(which);
        let config = cluster.config(second);
        assert!(config.start_behind_after_ms > config.start_stale_after_ms + 1_000);
        cluster.run(config.start_stale_after_ms + 1_000);
        let replica = cluster.replica(second);
        assert_eq!((replica.serving(), replica.serves_behind()), (Serving::No, false), "{which:?}");
        cluster.run(config.start_behind_after_ms);
        let replica = cluster.replica(second);
        assert_eq!((replica.serving(), replica.serves_behind()), (Serving::Stale, true), "{which:?}");
    }
}

/// A member other than the leader may have the update. Its log shows that, and it is elected without the leader.
#[test]
fn a_member_with_a_torn_record_votes_for_a_member_with_the_entries() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let (second, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let request = cluster.add(leader, &large_text());
    cluster.assert_done(request);
    cluster.kill(leader);
    cluster.kill(second);
    lose_sector(&mut cluster, second, Sector::Last);
    cluster.start(second);
    cluster.run(3_000);
    assert_eq!(cluster.leader(), Some(third));
    assert!(cluster.has(second, &large_text()) && cluster.has(third, &large_text()));
    assert_eq!(cluster.machines[&second].suspected_loss, None);
}

#[test]
fn a_cluster_that_lost_its_power_elects_a_leader_though_every_log_is_torn() {
    for (count, which) in
        [(1, Sector::Last), (3, Sector::First), (3, Sector::Last), (3, Sector::Only), (5, Sector::Last)]
    {
        let mut cluster = Cluster::with_zone(count);
        let leader = cluster.elect();
        let request = cluster.add(leader, &which.update());
        cluster.assert_done(request);
        for id in 1..=count {
            cluster.kill(id);
            lose_sector(&mut cluster, id, which);
        }
        for id in 1..=count {
            cluster.start(id);
            assert!(is_cut(&cluster, id), "{count} {id}");
        }
        cluster.run(5_000);
        let leader = cluster.leader().unwrap_or_else(|| panic!("{count} {which:?}: there is no leader"));
        let request = cluster.add(leader, &address(2));
        cluster.run(200);
        cluster.assert_done(request);
        cluster.run(1_000);
        for id in 1..=count {
            assert_eq!(cluster.machines[&id].suspected_loss, None, "{count} {id}");
            assert!(cluster.has(id, &address(2)));
        }
    }
}

/// A voter in the record's term may still receive the record after it has reported the end of its log. Then the leader
/// sends the record, and commits it with the acknowledgement from before the torn write. In a crash before its own
/// sync, it loses the record.
#[test]
fn voter_in_the_torn_records_term_proves_nothing() {
    let mut count = 0;
    for offset_ms in (0..600).step_by(30) {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let (second, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        cluster.run(1_000);
        cluster.cut.extend([(leader, third), (third, leader)]);
        cluster.run(offset_ms);
        cluster.machines.get_mut(&leader).unwrap().hung = Some(Vec::new());
        cluster.add(leader, &large_text());
        cluster.settle();
        cluster.cut.extend([(leader, second), (second, leader)]);
        cluster.kill(second);
        lose_sector(&mut cluster, second, Sector::First);
        cluster.start(second);
        cluster.run(150);
        // The leader has not yet noticed that it lost its followers. It can reach the third member again.
        cluster.cut.clear();
        cluster.cut_off(second);
        cluster.run(100);
        if !cluster.has(third, &large_text()) {
            continue;
        }
        count += 1;
        cluster.cut.clear();
        cluster.cut_off(third);
        cluster.kill(leader);
        cluster.machines.get_mut(&leader).unwrap().hung = None;
        cluster.start(leader);
        cluster.run(10_000);
        assert_eq!(cluster.leader(), None, "{offset_ms}: both logs lack an entry of the third member");
        cluster.cut.clear();
        cluster.run(5_000);
        assert!([leader, second, third].into_iter().all(|id| cluster.has(id, &large_text())), "{offset_ms}");
    }
    assert!(count > 0, "the leader never reached the third in time");
}

/// A repair cut off the damaged end of a log. The other of the two voters never had these entries. Each voter needs the
/// other's vote.
#[test]
fn two_voters_elect_a_leader_after_the_end_of_one_log_was_given_up() {
    let mut cluster = Cluster::with_zone(2);
    let leader = cluster.elect();
    let status = cluster.replica(leader).brief_status();
    let loss = SuspectedLoss { term: status.term, index: status.last_index + 1, is_diverged: false, is_torn: true };
    [1, 2].into_iter().for_each(|id| cluster.kill(id));
    cluster.machines.get_mut(&leader).unwrap().suspected_loss = Some(loss);
    [1, 2].into_iter().for_each(|id| cluster.start(id));
    cluster.run(5_000);
    assert!(cluster.leader().is_some());
    assert_eq!(cluster.machines[&leader].suspected_loss, None);
}

/// A crash interrupted the write. The member never acknowledged the record, and its leader continues.
#[test]
fn a_member_whose_write_was_interrupted_votes_again_once_its_leader_has_confirmed_its_log() {
    for without in [Sector::First, Sector::Last, Sector::Only] {
        let mut cluster = Cluster::with_zone(3);
        let leader = cluster.elect();
        let (second, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
        cluster.machines.get_mut(&second).unwrap().hung = Some(Vec::new());
        let request = cluster.add(leader, &without.update());
        cluster.assert_done(request);
        crash_while_writing(&mut cluster, second, without);
        cluster.start(second);
        assert!(is_cut(&cluster, second) && cluster.replica(second).suspected_loss().is_some(), "{without:?}");
        cluster.run(1_500);
        assert_eq!(cluster.leader(), Some(leader));
        assert_eq!(cluster.machines[&second].fatal, None);
        assert_eq!(cluster.machines[&second].suspected_loss, None, "{without:?}");
        assert!(cluster.has(second, &without.update()));
        cluster.kill(leader);
        cluster.elect();
        assert!(cluster.has(third, &without.update()));
    }
}

/// The member acknowledged the record, and its leader counted the acknowledgement. The leader's contradiction decides.
#[test]
fn leader_that_counts_on_a_torn_record_stops_the_member() {
    let mut cluster = Cluster::with_zone(3);
    let leader = cluster.elect();
    let second = leader % 3 + 1;
    let request = cluster.add(leader, &large_text());
    cluster.assert_done(request);
    cluster.kill(second);
    lose_sector(&mut cluster, second, Sector::First);
    cluster.start(second);
    cluster.run(3_000);
    let Some(FatalReason::LogLost(lost)) = &cluster.machines[&second].fatal else {
        panic!("{:?}", cluster.machines[&second].fatal);
    };
    assert!(lost.by == leader && !lost.loss.is_torn, "{lost:?}");
}

/// The record had only the commit index, so no entry can be missing.
#[test]
fn a_torn_record_without_entries_is_no_suspected_loss() {
    let record = replica::log::TornRecord::Empty;
    let repair = Repair::TailCut { file: "log-1".into(), offset: 512, record };
    let mut cluster = Cluster::with_zone(3);
    cluster.elect();
    assert_eq!(cluster.replica(1).loss_after(&[repair]), None);
}

#[test]
fn two_torn_records_do_not_clear_each_other() {
    let torn = |index| SuspectedLoss { term: 5, index, is_diverged: false, is_torn: true };
    assert_eq!(torn(10).and(torn(10)), torn(10));
    assert_eq!(torn(10).and(torn(14)), SuspectedLoss { is_torn: false, ..torn(14) });
    let contradicted = SuspectedLoss { is_torn: false, ..torn(10) };
    assert_eq!((torn(10).and(contradicted), contradicted.and(torn(10))), (contradicted, contradicted));
}
