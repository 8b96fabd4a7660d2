//! The certificate and key of a node give no access once the node was removed or its key was replaced.

use crate::members::Joined;
use crate::support::cluster::{Cluster, PATIENCE, Scratch, wait_for};
use crate::support::frames::{self, Claim, of_each_kind};
use crate::support::hostile_peer::{
    BULK, DATA_KEY, HEARTBEAT, HostilePeer, Identity, JOIN, KEY_REFUSED, MEMBER_CHECK, NORMAL, REMOVED,
};
use crate::support::nodes::{cluster_of_nodes, log_of};
use crate::support::open_files::may_open;
use crate::support::strangers::Strangers;
use replica::entry::{Body, Entry, SettingsChange, SettingsEntry};
use replica::io::Right;
use serde_json::Value;
use skip::stalls::StallWatch;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

/// Node 4 in an incarnation that was never assigned.
const NEVER_GIVEN: u64 = 1 << 32 | 4;

const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// The secret in a join token.
fn secret_of(token: &str) -> String {
    let json = data_encoding::BASE64URL_NOPAD.decode(token.trim().as_bytes()).unwrap();
    serde_json::from_slice::<Value>(&json).unwrap()["secret"].as_str().unwrap().to_owned()
}

/// The state of a node that an attack must not change: term, applied index, and state hash.
fn state(cluster: &Cluster, id: u64) -> [Value; 4] {
    let status = cluster.status(id).unwrap_or_else(|| panic!("node {id} answers nothing"));
    ["term", "applied_index", "state_hash", "serving"].map(|field| status[field].clone())
}

/// The states of all nodes once nothing has changed for a second: a removal replaces the data key in the background.
fn states_at_rest(cluster: &Cluster) -> Vec<[Value; 4]> {
    let states = || cluster.ids().map(|id| state(cluster, id)).collect::<Vec<_>>();
    wait_for("a second without a change", || {
        let before = states();
        std::thread::sleep(Duration::from_secs(1));
        (states() == before).then_some(before)
    })
}

/// An entry that grants a key all zones.
fn grant_of_everything(epoch: u64) -> Vec<u8> {
    let change = SettingsChange::Grant { key: "thief.".parse().unwrap(), zone: None, right: Right::Update };
    Entry { group: 0, time_ms: 1_900_000_000_000, body: Body::Settings(SettingsEntry { epoch, change }) }.encode()
}

/// Forged appends and heartbeats of a leader of the next term, and a frame of every other kind.
fn forged(cluster: &Cluster, from: u64, to: u64) -> Vec<(String, Vec<u8>)> {
    let status = cluster.status(to).unwrap();
    let number = |field: &str| status[field].as_u64().unwrap();
    let (term, index) = (number("term") + 1, number("applied_index"));
    let claim = Claim { from, to, term, index, commit: index + 1 };
    let entries = (0..40).map(|epoch| (term, index + 1 + epoch, grant_of_everything(epoch))).collect::<Vec<_>>();
    let append = Claim { commit: index + 40, ..claim };
    let mut forged = of_each_kind(claim);
    forged.push(("an append".into(), frames::raft(frames::APPEND, append, &entries)));
    let lie = Claim { commit: 1_000_000_000, ..claim };
    forged.push(("a heartbeat".into(), frames::raft(frames::HEARTBEAT, lie, &[])));
    forged
}

/// Sends all of them to a node, as `from`, on each channel. Returns the welcomes.
fn say_everything(cluster: &Cluster, identity: &Identity, from: u64, to: u64) -> Vec<Option<u64>> {
    let frames = forged(cluster, from, to);
    [HEARTBEAT, NORMAL, BULK]
        .map(|channel| {
            let mut peer = HostilePeer::connect(cluster, to, SOURCE, Some(identity)).unwrap();
            peer.greet(channel, from, to).unwrap();
            // Sends the frames without waiting for the welcome.
            for (_, frame) in &frames {
                if peer.send(frame).is_err() {
                    break;
                }
            }
            peer.welcome().ok()
        })
        .to_vec()
}

#[test]
fn a_removed_node_changes_nothing_under_any_name() {
    let cluster = Cluster::start("stolen-removed", 3, &[]);
    cluster.settle();
    let token = cluster.done(&["cluster", "add"]);
    let joined = Joined::start(&cluster, 4, &token);
    wait_for("node 4 to be a voter", || {
        let status = cluster.status(1)?;
        let members = status["members"].as_array()?;
        (members.iter().any(|member| member["node"] == 4 && member["voter"] == true)).then_some(())
    });
    let folder = cluster.dir.join("joined-4/node-4");
    let identity = Identity::stolen(&folder);
    // A token is valid once.
    let mut again = HostilePeer::connect(&cluster, 1, SOURCE, None).unwrap();
    again.greet(JOIN, 0, 0).unwrap();
    let secret = secret_of(&token);
    again.send(format!(r#"{{"secret":"{secret}","address":"127.0.0.1:9","feature_level":9}}"#).as_bytes()).unwrap();
    let answer = again.answer().unwrap();
    assert!(answer.contains("Err") && answer.contains("unknown, used, revoked or expired"), "{answer}");
    // Without the node, only the thief connects as node 4. Its connection is closed at the removal.
    drop(joined);
    let mut open = HostilePeer::connect(&cluster, 1, SOURCE, Some(&identity)).unwrap();
    open.greet(BULK, 4, 1).unwrap();
    assert_eq!(open.welcome().unwrap(), 1);
    cluster.done(&["cluster", "remove", "4"]);
    assert!(open.is_cut_within(PATIENCE), "its connection is still open");
    cluster.settle();
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let before = states_at_rest(&cluster);

    for to in cluster.ids() {
        assert_eq!(say_everything(&cluster, &identity, 4, to), [Some(REMOVED); 3], "as itself, at {to}");
        for from in [NEVER_GIVEN, 9, to % 3 + 1, 7 << 32 | (to % 3 + 1)] {
            assert_eq!(say_everything(&cluster, &identity, from, to), [None; 3], "as {from}, at {to}");
        }
    }
    // An election, or the exit of a node, takes less time.
    std::thread::sleep(Duration::from_secs(2));
    let after = cluster.ids().map(|id| state(&cluster, id)).collect::<Vec<_>>();
    for (after, before) in after.iter().zip(&before) {
        assert_eq!(after[2..], before[2..]);
    }
    if watch.stall("terms and indexes beside forged frames").is_none() {
        assert_eq!(after, before);
    }
    drop(watch);
    for id in cluster.ids() {
        assert!(!cluster.dir.join(format!("node-{id}/data/quarantined")).exists(), "node {id}");
    }
    assert!(!cluster.done(&["key", "list"]).contains("thief"));
    // It gets no data key, and no information about members.
    for (request, json) in requests(4) {
        let mut peer = HostilePeer::connect(&cluster, 1, SOURCE, Some(&identity)).unwrap();
        peer.greet(request, 0, 0).unwrap();
        peer.send(json.as_bytes()).unwrap();
        let answer = peer.answer().unwrap();
        assert!(answer.contains("Err") && answer.contains("removed"), "{answer}");
    }
    cluster.done(&["key", "add", "late", "--update", "--zone", "example.test"]);
}

/// The requests of a member: a data key, and a member check.
fn requests(from: u64) -> [(u8, String); 2] {
    let member_check =
        format!(r#"{{"from":{from},"about":9,"names":["node-9.catamaran.internal"],"pin":"{}"}}"#, "0".repeat(64));
    [(DATA_KEY, format!(r#"{{"from":{from},"number":1}}"#)), (MEMBER_CHECK, member_check)]
}

/// The replies of node 1 to this identity, claiming to be node 2: to a channel, and to a request for this data key.
fn opens(cluster: &Cluster, identity: &Identity, data_key: u64) -> (Option<u64>, String) {
    let mut channel = HostilePeer::connect(cluster, 1, SOURCE, Some(identity)).unwrap();
    channel.greet(BULK, 2, 1).unwrap();
    let welcome = channel.welcome().ok();
    let mut keys = HostilePeer::connect(cluster, 1, SOURCE, Some(identity)).unwrap();
    keys.greet(DATA_KEY, 0, 0).unwrap();
    keys.send(format!(r#"{{"from":2,"number":{data_key}}}"#).as_bytes()).unwrap();
    (welcome, keys.answer().unwrap_or_default())
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["node.pem", "node.key"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[test]
fn a_key_that_was_rotated_opens_nothing_and_open_connections_are_cut() {
    let cluster = Cluster::start("stolen-rotated", 3, &[]);
    cluster.settle();
    let (node, thief) = (cluster.dir.join("node-2"), Scratch::new("stolen-rotated"));
    copy(&node, thief.path());
    let stolen = Identity::stolen(thief.path());
    let (welcome, data_key) = opens(&cluster, &stolen, 1);
    assert_eq!(welcome, Some(1), "the key is refused before it was replaced");
    assert!(data_key.contains("Ok"), "{data_key}");
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let term = state(&cluster, 1)[0].clone();
    let mut open = HostilePeer::connect(&cluster, 1, SOURCE, Some(&stolen)).unwrap();
    open.greet(BULK, 2, 1).unwrap();
    assert_eq!(open.welcome().unwrap(), 1);

    cluster.done(&["cluster", "rotate", "--wait", "40"]);
    assert!(open.is_cut_within(PATIENCE), "its connection is still open");
    let (welcome, data_key) = opens(&cluster, &stolen, 1);
    assert_eq!(welcome, Some(KEY_REFUSED));
    assert!(data_key.contains("Err"), "{data_key}");
    cluster.done(&["cluster", "rotate", "--data-key", "--wait", "40"]);
    let (welcome, data_key) = opens(&cluster, &stolen, 2);
    assert_eq!(welcome, Some(KEY_REFUSED));
    assert!(data_key.contains("Err") && !data_key.contains("Ok"), "{data_key}");
    // A thief of a data key can issue certificates of the CA, in any name. Nodes refuse them.
    let issued = Identity::issued(&cluster, &["node-2", "member-2-0"]);
    let (welcome, data_key) = opens(&cluster, &issued, 2);
    assert_eq!(welcome, Some(KEY_REFUSED));
    assert!(data_key.contains("Err"), "{data_key}");
    // The node's own current certificate is accepted.
    let own = Identity::stolen(&node);
    assert_eq!(opens(&cluster, &own, 2).0, Some(1));
    cluster.settle();
    let [term_after, ..] = state(&cluster, 1);
    if watch.stall("elections during a rotation").is_none() {
        assert_eq!(term_after, term, "the rotation caused an election");
    }
}

#[test]
fn unauthenticated_connections_to_the_peer_port_do_not_keep_nodes_out() {
    if !may_open(4_000) {
        return;
    }
    let (cluster, mut nodes) = cluster_of_nodes("stolen-strangers");
    nodes.leader(&cluster);
    let strangers = Strangers::start(&cluster);
    // 300 at each node, more than a pool of 256 has room for.
    wait_for("the strangers", || (strangers.joins() >= 3 * 300).then_some(()));
    // One node restarts, then two at once. Each is soon back, with the latest committed entries.
    for ids in [&[3][..], &[1, 2]] {
        ids.iter().for_each(|&id| nodes.kill(id));
        let started = Instant::now();
        ids.iter().for_each(|&id| nodes.start(&cluster, id));
        cluster.settle();
        cluster.done(&["key", "add", &format!("late-{}", ids[0]), "--update", "--zone", "example.test"]);
        cluster.settle();
        let took = started.elapsed();
        assert!(took < Duration::from_secs(60), "{ids:?} took {took:?}");
    }
    drop(strangers);
    cluster.ids().for_each(|id| nodes.stop(id));
}

#[test]
fn a_node_that_was_away_follows_an_unknown_leader() {
    let (cluster, mut nodes) = cluster_of_nodes("stolen-away");
    let away = nodes.leader(&cluster) % 3 + 1;
    nodes.stop(away);
    let join = |id| {
        let token = cluster.done(&["cluster", "add"]);
        let joined = Joined::start(&cluster, id, &token);
        wait_for("it to be a voter", || {
            let status = cluster.ids().find_map(|id| cluster.status(id))?;
            let members = status["members"].as_array()?;
            members.iter().any(|member| member["node"] == id && member["voter"] == true).then_some(())
        });
        joined
    };
    let joined = [4, 5].map(join);
    cluster.done(&["cluster", "transfer-leader", "4"]);
    cluster.done(&["key", "add", "meanwhile", "--update", "--zone", "example.test"]);
    nodes.start(&cluster, away);
    let status = wait_for("it to follow", || {
        let status = cluster.status(away)?;
        if status["leader"].as_u64().is_some_and(|leader| leader != 4) {
            // There was another election.
            cluster.run(&["cluster", "transfer-leader", "4"]);
        }
        (status["serving"] == "yes" && status["leader"] == 4).then_some(status)
    });
    let newest = joined[0].status().unwrap();
    assert!(status["applied_index"].as_u64() >= Some(newest["applied_index"].as_u64().unwrap() - 5), "{status}");
    assert!(cluster.done(&["key", "list"]).contains("meanwhile"));
    cluster.ids().for_each(|id| nodes.stop(id));
}

#[test]
fn refused_joins_fill_no_log() {
    let (cluster, mut nodes) = cluster_of_nodes("stolen-joins");
    nodes.leader(&cluster);
    nodes.stop(1);
    nodes.start(&cluster, 1);
    cluster.settle();
    // Joining is open while a token exists.
    cluster.done(&["cluster", "add"]);
    let before = log_of(&cluster, 1).len();
    let until = Instant::now() + Duration::from_secs(3);
    let mut attempts = 0;
    for number in 0u32.. {
        if Instant::now() >= until && (attempts >= 50 || Instant::now() >= until + PATIENCE) {
            break;
        }
        // Addresses of 64 KB, and shorter ones that fit into a request.
        let address = "A".repeat(if number % 2 == 0 { 64_000 } else { 800 });
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 2, 0, 1)) + number / 100);
        let Ok(mut peer) = HostilePeer::connect(&cluster, 1, source, None) else { continue };
        let request = format!(r#"{{"secret":"guessed","address":"{address}","feature_level":9}}"#);
        // The node closes the connection after it has read the length.
        let _ = peer.greet(JOIN, 0, 0).and_then(|()| peer.send(request.as_bytes())).and_then(|()| peer.answer());
        attempts += 1;
    }
    let grown = log_of(&cluster, 1).len() - before;
    assert!(attempts >= 50, "{attempts} attempts to join");
    assert!(grown < 8 << 10, "{attempts} refused joins made {grown} bytes of log");
    cluster.ids().for_each(|id| nodes.stop(id));
}
