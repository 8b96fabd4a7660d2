//! Connections to the peer port: every kind of client, claimed id and channel, on every kind of node, compared with a
//! small reference of what is allowed. Also one frame of each kind from clients that are not members.

use crate::members::Joined;
use crate::support::cluster::{Cluster, PATIENCE, Scratch, wait_for};
use crate::support::dns::tcp_from;
use crate::support::frames::{Claim, of_each_kind};
use crate::support::hostile_peer::{
    ANNOUNCE, BULK, DATA_KEY, HEARTBEAT, HostilePeer, Identity, JOIN, KEY_REFUSED, MEMBER_CHECK, NORMAL, REMOVED,
    peer_address,
};
use skip::stalls::StallWatch;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Node numbers: a voter whose key was rotated, a removed node, a learner, and a number that was never assigned.
const ROTATED: u64 = 2;
const GONE: u64 = 4;
const LEARNER: u64 = 5;
const NEVER: u64 = 9;

/// A channel that does not exist.
const NO_CHANNEL: u8 = 0x42;

/// The kind of client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ClientKind {
    /// No certificate.
    Stranger,
    /// A certificate of a CA that only has the same name.
    Foreigner,
    /// The certificate of a removed node.
    Removed,
    /// The certificate of a voter before its key was rotated.
    RotatedOut,
    /// A certificate of the cluster CA for a voter, with a key of the attacker.
    Issued,
    /// The same for a number that was never assigned.
    IssuedForNobody,
    /// The same without the name of any node.
    IssuedWithoutNode,
    /// The current certificate of the voter.
    Voter,
    /// The current certificate of the learner.
    Learner,
}

const ALL: [ClientKind; 9] = [
    ClientKind::Stranger,
    ClientKind::Foreigner,
    ClientKind::Removed,
    ClientKind::RotatedOut,
    ClientKind::Issued,
    ClientKind::IssuedForNobody,
    ClientKind::IssuedWithoutNode,
    ClientKind::Voter,
    ClientKind::Learner,
];

/// The reaction of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    HangsUp,
    /// It sends a welcome with this id.
    Says(u64),
    /// It answers a request, possibly with a refusal.
    Refuses,
    Answers,
}

/// The reference: the expected reaction of a node.
fn allowed(who: ClientKind, claim: u64, channel: u8, to: u64) -> Outcome {
    let number = claim & 0xFFFF_FFFF;
    // The number in the certificate, and whether the cluster pins its key.
    let (about, is_pinned) = match who {
        ClientKind::Stranger | ClientKind::Foreigner | ClientKind::IssuedWithoutNode => (None, false),
        ClientKind::Removed => (Some(GONE), false),
        ClientKind::RotatedOut | ClientKind::Issued => (Some(ROTATED), false),
        ClientKind::IssuedForNobody => (Some(NEVER), false),
        ClientKind::Voter => (Some(ROTATED), true),
        ClientKind::Learner => (Some(LEARNER), true),
    };
    let is_member = about == Some(claim) && is_pinned;
    match channel {
        _ if who == ClientKind::Foreigner => Outcome::HangsUp,
        JOIN => Outcome::Refuses,
        DATA_KEY | MEMBER_CHECK | ANNOUNCE if who == ClientKind::Stranger => Outcome::HangsUp,
        // No member answers at the announced address, so every announcement is refused.
        ANNOUNCE => Outcome::Refuses,
        DATA_KEY | MEMBER_CHECK if is_member => Outcome::Answers,
        DATA_KEY | MEMBER_CHECK => Outcome::Refuses,
        HEARTBEAT | NORMAL | BULK if who == ClientKind::Stranger || number == to || claim == 0 => Outcome::HangsUp,
        HEARTBEAT | NORMAL | BULK if claim == GONE => Outcome::Says(REMOVED),
        HEARTBEAT | NORMAL | BULK if is_member => Outcome::Says(to),
        HEARTBEAT | NORMAL | BULK if about == Some(claim) && claim != NEVER => Outcome::Says(KEY_REFUSED),
        _ => Outcome::HangsUp,
    }
}

/// The address of a node, and its expected identity.
struct PeerTarget {
    to: u64,
    address: SocketAddr,
    /// The file with the CAs of its cluster.
    ca: PathBuf,
    /// The number of the data key in use.
    data_key: u64,
}

/// Connects once, and returns the reaction.
fn met(door: &PeerTarget, identity: Option<&Identity>, claim: u64, channel: u8, case: u32) -> Outcome {
    let to = door.to;
    // Enough addresses that none exceeds the handshake rate.
    let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)) + case / 50);
    let stream = tcp_from(source, door.address).unwrap();
    let Ok(mut peer) = HostilePeer::over(stream, to, &door.ca, identity) else { return Outcome::HangsUp };
    if peer.greet(channel, claim, to).is_err() {
        return Outcome::HangsUp;
    }
    if channel > BULK && channel != NO_CHANNEL {
        let pin = "0".repeat(64);
        let request = match channel {
            JOIN => r#"{"secret":"guessed","address":"127.0.0.1:1","feature_level":9}"#.to_owned(),
            ANNOUNCE => format!(r#"{{"from":{claim},"address":"127.0.0.1:1","has_moved":true}}"#),
            DATA_KEY => format!(r#"{{"from":{claim},"number":{}}}"#, door.data_key),
            _ => format!(r#"{{"from":{claim},"about":{NEVER},"names":[],"pin":"{pin}"}}"#),
        };
        let answered = peer.send(request.as_bytes()).and_then(|()| peer.answer());
        return match answered {
            Ok(answer) if answer.contains("Err") => Outcome::Refuses,
            Ok(_) => Outcome::Answers,
            Err(_) => Outcome::HangsUp,
        };
    }
    // Clients that are not members do not wait for a welcome.
    if allowed_to_speak(identity, claim) {
        let claim = Claim { from: claim, to, term: 1 << 20, index: 1 << 20, commit: 1 << 30 };
        for (_, frame) in of_each_kind(claim) {
            if peer.send(&frame).is_err() {
                break;
            }
        }
    }
    peer.welcome().map_or(Outcome::HangsUp, Outcome::Says)
}

/// Whether the test sends frames with this identity. It sends none as a member: false statements of a member are
/// another question.
fn allowed_to_speak(identity: Option<&Identity>, claim: u64) -> bool {
    identity.is_none() || ![ROTATED, LEARNER].contains(&claim)
}

fn keep(node: &Path, scratch: &Scratch) -> Identity {
    for name in ["node.pem", "node.key"] {
        std::fs::copy(node.join(name), scratch.path().join(name)).unwrap();
    }
    Identity::stolen(scratch.path())
}

/// Tests all clients, claims and channels on one node; returns the number of cases and the errors. A node that knows no
/// leader may react in another way. Then the case is repeated.
fn knock(
    identities: &[(ClientKind, Option<Identity>)],
    door: &PeerTarget,
    knows_leader: impl Fn() -> bool,
) -> (u32, Vec<String>) {
    let (to, mut cases, mut wrong) = (door.to, 0, Vec::new());
    for (who, identity) in identities {
        for claim in [0, 1, ROTATED, GONE, LEARNER, NEVER, 1 << 32 | GONE, 1 << 32 | ROTATED] {
            for channel in [HEARTBEAT, NORMAL, BULK, JOIN, DATA_KEY, MEMBER_CHECK, ANNOUNCE, NO_CHANNEL] {
                let expected = allowed(*who, claim, channel, to);
                let begin = Instant::now();
                let met = loop {
                    let knew_leader = knows_leader();
                    let met = met(door, identity.as_ref(), claim, channel, cases);
                    if met == expected || (knew_leader && knows_leader()) || begin.elapsed() > PATIENCE {
                        break met;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                };
                if met != expected {
                    wrong.push(format!("{who:?} as {claim:#x} on {channel:#x} at {to}: {met:?}, not {expected:?}"));
                }
                cases += 1;
            }
        }
    }
    (cases, wrong)
}

/// Tries all cases on these nodes at the same time. Returns the number of cases, and those with another result.
fn knock_on_all(
    nodes: &[u64],
    identities: &[(ClientKind, Option<Identity>)],
    target: impl Fn(u64) -> PeerTarget,
    status: impl Fn(u64) -> Option<serde_json::Value> + Sync,
) -> (u32, Vec<String>) {
    std::thread::scope(|scope| {
        let threads = nodes.iter().map(|&to| {
            let (target, status) = (target(to), &status);
            scope.spawn(move || {
                knock(identities, &target, || status(to).is_some_and(|status| status["leader"].is_u64()))
            })
        });
        let threads: Vec<_> = threads.collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.fold((0, Vec::new()), |(cases, wrong), (more, other)| (cases + more, [wrong, other].concat()))
    })
}

#[test]
fn only_members_are_accepted_on_the_peer_port() {
    let cluster = Cluster::start("matrix", 3, &[]);
    cluster.settle();
    let gone = Joined::start(&cluster, GONE, &cluster.done(&["cluster", "add"]));
    wait_for("node 4 to answer", || gone.answers().then_some(()));
    let learner = Joined::start(&cluster, LEARNER, &cluster.done(&["cluster", "add", "--learner"]));
    wait_for("the learner to answer", || learner.answers().then_some(()));
    let node = |id: u64| match id {
        GONE | LEARNER => cluster.dir.join(format!("joined-{id}/node-{id}")),
        _ => cluster.dir.join(format!("node-{id}")),
    };
    let removed = Identity::stolen(&node(GONE));
    let scratch = Scratch::new("matrix");
    let rotated_out = keep(&node(ROTATED), &scratch);
    cluster.done(&["cluster", "remove", "4"]);
    drop(gone);
    cluster.done(&["cluster", "rotate", "--wait", "40"]);
    cluster.settle();
    let identity = |who| match who {
        ClientKind::Stranger => None,
        ClientKind::Foreigner => Some(Identity::foreign(&["node-2", "member-2-0"])),
        ClientKind::Removed => Some(removed.clone()),
        ClientKind::RotatedOut => Some(rotated_out.clone()),
        ClientKind::Issued => Some(Identity::issued(&cluster, &["node-2", "member-2-0"])),
        ClientKind::IssuedForNobody => Some(Identity::issued(&cluster, &["node-9"])),
        ClientKind::IssuedWithoutNode => Some(Identity::issued(&cluster, &["localhost"])),
        ClientKind::Voter => Some(Identity::stolen(&node(ROTATED))),
        ClientKind::Learner => Some(Identity::stolen(&node(LEARNER))),
    };
    // The removed node knows the old data key, so the cluster replaces it.
    let data_key = wait_for("another data key", || {
        let status = cluster.status(1)?;
        (status["data_key"] == 2 && status["data_key_changes"] == false).then_some(2)
    });
    let addresses = |status: &serde_json::Value| -> Vec<serde_json::Value> {
        status["members"].as_array().unwrap().iter().map(|member| member["address"].clone()).collect()
    };
    let term = |id| {
        let status = cluster.status(id).unwrap();
        (status["term"].clone(), addresses(&status))
    };
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let before: Vec<_> = cluster.ids().map(term).collect();
    let identities = ALL.map(|who| (who, identity(who)));
    let target = |to| PeerTarget { to, address: peer_address(&cluster, to), ca: cluster.dir.join("ca.pem"), data_key };
    // A voter and the learner. With `--full`, the other voters too.
    let status = |id| if id == LEARNER { learner.status() } else { cluster.status(id) };
    let nodes: &[u64] = if skip::is_full_run() { &[1, 2, 3, LEARNER] } else { &[1, LEARNER] };
    let (cases, wrong) = knock_on_all(nodes, &identities, target, status);
    assert!(wrong.is_empty(), "{} of {cases} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases as usize >= 500 * nodes.len(), "{cases} cases");
    // The cluster is unchanged.
    let after: Vec<_> = cluster.ids().map(term).collect();
    for ((_, after), (_, before)) in after.iter().zip(&before) {
        assert_eq!(after, before, "the addresses of the members");
    }
    if watch.stall("terms beside connections of strangers").is_none() {
        assert_eq!(after, before);
    }
    drop(watch);
    cluster.settle();
    cluster.done(&["key", "add", "late", "--update", "--zone", "example.test"]);
}
