//! Who may say what to whom: each sender, kind of frame and receiver, against a small reference of what is allowed.

use super::cluster::*;
use crate::Replica;
use crate::io::{AdminCommand, AdminReply, Input, MemberState, NodeId};
use crate::peer::Frame;
use crate::raft::Guard;
use crate::testing::forge::{Aim, ForgedKind, forge};
use core::cmp::Ordering;
use raft::eraftpb::MessageType;

const STRANGER: NodeId = 0x00C0_FFEE;
const CONFIRMED: NodeId = 0x77;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// It was a member, and the receiver has applied that it is none.
    Removed,
    /// The same, and a member says that it is one.
    RemovedAndConfirmed,
    /// The node number of a member, in an incarnation that was never given.
    NeverGiven,
    /// Nobody knows it.
    Stranger,
    /// It claims to be the receiver.
    Own,
    /// The receiver does not know it; a member says that it is one.
    Confirmed,
    /// A member without a vote.
    Learner,
    /// A voter that follows.
    Voter,
    /// The leader of the receiver's term.
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    Leader,
    Follower,
    Learner,
    /// It has the state that a new member starts with, and knows nobody.
    Joiner,
}

/// What is to come of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// It is not looked at, and counted as one of a non-member.
    Unheard,
    /// Raft does not see it, and it is counted.
    Refused,
    /// It changes nothing.
    Quiet,
    /// A correct member may say it.
    Handled,
}

const SENDERS: [Sender; 9] = [
    Sender::Removed,
    Sender::RemovedAndConfirmed,
    Sender::NeverGiven,
    Sender::Stranger,
    Sender::Own,
    Sender::Confirmed,
    Sender::Learner,
    Sender::Voter,
    Sender::Leader,
];
const RECEIVERS: [Receiver; 4] = [Receiver::Leader, Receiver::Follower, Receiver::Learner, Receiver::Joiner];

/// Three voters, a learner, a member that was removed, and one that joined and hears nobody.
struct Stage {
    cluster: Cluster,
    leader: NodeId,
    /// The other two voters.
    voters: [NodeId; 2],
    learner: NodeId,
    joiner: NodeId,
    removed: NodeId,
}

fn start_new(cluster: &mut Cluster, id: NodeId) {
    let mut machine = Machine::default();
    for op in Replica::init_joining(&cluster.config(id)) {
        machine.disk.execute(&op);
    }
    cluster.machines.insert(id, machine);
    cluster.start(id);
}

fn add_node(cluster: &mut Cluster, node: u32) -> NodeId {
    let leader = cluster.elect();
    let add = AdminCommand::AddNode { node, address: format!("[::1]:{}", 7_000 + node) };
    let AdminReply::Joined { id } = cluster.admin_ok(leader, add) else { panic!("not joined") };
    id
}

impl Stage {
    fn new() -> Self {
        let mut cluster = Cluster::with_zone(3);
        let removed = add_node(&mut cluster, 4);
        start_new(&mut cluster, removed);
        cluster.run(2_000);
        let leader = cluster.elect();
        assert_eq!(cluster.admin_ok(leader, AdminCommand::RemoveNode { id: removed }), AdminReply::Done);
        cluster.run(500);
        cluster.kill(removed);
        cluster.machines.remove(&removed);
        let life_ms = 60_000;
        cluster.admin_ok(leader, AdminCommand::CreateToken { digest: [3; 32], life_ms, is_learner: true });
        let join = AdminCommand::Join { digest: [3; 32], address: "[::1]:7005".to_owned() };
        let AdminReply::Joined { id: learner } = cluster.admin_ok(leader, join) else { panic!("not joined") };
        start_new(&mut cluster, learner);
        cluster.run(2_000);
        let joiner = add_node(&mut cluster, 9);
        for other in cluster.alive() {
            cluster.cut.extend([(joiner, other), (other, joiner)]);
        }
        start_new(&mut cluster, joiner);
        cluster.run(500);
        let leader = cluster.elect();
        let mut voters = (1..=3).filter(|&id| id != leader);
        let voters = [voters.next().unwrap(), voters.next().unwrap()];
        for id in cluster.alive() {
            cluster.input(id, Input::PeerConfirmed { id: CONFIRMED });
        }
        Self { cluster, leader, voters, learner, joiner, removed }
    }

    fn receiver(&self, receiver: Receiver) -> NodeId {
        match receiver {
            Receiver::Leader => self.leader,
            Receiver::Follower => self.voters[0],
            Receiver::Learner => self.learner,
            Receiver::Joiner => self.joiner,
        }
    }

    /// `None` where a receiver would talk to itself under its right name, or cannot know that somebody was removed.
    fn sender(&self, sender: Sender, receiver: Receiver) -> Option<NodeId> {
        let to = self.receiver(receiver);
        let id = match sender {
            Sender::RemovedAndConfirmed if receiver == Receiver::Joiner => return None,
            Sender::Removed | Sender::RemovedAndConfirmed => self.removed,
            Sender::NeverGiven => 1 << 32 | self.leader,
            Sender::Stranger => STRANGER,
            Sender::Own => return Some(to),
            Sender::Confirmed => CONFIRMED,
            Sender::Learner => self.learner,
            Sender::Voter => self.voters[usize::from(receiver == Receiver::Follower)],
            Sender::Leader => self.leader,
        };
        (id != to).then_some(id)
    }

    /// Everything that a frame might change.
    fn picture(&self, id: NodeId) -> String {
        let replica = self.cluster.replica(id);
        let mut status = replica.status();
        (status.invariant_violations, status.counters) = Default::default();
        let log = replica.driver.log();
        let machine = &self.cluster.machines[&id];
        let shown = (machine.shown_by_rotation, machine.shown_by_heard, machine.lease_until_ms, machine.fatal);
        format!("{:?}", (status, replica.driver.conf_state(), log.hard_state(), replica.membership(), shown))
    }
}

/// What the reference says.
fn expected(sender: Sender, receiver: Receiver, kind: ForgedKind, frame: &[u8], term: u64) -> Expected {
    let is_unknown = match sender {
        Sender::Removed | Sender::RemovedAndConfirmed | Sender::NeverGiven | Sender::Stranger | Sender::Own => true,
        Sender::Confirmed => false,
        Sender::Learner | Sender::Voter | Sender::Leader => receiver == Receiver::Joiner,
    };
    if is_unknown {
        return Expected::Unheard;
    }
    match Frame::decode(frame) {
        Ok((_, Frame::Raft(message))) => {
            let is_allowed = may_say(sender, receiver, message.get_msg_type(), message.term.cmp(&term));
            if is_allowed { Expected::Handled } else { Expected::Refused }
        }
        _ if kind == ForgedKind::Bytes => Expected::Quiet,
        Ok((_, frame)) => own(sender, receiver, &frame),
        Err(_) => unreachable!("what was forged can be read"),
    }
}

/// Whether a correct member may send such a message of raft, with the most harmful numbers of its kind.
fn may_say(sender: Sender, receiver: Receiver, kind: MessageType, term: Ordering) -> bool {
    let (is_voter, is_leader) = (matches!(sender, Sender::Voter | Sender::Leader), sender == Sender::Leader);
    let may_campaign = is_voter || sender == Sender::Confirmed;
    let is_later = term == Ordering::Greater;
    match kind {
        // Raft answers it, or does nothing.
        _ if term == Ordering::Less => true,
        MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot => {
            is_leader || (may_campaign && is_later)
        }
        MessageType::MsgTimeoutNow => is_leader && !is_later,
        // A leader has an entry of its term by now: nobody whose last entry is of this term campaigns in it.
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => may_campaign && is_later,
        // A member that is in a later term says so; what is forged of this term acknowledges what nobody has.
        MessageType::MsgAppendResponse => {
            receiver == Receiver::Leader && is_later && (is_voter || sender == Sender::Learner)
        }
        MessageType::MsgHeartbeatResponse => false,
        MessageType::MsgRequestVoteResponse => is_voter && !is_later,
        MessageType::MsgRequestPreVoteResponse => is_voter,
        _ => unreachable!("no member sends it"),
    }
}

/// The same of our own frames.
fn own(sender: Sender, receiver: Receiver, frame: &Frame) -> Expected {
    let (by_leader, to_leader) = (sender == Sender::Leader, receiver == Receiver::Leader);
    let by_member = sender != Sender::Confirmed;
    let is_handled = match frame {
        Frame::Forward { .. }
        | Frame::ReportAck(_)
        | Frame::LeaseRequest(_)
        | Frame::Memory(_)
        | Frame::Disk { .. } => to_leader && by_member,
        Frame::ReadIndex { .. } => to_leader,
        Frame::Clock { .. } => by_member,
        Frame::Report(_) | Frame::HashVerdict { .. } | Frame::AllLiveIndex { .. } | Frame::Durable(_) => by_leader,
        // Nobody was asked, nothing was sent, and nobody has applied what is not in the log.
        Frame::Answer { .. }
        | Frame::ReadIndexAnswer { .. }
        | Frame::SnapshotResult { .. }
        | Frame::Checkpoint(_)
        | Frame::LeaseGrant(_)
        | Frame::Applied { .. } => false,
        Frame::Raft(_) => unreachable!("judged elsewhere"),
    };
    if is_handled { Expected::Handled } else { Expected::Quiet }
}

/// Forged numbers: the most harmful ones, or any.
fn chooser(variant: u64) -> impl FnMut(u64) -> u64 {
    let mut state = variant.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move |bound| {
        if variant == 0 {
            return 0;
        }
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % bound.max(1)
    }
}

/// Sends one frame and looks what became of it.
fn check(stage: &mut Stage, (sender, receiver, kind): (Sender, Receiver, ForgedKind), frame: Vec<u8>) -> Expected {
    let (from, to) = (stage.sender(sender, receiver).unwrap(), stage.receiver(receiver));
    let term = stage.cluster.replica(to).driver.term();
    let expected = expected(sender, receiver, kind, &frame, term);
    let case = format!("{sender:?} to {receiver:?}: {kind:?} of {from}, {expected:?}");
    assert_eq!(stage.cluster.replica(to).admits(from), expected != Expected::Unheard, "{case}");
    if expected == Expected::Handled {
        // What may be said is not said here: it would change the stage.
        if let Ok((_, Frame::Raft(message))) = Frame::decode(&frame) {
            let guard = stage.cluster.replica(to).driver.judge(from, &message);
            assert!(matches!(guard, Guard::Step | Guard::Contradicts(_)), "{case}: {guard:?}");
        }
        return expected;
    }
    let before = (stage.picture(to), stage.cluster.replica(to).status());
    stage.cluster.input(to, Input::Peer { from, frame });
    stage.cluster.settle();
    let after = (stage.picture(to), stage.cluster.replica(to).status());
    assert_eq!(before.0, after.0, "{case}");
    let unheard = after.1.counters.non_member_frames - before.1.counters.non_member_frames;
    let refused = after.1.invariant_violations.refused_messages + after.1.counters.messages_ignored
        - before.1.invariant_violations.refused_messages
        - before.1.counters.messages_ignored;
    assert_eq!(unheard, u64::from(expected == Expected::Unheard), "{case}");
    assert_eq!(refused, u64::from(expected == Expected::Refused), "{case}");
    expected
}

#[test]
fn each_sender_kind_and_receiver_against_the_reference() {
    let mut stage = Stage::new();
    for receiver in RECEIVERS.into_iter().filter(|&receiver| receiver != Receiver::Joiner) {
        let to = stage.receiver(receiver);
        stage.cluster.input(to, Input::PeerConfirmed { id: stage.removed });
    }
    let (mut cases, mut counts) = (0, [0; 4]);
    for receiver in RECEIVERS {
        for sender in SENDERS {
            let Some(from) = stage.sender(sender, receiver) else { continue };
            for kind in ForgedKind::all() {
                // Of the next term, and of this one.
                for earlier in [0, 1] {
                    let aim = Aim::at(stage.cluster.replica(stage.receiver(receiver)), from);
                    let aim = Aim { term: aim.term.saturating_sub(earlier), ..aim };
                    let frame = forge(kind, &aim, &mut chooser(0));
                    let expected = check(&mut stage, (sender, receiver, kind), frame);
                    counts[expected as usize] += 1;
                    cases += 1;
                    for variant in 1..=2 {
                        if expected == Expected::Unheard {
                            let frame = forge(kind, &aim, &mut chooser(2 * cases + variant));
                            check(&mut stage, (sender, receiver, kind), frame);
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(cases >= 2_000 && counts.iter().all(|&count| count >= 100), "{cases}: {counts:?}");
    // The cluster is what it was.
    let request = stage.cluster.add(stage.voters[0], &address(1));
    stage.cluster.run(200);
    stage.cluster.assert_done(request);
    assert_eq!(stage.cluster.leader(), Some(stage.leader));
}

/// The attack: one append that grants everything, and one heartbeat with a commit index far beyond every log, to each
/// member, again and again.
#[test]
fn the_forged_append_and_the_forged_heartbeat_change_nothing() {
    let mut stage = Stage::new();
    let before = stage.cluster.replica(stage.leader).status();
    for from in [stage.removed, 1 << 32 | stage.removed, 1 << 32 | stage.leader, STRANGER] {
        for _ in 0..40 {
            for id in [stage.leader, stage.voters[0], stage.voters[1], stage.learner] {
                let aim = Aim::at(stage.cluster.replica(id), from);
                for place in [0, 5] {
                    let frame = forge(ForgedKind::Raft(place), &aim, &mut chooser(0));
                    stage.cluster.input(id, Input::Peer { from, frame });
                }
            }
            stage.cluster.run(50);
        }
        for (&id, machine) in &stage.cluster.machines {
            assert_eq!(machine.fatal, None, "{id}");
        }
    }
    let status = stage.cluster.replica(stage.leader).status();
    assert_eq!((stage.cluster.leader(), status.term), (Some(stage.leader), before.term));
    assert_eq!(status.counters.non_member_frames - before.counters.non_member_frames, 4 * 40 * 2);
    let request = stage.cluster.add(stage.learner, &address(1));
    stage.cluster.run(200);
    stage.cluster.assert_done(request);
    let hash = stage.cluster.replica(stage.leader).state_hash();
    assert!(stage.voters.iter().all(|&id| stage.cluster.replica(id).state_hash() == hash));
}

/// A confirmed id is heard until what is applied says more, the table is bounded, and a removed id is never in it.
#[test]
fn a_confirmed_id_is_admitted_until_more_is_known() {
    use crate::limits::CONFIRMED_PEERS_MAX;
    let mut stage = Stage::new();
    let to = stage.voters[0];
    let standing = |stage: &Stage, id| stage.cluster.replica(to).membership().standing(id);
    assert_eq!(standing(&stage, stage.removed), MemberState::Out);
    assert_eq!(standing(&stage, stage.learner), MemberState::Member);
    assert_eq!(standing(&stage, 10), MemberState::Unknown);
    for id in [10, stage.removed, to, 1 << 32 | stage.removed] {
        stage.cluster.input(to, Input::PeerConfirmed { id });
    }
    let admits = |stage: &Stage, id| stage.cluster.replica(to).admits(id);
    assert!(admits(&stage, 10) && admits(&stage, 1 << 32 | stage.removed) && !admits(&stage, stage.removed));
    // It becomes a member, and goes.
    assert_eq!(add_node(&mut stage.cluster, 10), 10);
    assert!(admits(&stage, 10) && standing(&stage, 10) == MemberState::Member);
    let leader = stage.leader;
    assert_eq!(stage.cluster.admin_ok(leader, AdminCommand::RemoveNode { id: 10 }), AdminReply::Done);
    stage.cluster.run(500);
    assert!(!admits(&stage, 10) && standing(&stage, 10) == MemberState::Out);
    stage.cluster.input(to, Input::PeerConfirmed { id: 10 });
    assert!(!admits(&stage, 10));
    for id in 0..2 * CONFIRMED_PEERS_MAX as u64 {
        stage.cluster.input(to, Input::PeerConfirmed { id: 1_000 + id });
    }
    assert_eq!(stage.cluster.replica(to).driver.senders.confirmed.len(), CONFIRMED_PEERS_MAX);
    assert!(!admits(&stage, 1_000) && admits(&stage, 999 + 2 * CONFIRMED_PEERS_MAX as u64));
}

/// A voter that was away while a learner got its vote follows it when it leads: at once if no other led, and a while
/// after it heard of a leader last.
#[test]
fn a_member_that_was_away_follows_a_leader_that_it_knows_as_a_learner() {
    let mut stage = Stage::new();
    let (leader, away, learner) = (stage.leader, stage.voters[0], stage.learner);
    stage.cluster.admin_ok(leader, AdminCommand::RemoveNode { id: stage.joiner });
    stage.cluster.kill(away);
    let promoted = AdminCommand::SetVote { id: learner, votes: true };
    assert_eq!(stage.cluster.admin_ok(leader, promoted), AdminReply::Done);
    let handed_over = AdminCommand::TransferLeader { to: Some(learner) };
    assert_eq!(stage.cluster.admin_ok(leader, handed_over), AdminReply::Done);
    assert_eq!(stage.cluster.leader(), Some(learner));
    stage.cluster.start(away);
    stage.cluster.run(1_000);
    let status = stage.cluster.replica(away).status();
    assert!(status.leader.is_none() && status.counters.messages_ignored > 0);
    stage.cluster.run(4_000);
    assert_eq!(stage.cluster.replica(away).status().leader, Some(learner));
    let request = stage.cluster.add(away, &address(1));
    stage.cluster.run(500);
    stage.cluster.assert_done(request);
    assert_eq!(stage.cluster.leader(), Some(learner));
}
