//! Zones with `ack = all-live`: who is told that an update was made finds it on every node that answers.

use crate::support::cluster::{Cluster, PATIENCE, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::name;
use crate::updates::{add, rcode, socket};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;

/// SERVFAIL with the extended error "Not Ready" (RFC 8914 4.15).
const NOT_READY: [u8; 6] = [0, 15, 0, 2, 0, 14];

/// What a node says about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Here,
    NotReady,
    NotHere,
}

fn query(owner: &str, id: u16) -> Vec<u8> {
    MessageBuilder::query(id, name(owner).as_ref(), Rtype::A).edns(1232, false).build()
}

/// The next response to a query of this number; `None`: none came within half a second.
fn heard(socket: &UdpSocket, from: SocketAddr, id: u16) -> Option<Says> {
    let mut response = [0; 1232];
    while let Ok((len, by)) = socket.recv_from(&mut response) {
        if by != from || response[..2] != id.to_be_bytes() {
            continue;
        }
        return Some(match (response[3] & 0x0F, response[7]) {
            (0, 1) => Says::Here,
            (2, _) => {
                let says_why = response[..len].windows(6).any(|window| window == NOT_READY);
                assert!(says_why, "{:02x?}", &response[..len]);
                Says::NotReady
            }
            (0 | 3, 0) => Says::NotHere,
            _ => panic!("{:02x?}", &response[..len]),
        });
    }
    None
}

fn ask(socket: &UdpSocket, to: SocketAddr, owner: &str, id: u16) -> Says {
    wait_for("an answer", || {
        socket.send_to(&query(owner, id), to).unwrap();
        heard(socket, to, id)
    })
}

/// Sends an update, and its bytes again, until somebody says that it was made.
fn update(cluster: &Cluster, through: u64, owner: &str) -> Duration {
    let (message, start) = (add(&cluster.client_key(), owner), Instant::now());
    while start.elapsed() < PATIENCE {
        let response = exchange(Transport::Udp, cluster.dns(through), &message, Duration::from_secs(4));
        if let Some(response) = response {
            assert_eq!(rcode(&message, &response), 0, "{owner}");
            return start.elapsed();
        }
    }
    panic!("nobody says what became of {owner}");
}

/// Sets the option. It is refused while a node does not answer, and that a busy machine may be the reason of.
pub(crate) fn set_all_live(cluster: &Cluster) {
    wait_for("the option to be set", || {
        let set = cluster.run(&["zone", "set", "example.test", "--ack", "all-live"]);
        let said = String::from_utf8_lossy(&set.stderr).into_owned();
        assert!(set.status.success() || said.contains("has not caught up, or does not answer"), "{said}");
        set.status.success().then_some(())
    });
}

fn get(cluster: &Cluster, id: u64, query: &str) -> http::Answer {
    http::get(cluster.api(id), &format!("/v1/zones/example.test.{query}")).unwrap()
}

/// Whether a node is in the rotation, as the leader has it.
fn is_in_rotation(cluster: &Cluster, id: u64) -> Option<bool> {
    let status = cluster.status(cluster.leader())?;
    let members = status["members"].as_array()?.clone();
    members.iter().find(|member| member["node"] == id)?["in_rotation"].as_bool()
}

#[test]
fn a_node_that_was_stopped_never_answers_with_what_was_before() {
    let cluster = Cluster::start("all-live", 3, &[]);
    cluster.settle();
    assert_eq!(is_in_rotation(&cluster, 1), None);
    set_all_live(&cluster);
    let list = cluster.run(&["zone", "list"]);
    assert!(String::from_utf8_lossy(&list.stdout).contains(", ack all-live"), "{list:?}");
    let socket = socket();
    for through in cluster.ids() {
        let owner = format!("n{through}.example.test.");
        update(&cluster, through, &owner);
        for id in cluster.ids() {
            let says = ask(&socket, cluster.dns(id), &owner, id as u16);
            // A busy machine may keep a node from its lease; it says so, and nothing else.
            assert_ne!(says, Says::NotHere, "{owner} on node {id}");
        }
    }
    let leader = wait_for("all in the rotation", || {
        let all_in = cluster.ids().all(|id| is_in_rotation(&cluster, id) == Some(true));
        all_in.then(|| cluster.leader())
    });
    let stopped = cluster.ids().find(|&id| id != leader).unwrap();
    let (pid, to) = (cluster.pid(stopped).unwrap(), cluster.dns(stopped));
    assert_ne!(ask(&socket, to, "n1.example.test.", 100), Says::NotHere);
    kill("STOP", pid);
    let took = update(&cluster, leader, "new.example.test.");
    println!("the update took {took:?} while node {stopped} was stopped");
    // It waits in the socket until the process goes on, whose workers run before anything else has told it anything.
    for id in 200..210 {
        socket.send_to(&query("new.example.test.", id), to).unwrap();
    }
    kill("CONT", pid);
    for id in 200..210 {
        let says = wait_for("an answer of the node that goes on", || heard(&socket, to, id));
        assert_ne!(says, Says::NotHere, "query {id}");
    }
    // Until it is in the rotation again it is silent, and then it has everything.
    let mut silent = 0;
    wait_for("the node to answer again", || match ask(&socket, to, "new.example.test.", 300) {
        Says::Here => Some(()),
        Says::NotReady => {
            silent += 1;
            None
        }
        Says::NotHere => panic!("an answer from before the update"),
    });
    println!("{silent} answers said that the node is not ready");
    wait_for("all nodes in the rotation", || {
        let status = String::from_utf8(cluster.run(&["cluster", "status"]).stdout).unwrap();
        status.contains("\nzones with `ack = all-live` are answered by node 1, 2, 3\n").then_some(())
    });
}

#[test]
fn a_serial_is_waited_for_on_every_node() {
    let cluster = Cluster::start("everywhere", 3, &[]);
    cluster.settle();
    // Without a rotation those count that the leader hears.
    assert_eq!(get(&cluster, 2, "?at=1&everywhere=1").status, 200);
    assert_eq!(get(&cluster, 2, "?at=1&everywhere=yes").status, 400);
    for round in 0..20_u32 {
        let through = u64::from(round) % 3 + 1;
        update(&cluster, through, &format!("w{round}.example.test."));
        let shown = get(&cluster, through, &format!("?at={}&everywhere=1", 2 + round));
        assert_eq!(shown.status, 200, "{}", shown.text());
        for id in cluster.ids() {
            let serial = get(&cluster, id, "").json().unwrap()["serial"].as_u64().unwrap();
            assert!(serial >= u64::from(2 + round), "node {id} shows {serial} in round {round}");
        }
    }
    // With one, nothing is everywhere while somebody in it may answer and does not show it.
    set_all_live(&cluster);
    let leader = cluster.leader();
    let stopped = leader % 3 + 1;
    let pid = cluster.pid(stopped).unwrap();
    kill("STOP", pid);
    update(&cluster, leader, "last.example.test.");
    let shown = get(&cluster, leader, "?at=22&everywhere=1");
    kill("CONT", pid);
    assert_eq!(shown.status, 200, "{}", shown.text());
}

/// Rounds of a client that looks its record up everywhere as soon as it hears that it is there.
const ROUNDS: usize = 120;
/// A node stands still for so long, and runs for as long: less than the rotation takes to go on without it.
const STANDSTILL: Duration = Duration::from_millis(60);

/// A process that stands still again and again.
struct Stutter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Stutter {
    fn start(pid: u32) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let theirs = stop.clone();
        let thread = std::thread::spawn(move || {
            while !theirs.load(Ordering::Relaxed) {
                kill("STOP", pid);
                std::thread::sleep(STANDSTILL);
                kill("CONT", pid);
                std::thread::sleep(STANDSTILL);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Stutter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// What all nodes say about each record as soon as its update was acknowledged: how many have it, are not ready, have
/// it not.
fn looked_up_at_once(cluster: &Cluster, label: &str) -> [usize; 3] {
    let leader = cluster.leader();
    let slow = leader % 3 + 1;
    let through = 6 - leader - slow;
    let _stutter = Stutter::start(cluster.pid(slow).unwrap());
    let (socket, mut says) = (socket(), [0; 3]);
    for round in 0..ROUNDS {
        let owner = format!("{label}{round}.example.test.");
        update(cluster, if round % 2 == 0 { leader } else { through }, &owner);
        // All are asked before one is heard: none has longer for it than another.
        let number = |id: u64| (round as u16) << 2 | id as u16;
        for id in cluster.ids() {
            socket.send_to(&query(&owner, number(id)), cluster.dns(id)).unwrap();
        }
        let mut response = [0; 1232];
        for _ in cluster.ids() {
            let (len, by) = socket.recv_from(&mut response).unwrap();
            let id = cluster.ids().find(|id| cluster.dns(*id) == by).unwrap();
            assert_eq!(response[..2], number(id).to_be_bytes(), "{owner} on node {id}");
            let at = match (response[3] & 0x0F, response[7]) {
                (0, 1) => 0,
                (2, _) if response[..len].windows(6).any(|window| window == NOT_READY) => 1,
                (0 | 3, 0) => 2,
                _ => panic!("{:02x?}", &response[..len]),
            };
            says[at] += 1;
        }
    }
    println!("{label}: {ROUNDS} rounds, node {slow} slow: [there, not ready, not there] {says:?}");
    says
}

/// What a client of ACME needs: no time between its update and the question of whoever validates, who may ask any node.
#[test]
fn a_record_is_on_every_node_as_soon_as_its_update_is_acknowledged() {
    let cluster = Cluster::start("at-once", 3, &[]);
    cluster.settle();
    // The slow node is slow enough to be seen.
    let [_, _, stale] = looked_up_at_once(&cluster, "majority");
    assert!(stale > 0, "a majority is enough, and all had it");
    set_all_live(&cluster);
    let [there, not_ready, stale] = looked_up_at_once(&cluster, "all-live");
    assert_eq!((stale, there + not_ready), (0, 3 * ROUNDS));
    assert!(not_ready <= ROUNDS / 2, "{not_ready} answers that the node is not ready");
}
