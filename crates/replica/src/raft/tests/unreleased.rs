//! Changes of raft after 0.7.0 that this crate must not need. Each test shows the guard that replaces one of them,
//! named by its number at tikv/raft-rs. They are reviewed each quarter (docs/internals/consensus-rules.md).

use super::*;

const LARGE: usize = 100 << 10;

/// A follower that received `entries` and their commit, and whose disk has not completed.
fn follower_with(entries: Vec<Entry>) -> Driver {
    let mut conf_state = ConfState::default();
    conf_state.set_voters(vec![1, 2, 3]);
    // Entries leave memory as soon as possible.
    let config = LogConfig { tail_bytes: 0, ..LogConfig::default() };
    let log = Log::create(LogId { cluster: [0; 16], group: 0, member: 2 }, GENESIS, config);
    let mut follower = Driver::new(2, 7, LogStorage::new(log, conf_state), 1);
    write(&mut follower);
    let last = entries.last().unwrap().index;
    for part in entries.chunks(20) {
        let mut append = message(MessageType::MsgAppend, 1, 2, 2);
        append.index = part[0].index - 1;
        append.log_term = if append.index == 1 { 1 } else { 2 };
        append.commit = last;
        append.set_entries(part.to_vec().into());
        assert_eq!(follower.step(1, append), Guard::Step);
        let work = follower.ready(none).unwrap();
        assert!(work.committed.is_empty(), "not durable here");
    }
    assert_eq!(follower.commit(), last);
    follower
}

fn large_entries(count: u64) -> Vec<Entry> {
    let entry = |index| Entry { index, term: 2, data: vec![1; LARGE].into(), ..Entry::default() };
    (2..2 + count).map(entry).collect()
}

/// #530: before a campaign, a member scans all committed but unapplied entries at once. 0.7.0 panics if the storage
/// cannot return all of them. This log keeps them in memory, however many there are.
#[test]
fn candidate_sees_unapplied_configuration_changes() {
    // Several times as many as one `Ready` returns.
    let mut follower = follower_with(large_entries(200));
    follower.campaign();
    assert_eq!(follower.role(), StateRole::PreCandidate);
    // A change of membership at the very end is found, so no member campaigns with an outdated configuration.
    let mut entries = large_entries(200);
    let last = entries.last_mut().unwrap();
    last.set_entry_type(::raft::eraftpb::EntryType::EntryConfChangeV2);
    last.data = Vec::new().into();
    let mut follower = follower_with(entries);
    follower.campaign();
    assert_eq!(follower.role(), StateRole::Follower);
}

/// #537 lets a member apply committed entries before its own disk has them. Here a member applies only durable
/// entries, so it publishes nothing that it may forget.
#[test]
fn what_is_applied_is_durable_here() {
    let mut follower = follower_with(large_entries(100));
    assert!(follower.ready(none).is_none_or(|work| work.committed.is_empty()));
    let mut tickets = Tickets::default();
    let mut applied = 1;
    while let Some(job) = follower.log_mut().poll_job(&mut tickets) {
        if let Persisted::Record(Some(mark)) = follower.log_mut().persisted(job.ticket) {
            follower.persisted(mark);
        }
        while let Some(work) = follower.ready(none) {
            let Some(last) = work.committed.last() else { continue };
            assert_eq!(work.committed[0].index, applied + 1);
            applied = last.index;
            assert!(applied <= follower.log().durable_index());
            follower.applied(applied);
            follower.log_mut().set_applied(applied);
        }
    }
    assert_eq!(applied, 101);
}

/// #552 lets a follower drop a proposal instead of sending it to the leader, which would execute it without an answer
/// to its sender. Here a follower sends only messages between members.
#[test]
fn a_follower_forwards_nothing_by_itself() {
    let mut group = Group::new(&[1, 2, 3]);
    group.elect(1);
    let follower = group.0.get_mut(&2).unwrap();
    assert_eq!(follower.leader(), Some(1));
    assert_eq!(follower.propose(vec![vec![1]]), Err(ProposeError::NotLeader));
    let change = follower.propose_conf_change(ConfChange::AddLearner(4), Vec::new());
    assert_eq!(change, Err(ProposeError::NotLeader));
    assert!(!follower.read_index(1));
    follower.transfer_leader(3);
    follower.leave_joint();
    assert!(follower.ready(none).is_none());
}

/// #557: a late rejection must not move `next` to or before an entry that a member is known to have.
#[test]
fn late_rejection_does_not_move_progress_back() {
    let mut group = Group::new(&[1, 2, 3]);
    let leader = group.elect(1);
    leader.propose(vec![vec![1]; 10]).unwrap();
    group.settle();
    let leader = group.0.get_mut(&1).unwrap();
    let matched = leader.matched(2).unwrap();
    assert_eq!(matched, leader.last_index());
    leader.report_unreachable(2);
    for index in [matched - 5, matched] {
        let mut late = message(MessageType::MsgAppendResponse, 2, 1, leader.term());
        late.reject = true;
        late.index = index;
        late.reject_hint = index - 1;
        assert_eq!(leader.step(2, late), Guard::Drop);
        let progress = leader.node().raft.prs().get(2).unwrap();
        assert!(progress.next_idx > progress.matched);
    }
}
