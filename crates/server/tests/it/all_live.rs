//! Zones with `ack = all-live`: after NOERROR to an update, every node that answers shows it.

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

/// The answer of a node to a query for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeAnswer {
    Here,
    NotReady,
    NotHere,
}

fn query(owner: &str, id: u16) -> Vec<u8> {
    MessageBuilder::query(id, name(owner).as_ref(), Rtype::A).edns(1232, false).build()
}

/// The next response to the query with this ID. `None` if none arrives within half a second.
fn heard(socket: &UdpSocket, from: SocketAddr, id: u16) -> Option<NodeAnswer> {
    let mut response = [0; 1232];
    while let Ok((len, by)) = socket.recv_from(&mut response) {
        if by != from || response[..2] != id.to_be_bytes() {
            continue;
        }
        return Some(match (response[3] & 0x0F, response[7]) {
            (0, 1) => NodeAnswer::Here,
            (2, _) => {
                let says_why = response[..len].windows(6).any(|window| window == NOT_READY);
                assert!(says_why, "{:02x?}", &response[..len]);
                NodeAnswer::NotReady
            }
            (0 | 3, 0) => NodeAnswer::NotHere,
            _ => panic!("{:02x?}", &response[..len]),
        });
    }
    None
}

fn ask(socket: &UdpSocket, to: SocketAddr, owner: &str, id: u16) -> NodeAnswer {
    wait_for("an answer", || {
        socket.send_to(&query(owner, id), to).unwrap();
        heard(socket, to, id)
    })
}

/// Sends an update, and repeats the same bytes, until a node reports that it is done.
fn update(cluster: &Cluster, through: u64, owner: &str) -> Duration {
    let (message, start) = (add(&cluster.client_key(), owner), Instant::now());
    while start.elapsed() < PATIENCE {
        let response = exchange(Transport::Udp, cluster.dns(through), &message, Duration::from_secs(4));
        // SERVFAIL: this copy was not executed. A new leader may not be known yet.
        match response.map(|response| rcode(&message, &response)) {
            Some(0) => return start.elapsed(),
            Some(2) | None => {}
            Some(other) => panic!("RCODE {other} to {owner}"),
        }
    }
    panic!("no node reported the outcome of the update of {owner}");
}

/// Sets the option. A node refuses it while another node does not answer, which happens on a busy machine.
pub(crate) fn set_all_live(cluster: &Cluster) {
    wait_for("the option to be set", || {
        let set = cluster.run(&["zone", "set", "example.test", "--ack", "all-live"]);
        let printed = String::from_utf8_lossy(&set.stderr).into_owned();
        assert!(set.status.success() || printed.contains("has not caught up, or does not answer"), "{printed}");
        set.status.success().then_some(())
    });
}

fn get(cluster: &Cluster, id: u64, query: &str) -> http::Answer {
    http::get(cluster.api(id), &format!("/v1/zones/example.test.{query}")).unwrap()
}

/// Whether a node is in the rotation, according to the leader.
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
            // On a busy machine a node may lose its lease. It then answers "Not Ready", never without the record.
            assert_ne!(says, NodeAnswer::NotHere, "{owner} on node {id}");
        }
    }
    let leader = wait_for("all in the rotation", || {
        let all_in = cluster.ids().all(|id| is_in_rotation(&cluster, id) == Some(true));
        all_in.then(|| cluster.leader())
    });
    let stopped = cluster.ids().find(|&id| id != leader).unwrap();
    let (pid, to) = (cluster.pid(stopped).unwrap(), cluster.dns(stopped));
    assert_ne!(ask(&socket, to, "n1.example.test.", 100), NodeAnswer::NotHere);
    kill("STOP", pid);
    let took = update(&cluster, leader, "new.example.test.");
    println!("the update took {took:?} while node {stopped} was stopped");
    // The queries wait in the socket until the process continues. Its workers answer before the node hears any news.
    for id in 200..210 {
        socket.send_to(&query("new.example.test.", id), to).unwrap();
    }
    kill("CONT", pid);
    for id in 200..210 {
        let says = wait_for("an answer of the node that was stopped", || heard(&socket, to, id));
        assert_ne!(says, NodeAnswer::NotHere, "query {id}");
    }
    // The node answers "Not Ready" until it is in the rotation again. Then it has every record.
    let mut silent = 0;
    wait_for("the node to answer again", || match ask(&socket, to, "new.example.test.", 300) {
        NodeAnswer::Here => Some(()),
        NodeAnswer::NotReady => {
            silent += 1;
            None
        }
        NodeAnswer::NotHere => panic!("an answer from before the update"),
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
    // Without a rotation, the nodes that the leader hears count.
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
    // With a rotation, a serial counts as everywhere only when every node in it that may answer shows it.
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

/// Rounds of a client that queries its record on every node as soon as the update is acknowledged.
const ROUNDS: usize = 120;
/// The time that a node is stopped, and then the time that it runs. The rotation takes longer to drop a node.
const STANDSTILL: Duration = Duration::from_millis(60);

/// A process that is stopped and continued repeatedly.
struct PausedProcess {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PausedProcess {
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

impl Drop for PausedProcess {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has already printed its message.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Queries all nodes for each record as soon as its update is acknowledged. Counts the answers: record present, not
/// ready, record missing.
fn looked_up_at_once(cluster: &Cluster, label: &str) -> [usize; 3] {
    let leader = cluster.leader();
    let slow = leader % 3 + 1;
    let through = 6 - leader - slow;
    let _stutter = PausedProcess::start(cluster.pid(slow).unwrap());
    let (socket, mut says) = (socket(), [0; 3]);
    for round in 0..ROUNDS {
        let owner = format!("{label}{round}.example.test.");
        update(cluster, if round % 2 == 0 { leader } else { through }, &owner);
        // All queries are sent before the first response is read, so no node gets more time than another.
        let number = |id: u64| (round as u16) << 2 | id as u16;
        for id in cluster.ids() {
            socket.send_to(&query(&owner, number(id)), cluster.dns(id)).unwrap();
        }
        let mut response = [0; 1232];
        for _ in cluster.ids() {
            // The slow node may be stopped for longer than the socket's timeout.
            let (len, by) = wait_for("an answer of each node", || socket.recv_from(&mut response).ok());
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

/// An ACME client needs this: right after its update, the validator may query any node.
#[test]
fn a_record_is_on_every_node_as_soon_as_its_update_is_acknowledged() {
    let cluster = Cluster::start("at-once", 3, &[]);
    cluster.settle();
    // The slow node is slow enough that the test can see it.
    let [_, _, stale] = looked_up_at_once(&cluster, "majority");
    assert!(stale > 0, "every node had every record: the slow node was not slow");
    set_all_live(&cluster);
    let [there, not_ready, stale] = looked_up_at_once(&cluster, "all-live");
    assert_eq!((stale, there + not_ready), (0, 3 * ROUNDS));
    // On a busy machine, the slow node may leave the rotation. The other two answer with the record.
    assert!(there > not_ready, "{there} answers have the record, {not_ready} say that the node is not ready");
}
