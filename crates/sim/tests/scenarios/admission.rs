//! Which frames are accepted: each kind of sender, frame and receiver is compared with a small model.

use super::cluster::*;
use core::cmp::Ordering;
use raft::eraftpb::MessageType;
use replica::Replica;
use replica::io::{AdminCommand, AdminReply, Input, MemberState, NodeId};
use replica::peer::Frame;
use replica::testing::forge::{ForgeTarget, ForgedKind, forge};

const STRANGER: NodeId = 0x00C0_FFEE;
const CONFIRMED: NodeId = 0x77;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// A former member, whose removal the receiver has applied.
    Removed,
    /// The same, but another member still confirms it as a member.
    RemovedAndConfirmed,
    /// A member's node number with an incarnation that was never assigned.
    NeverGiven,
    /// An id that no member knows.
    Stranger,
    /// The receiver's own id.
    Own,
    /// Unknown to the receiver, but confirmed by a member.
    Confirmed,
    /// A member without a vote.
    Learner,
    /// A voter that does not lead.
    Voter,
    /// The leader of the receiver's term.
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiver {
    Leader,
    Follower,
    Learner,
    /// A new member with its first state, which knows no others.
    Joiner,
}

/// The expected result of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The frame is ignored, and counted as a non-member's.
    Unheard,
    /// The frame does not reach Raft, and is counted.
    Refused,
    /// The frame changes nothing.
    Quiet,
    /// The frame is one that a correct member may send.
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

/// Three voters, a learner, a removed member, and a new member that receives nothing from the others.
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
        machine.disk.contents_mut().execute(&op);
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

    /// The id of the sender. `None` if it would be the receiver itself, or if the receiver cannot know of the removal.
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

    /// All state that a frame could change.
    fn picture(&self, id: NodeId) -> String {
        let replica = self.cluster.replica(id);
        let mut status = replica.status();
        (status.invariant_violations, status.counters) = Default::default();
        let log = replica.log();
        let machine = &self.cluster.machines[&id];
        let shown = (machine.shown_by_rotation, machine.shown_by_heard, machine.lease_until_ms, machine.fatal);
        format!("{:?}", (status, replica.conf_state(), log.hard_state(), replica.membership(), shown))
    }
}

/// The result expected by the model.
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

/// Whether a correct member may send such a raft message. Messages have the most harmful numbers of their kind.
fn may_say(sender: Sender, receiver: Receiver, kind: MessageType, term: Ordering) -> bool {
    let (is_voter, is_leader) = (matches!(sender, Sender::Voter | Sender::Leader), sender == Sender::Leader);
    let may_campaign = is_voter || sender == Sender::Confirmed;
    let is_later = term == Ordering::Greater;
    match kind {
        // Raft answers it or ignores it.
        _ if term == Ordering::Less => true,
        MessageType::MsgAppend | MessageType::MsgHeartbeat | MessageType::MsgSnapshot => {
            is_leader || (may_campaign && is_later)
        }
        MessageType::MsgTimeoutNow => is_leader && !is_later,
        // The leader already has an entry of its term. No member whose last entry is of this term campaigns in it.
        MessageType::MsgRequestVote | MessageType::MsgRequestPreVote => may_campaign && is_later,
        // A member in a later term reports that term. A forged message of this term acknowledges entries that do not
        // exist.
        MessageType::MsgAppendResponse => {
            receiver == Receiver::Leader && is_later && (is_voter || sender == Sender::Learner)
        }
        MessageType::MsgHeartbeatResponse => false,
        MessageType::MsgRequestVoteResponse => is_voter && !is_later,
        MessageType::MsgRequestPreVoteResponse => is_voter,
        _ => unreachable!("no member sends it"),
    }
}

/// The same for the frames of the crate `replica`.
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
        // The receiver sent no request, and no member has applied an entry that is not in the log.
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

/// Numbers for forged frames: the most harmful ones, or random ones.
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

/// Sends one frame and checks the result.
fn check(stage: &mut Stage, (sender, receiver, kind): (Sender, Receiver, ForgedKind), frame: Vec<u8>) -> Expected {
    let (from, to) = (stage.sender(sender, receiver).unwrap(), stage.receiver(receiver));
    let term = stage.cluster.replica(to).brief_status().term;
    let expected = expected(sender, receiver, kind, &frame, term);
    let case = format!("{sender:?} to {receiver:?}: {kind:?} of {from}, {expected:?}");
    assert_eq!(stage.cluster.replica(to).admits(from), expected != Expected::Unheard, "{case}");
    if expected == Expected::Handled {
        // Allowed frames are not sent, because they would change the state of the test.
        if matches!(Frame::decode(&frame), Ok((_, Frame::Raft(_)))) {
            assert!(stage.cluster.replica(to).passes_to_raft(from, &frame), "{case}");
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
                // Frames of the next term, and of this term.
                for earlier in [0, 1] {
                    let target = ForgeTarget::at(stage.cluster.replica(stage.receiver(receiver)), from);
                    let target = ForgeTarget { term: target.term.saturating_sub(earlier), ..target };
                    let frame = forge(kind, &target, &mut chooser(0));
                    let expected = check(&mut stage, (sender, receiver, kind), frame);
                    counts[expected as usize] += 1;
                    cases += 1;
                    for variant in 1..=2 {
                        if expected == Expected::Unheard {
                            let frame = forge(kind, &target, &mut chooser(2 * cases + variant));
                            check(&mut stage, (sender, receiver, kind), frame);
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(cases >= 2_000 && counts.iter().all(|&count| count >= 100), "{cases}: {counts:?}");
    // The cluster still works.
    let request = stage.cluster.add(stage.voters[0], &address(1));
    stage.cluster.run(200);
    stage.cluster.assert_done(request);
    assert_eq!(stage.cluster.leader(), Some(stage.leader));
}

/// The attack sends two frames to each member repeatedly: an append that grants everything, and a heartbeat with a
/// commit index beyond every log.
#[test]
fn the_forged_append_and_the_forged_heartbeat_change_nothing() {
    let mut stage = Stage::new();
    let before = stage.cluster.replica(stage.leader).status();
    for from in [stage.removed, 1 << 32 | stage.removed, 1 << 32 | stage.leader, STRANGER] {
        for _ in 0..40 {
            for id in [stage.leader, stage.voters[0], stage.voters[1], stage.learner] {
                let target = ForgeTarget::at(stage.cluster.replica(id), from);
                for number in [0, 5] {
                    let frame = forge(ForgedKind::Raft(number), &target, &mut chooser(0));
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

/// A confirmed id is admitted until the applied state shows whether it is a member. The table of confirmed ids is
/// bounded, and never has a removed id.
#[test]
fn a_confirmed_id_is_admitted_until_more_is_known() {
    use replica::limits::CONFIRMED_PEERS_MAX;
    let mut stage = Stage::new();
    let to = stage.voters[0];
    let state_of = |stage: &Stage, id| stage.cluster.replica(to).membership().state_of(id);
    assert_eq!(state_of(&stage, stage.removed), MemberState::Out);
    assert_eq!(state_of(&stage, stage.learner), MemberState::Member);
    assert_eq!(state_of(&stage, 10), MemberState::Unknown);
    for id in [10, stage.removed, to, 1 << 32 | stage.removed] {
        stage.cluster.input(to, Input::PeerConfirmed { id });
    }
    let admits = |stage: &Stage, id| stage.cluster.replica(to).admits(id);
    assert!(admits(&stage, 10) && admits(&stage, 1 << 32 | stage.removed) && !admits(&stage, stage.removed));
    // The id becomes a member and is then removed.
    assert_eq!(add_node(&mut stage.cluster, 10), 10);
    assert!(admits(&stage, 10) && state_of(&stage, 10) == MemberState::Member);
    let leader = stage.leader;
    assert_eq!(stage.cluster.admin_ok(leader, AdminCommand::RemoveNode { id: 10 }), AdminReply::Done);
    stage.cluster.run(500);
    assert!(!admits(&stage, 10) && state_of(&stage, 10) == MemberState::Out);
    stage.cluster.input(to, Input::PeerConfirmed { id: 10 });
    assert!(!admits(&stage, 10));
    for id in 0..2 * CONFIRMED_PEERS_MAX as u64 {
        stage.cluster.input(to, Input::PeerConfirmed { id: 1_000 + id });
    }
    assert_eq!(stage.cluster.replica(to).confirmed_count(), CONFIRMED_PEERS_MAX);
    assert!(!admits(&stage, 1_000) && admits(&stage, 999 + 2 * CONFIRMED_PEERS_MAX as u64));
}

/// A voter was away while a learner became a voter. If the learner leads, the voter follows it: immediately if no other
/// member led, otherwise some time after the last contact with a leader.
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
