//! Tests of the contract of `RawNode`, rule by rule.

mod unreleased;

use super::*;
use crate::disk::Tickets;
use crate::log::{CheckpointRef, Log, LogConfig, LogId, Persisted};
use ::raft::StateRole;
use ::raft::eraftpb::{ConfState, Entry, Message, MessageType, Snapshot};
use std::collections::BTreeMap;

const GENESIS: CheckpointRef = CheckpointRef { index: 1, term: 1, id: [0; 32] };

fn seeded(id: u64, seed: u64, voters: &[u64], learners: &[u64]) -> Driver {
    let mut conf_state = ConfState::default();
    conf_state.set_voters(voters.to_vec());
    conf_state.set_learners(learners.to_vec());
    with_conf_state(id, seed, conf_state)
}

fn with_conf_state(id: u64, seed: u64, conf_state: ConfState) -> Driver {
    let log = Log::create(LogId { cluster: [0; 16], group: 0, member: id }, GENESIS, LogConfig::default());
    let mut driver = Driver::new(id, seed, LogStorage::new(log, conf_state), 1);
    write(&mut driver);
    driver
}

fn driver(id: u64, voters: &[u64]) -> Driver {
    seeded(id, 7, voters, &[])
}

fn none(_: &Snapshot) -> CheckpointRef {
    panic!("no checkpoint is expected here")
}

/// The disk completes all its jobs; returns the messages that waited.
fn write(driver: &mut Driver) -> Vec<Message> {
    let mut tickets = Tickets::default();
    let mut messages = Vec::new();
    while let Some(job) = driver.log_mut().poll_job(&mut tickets) {
        if let Persisted::Record(Some(mark)) = driver.log_mut().persisted(job.ticket) {
            messages.extend(driver.persisted(mark));
        }
    }
    messages
}

/// Members whose disks complete immediately.
struct Group(BTreeMap<u64, Driver>);

impl Group {
    fn new(ids: &[u64]) -> Self {
        Self(ids.iter().map(|&id| (id, driver(id, ids))).collect())
    }

    /// Delivers all messages until there are none.
    fn settle(&mut self) {
        loop {
            let mut sent = Vec::new();
            for driver in self.0.values_mut() {
                while let Some(work) = driver.ready(none) {
                    sent.extend(work.messages);
                    sent.extend(write(driver));
                    for change in work.committed.iter().filter(|entry| is_conf_change(entry)) {
                        assert!(driver.apply_conf_change(&decode_conf_change(&change.data).unwrap()));
                    }
                    if let Some(last) = work.committed.last() {
                        driver.applied(last.index);
                    }
                }
            }
            if sent.is_empty() {
                return;
            }
            for message in sent {
                if let Some(driver) = self.0.get_mut(&message.to) {
                    driver.step(message.from, message);
                }
            }
        }
    }

    fn elect(&mut self, id: u64) -> &mut Driver {
        self.0.get_mut(&id).unwrap().campaign();
        self.settle();
        let driver = self.0.get_mut(&id).unwrap();
        assert!(driver.is_leader());
        driver
    }
}

fn message(kind: MessageType, from: u64, to: u64, term: u64) -> Message {
    let mut message = Message::default();
    message.set_msg_type(kind);
    message.from = from;
    message.to = to;
    message.term = term;
    message
}

#[test]
fn messages_leave_after_their_state_is_durable() {
    let mut follower = driver(2, &[1, 2, 3]);
    let mut append = message(MessageType::MsgAppend, 1, 2, 2);
    append.index = 1;
    append.log_term = 1;
    append.set_entries(vec![Entry { index: 2, term: 2, ..Entry::default() }].into());
    follower.step(1, append);
    assert!(follower.ready(none).unwrap().messages.is_empty());
    // A heartbeat in between needs no write, but its answer waits behind earlier messages.
    follower.step(1, message(MessageType::MsgHeartbeat, 1, 2, 2));
    assert!(follower.ready(none).unwrap().messages.is_empty());
    let sent: Vec<_> = write(&mut follower).iter().map(Message::get_msg_type).collect();
    assert_eq!(sent, [MessageType::MsgAppendResponse, MessageType::MsgHeartbeatResponse]);
}

#[test]
fn single_voter_sends_nothing_before_its_vote_is_durable() {
    let mut driver = seeded(1, 7, &[1], &[2]);
    driver.campaign();
    assert!(driver.is_leader());
    assert!(driver.ready(none).unwrap().messages.is_empty());
    assert!(!write(&mut driver).is_empty());
}

#[test]
fn only_a_leader_proposes_and_a_batch_is_one_message() {
    let mut group = Group::new(&[1, 2, 3]);
    assert_eq!(group.0.get_mut(&2).unwrap().propose(vec![vec![1]]), Err(ProposeError::NotLeader));
    group.elect(1);
    // The follower knows the leader, and still does not forward.
    assert_eq!(group.0.get_mut(&2).unwrap().propose(vec![vec![1]]), Err(ProposeError::NotLeader));
    let leader = group.0.get_mut(&1).unwrap();
    let first = leader.propose(vec![vec![1], vec![2], vec![3]]).unwrap();
    assert_eq!(first, leader.last_index() - 2);
    let work = leader.ready(none).unwrap();
    let appends: Vec<_> = work.messages.iter().map(|message| message.entries.len()).collect();
    assert_eq!(appends, [3, 3]);
}

#[test]
fn a_transfer_drops_proposals() {
    let mut group = Group::new(&[1, 2, 3]);
    let leader = group.elect(1);
    leader.transfer_leader(2);
    assert!(leader.is_transferring());
    assert_eq!(leader.propose(vec![vec![1]]), Err(ProposeError::Dropped));
    group.settle();
    assert!(group.0[&2].is_leader());
}

#[test]
fn one_change_of_membership_at_a_time() {
    let mut group = Group::new(&[1, 2, 3]);
    let leader = group.elect(1);
    assert!(leader.propose_conf_change(ConfChange::AddLearner(4), vec![1]).is_ok());
    assert_eq!(leader.propose_conf_change(ConfChange::Remove(3), vec![2]), Err(ProposeError::MembershipBusy));
}

#[test]
fn a_new_leader_leaves_a_joint_configuration() {
    let mut conf_state = ConfState::default();
    conf_state.set_voters(vec![1, 2, 3]);
    conf_state.set_voters_outgoing(vec![1, 2]);
    let mut group = Group([1, 2, 3].map(|id| (id, with_conf_state(id, 7, conf_state.clone()))).into());
    let leader = group.elect(1);
    assert!(leader.is_joint());
    let refused = leader.propose_conf_change(ConfChange::AddLearner(4), Vec::new());
    assert_eq!(refused, Err(ProposeError::MembershipBusy));
    leader.leave_joint();
    group.settle();
    assert!(group.0.values().all(|driver| !driver.is_joint() && driver.voters() == [1, 2, 3]));
}

#[test]
#[should_panic(expected = "hands over before it goes")]
fn a_leader_never_removes_itself() {
    let mut group = Group::new(&[1, 2, 3]);
    let _ = group.elect(1).propose_conf_change(ConfChange::Remove(1), Vec::new());
}

#[test]
#[should_panic(expected = "hands over before it goes")]
fn a_leader_never_leaves_a_joint_configuration_behind_which_it_has_no_vote() {
    let mut conf_state = ConfState::default();
    conf_state.set_voters(vec![2, 3]);
    conf_state.set_voters_outgoing(vec![1, 2]);
    let mut group = Group([1, 2, 3].map(|id| (id, with_conf_state(id, 7, conf_state.clone()))).into());
    group.elect(1).leave_joint();
}

/// Raft itself would continue to lead without its own progress, and panic when it commits or stores the next entry.
#[test]
fn a_leader_that_applies_its_own_removal_leads_no_more() {
    let mut group = Group::new(&[1, 2, 3]);
    let leader = group.elect(1);
    leader.propose(vec![vec![1]]).unwrap();
    assert!(leader.apply_conf_change(&ConfChange::Remove(1).to_raft()));
    assert_eq!((leader.role(), leader.leader(), leader.is_voter()), (StateRole::Follower, None, false));
    group.settle();
}

#[test]
fn time_limits_come_from_the_seed() {
    let drawn = |seed| {
        let mut driver = seeded(1, seed, &[1, 2, 3], &[]);
        let mut ticks = Vec::new();
        for _ in 0..20 {
            let before = driver.term();
            let mut count = 0;
            driver.node().raft.become_follower(before + 1, 0);
            driver.tick();
            while driver.role() == StateRole::Follower {
                driver.tick();
                count += 1;
            }
            ticks.push(count);
        }
        ticks
    };
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    assert!(drawn(3).iter().all(|&ticks| (29..60).contains(&ticks)));
}

/// Raft draws timeouts from its own random source, inside calls that do not document it.
#[test]
fn time_limits_come_from_the_seed_after_every_call() {
    let mut random = 88_172_645_463_325_252u64;
    let mut draw = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut group = Group::new(&[1, 2, 3]);
    let mut mail: Vec<Message> = Vec::new();
    let mut terms = std::collections::BTreeSet::new();
    for _ in 0..20_000 {
        let id = 1 + draw(3) as u64;
        let driver = group.0.get_mut(&id).unwrap();
        match draw(100) {
            0 => driver.campaign(),
            1 => driver.transfer_leader(1 + id % 3),
            2 => driver.report_unreachable(1 + id % 3),
            3 => driver.forget_leader(),
            4..10 => drop(driver.propose(vec![vec![1]])),
            10..20 => drop(driver.read_index(draw(usize::MAX) as u64)),
            20..40 if !mail.is_empty() => {
                let message = mail.swap_remove(draw(mail.len()));
                driver.step(message.from, message);
            }
            40..50 => mail.truncate(mail.len() / 2),
            50..80 if !mail.is_empty() => {
                let message = mail.remove(0);
                group.0.get_mut(&message.to).unwrap().step(message.from, message);
            }
            _ => driver.tick(),
        }
        for driver in group.0.values_mut() {
            assert_eq!(driver.node().raft.randomized_election_timeout(), driver.drawn());
            while let Some(work) = driver.ready(none) {
                mail.extend(work.messages);
                mail.extend(write(driver));
                if let Some(last) = work.committed.last() {
                    driver.applied(last.index);
                }
            }
            assert_eq!(driver.node().raft.randomized_election_timeout(), driver.drawn());
            terms.insert(driver.term());
        }
    }
    assert!(terms.len() > 20, "{} terms only", terms.len());
}

#[test]
fn settings_are_those_that_were_measured() {
    let config = super::driver::config(1, 1);
    config.validate().unwrap();
    assert_eq!((config.heartbeat_tick, config.election_tick), (5, 25));
    // Timeouts are above `election_tick`: a member that campaigns earlier meets peers that still follow the old
    // leader.
    assert_eq!((config.min_election_tick, config.max_election_tick), (30, 60));
    assert!(config.pre_vote && config.check_quorum && config.batch_append);
    assert_eq!((config.max_inflight_msgs, config.max_size_per_msg), (64, 1 << 20));
    assert_eq!((config.max_uncommitted_size, config.max_committed_size_per_ready), (64 << 20, 4 << 20));
    assert_eq!(config.read_only_option, ::raft::ReadOnlyOption::Safe);
}

#[test]
fn reads_are_refused_before_the_first_commit_of_a_term() {
    // A single voter leads at once, and commits its first entry when the disk has it.
    let mut single = driver(1, &[1]);
    single.campaign();
    assert!(single.is_leader() && !single.read_index(1));
    while single.ready(none).is_some() || !write(&mut single).is_empty() {}
    assert!(single.read_index(2));
    let mut group = Group::new(&[1, 2, 3]);
    let leader = group.0.get_mut(&1).unwrap();
    assert!(!leader.read_index(1));
    leader.campaign();
    let leader = group.elect(1);
    assert!(leader.read_index(2));
    let mut sent = leader.ready(none).unwrap().messages;
    for message in sent.drain(..) {
        if let Some(driver) = group.0.get_mut(&message.to) {
            driver.step(message.from, message);
            let work = driver.ready(none).unwrap();
            for answer in work.messages {
                group.0.get_mut(&1).unwrap().step(answer.from, answer);
            }
        }
    }
    let work = group.0.get_mut(&1).unwrap().ready(none).unwrap();
    assert_eq!(work.reads[0].request_ctx, 2u64.to_be_bytes());
}

#[test]
fn what_a_correct_leader_never_sends_contradicts_the_log() {
    let mut group = Group::new(&[1, 2, 3]);
    group.elect(1);
    let follower = group.0.get_mut(&2).unwrap();
    let (term, last) = (follower.term(), follower.last_index());
    let mut heartbeat = message(MessageType::MsgHeartbeat, 1, 2, term);
    heartbeat.commit = last + 1;
    assert_eq!(follower.step(1, heartbeat), Guard::Contradicts(Contradiction::Lost { index: last + 1 }));
    // Another entry at an index that is committed here.
    let mut append = message(MessageType::MsgAppend, 1, 2, term + 5);
    append.index = last - 1;
    append.log_term = 1;
    append.set_entries(vec![Entry { index: last, term: term + 5, ..Entry::default() }].into());
    assert_eq!(follower.step(1, append), Guard::Contradicts(Contradiction::Diverged { index: last }));
    // A log that ends in an older term than a committed entry here.
    let mut append = message(MessageType::MsgAppend, 1, 2, term + 5);
    append.index = last + 7;
    append.log_term = 1;
    assert_eq!(follower.step(1, append), Guard::Contradicts(Contradiction::Diverged { index: last }));
}

#[test]
fn malformed_messages_are_dropped() {
    let mut group = Group::new(&[1, 2, 3]);
    group.elect(1);
    let follower = group.0.get_mut(&2).unwrap();
    let term = follower.term();
    let last = follower.last_index();
    // A gap between the entries.
    let mut append = message(MessageType::MsgAppend, 1, 2, term);
    append.index = last;
    append.log_term = term;
    append.set_entries(vec![Entry { index: last + 2, term, ..Entry::default() }].into());
    assert_eq!(follower.step(1, append), Guard::Drop);
    // A message with another sender, a message for another receiver, and a local message type.
    assert_eq!(follower.step(3, message(MessageType::MsgHeartbeat, 1, 2, term)), Guard::Drop);
    assert_eq!(follower.step(1, message(MessageType::MsgHeartbeat, 1, 3, term)), Guard::Drop);
    assert_eq!(follower.step(1, message(MessageType::MsgHeartbeat, 1, 2, 0)), Guard::Drop);
    let leader = group.0.get_mut(&1).unwrap();
    assert_eq!(leader.step(3, message(MessageType::MsgAppend, 3, 1, term)), Guard::Drop);
    // A rejection of an acknowledged entry, and an acknowledgement of an entry that never existed.
    let mut reject = message(MessageType::MsgAppendResponse, 2, 1, term);
    reject.reject = true;
    reject.index = last;
    assert_eq!(leader.step(2, reject), Guard::Drop);
    let mut beyond = message(MessageType::MsgAppendResponse, 2, 1, term);
    beyond.index = last + 1;
    assert_eq!(leader.step(2, beyond), Guard::Drop);
}
