//! A removed node stops answering and exits; the other nodes answer instead.

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::dns::{Transport, exchange};
use crate::support::http;
use crate::support::message::{describe, name};
use crate::updates::Stream;
use skip::stalls::StallWatch;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wire::Rtype;
use wire::builder::MessageBuilder;

fn query() -> Vec<u8> {
    MessageBuilder::query(1, name("www.example.test.").as_ref(), Rtype::A).build()
}

/// Time limit for an expected answer on a busy machine.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const SILENT_FOR: Duration = Duration::from_millis(500);

/// Queries from a new socket. Returns whether the answer is correct.
fn is_answered(to: SocketAddr, transport: Transport, within: Duration) -> bool {
    let response = exchange(transport, to, &query(), within);
    response.is_some_and(|response| describe(&query(), &response) == "NOERROR, question, answer 1")
}

fn shared(cluster: &Cluster) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], cluster.port))
}

fn remove(cluster: &Cluster, id: u64) {
    let removed = cluster.run(&["cluster", "remove", &id.to_string()]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
}

/// Queries the shared port, each time from a new source port, until `stop` is set. Returns the times of queries without
/// an answer.
fn ask_all_the_time(
    to: SocketAddr,
    stop: Arc<AtomicBool>,
    query_count: Arc<AtomicU64>,
) -> std::thread::JoinHandle<Vec<Instant>> {
    std::thread::spawn(move || {
        let mut lost = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let asked_at = Instant::now();
            if !is_answered(to, Transport::Udp, ANSWER_WITHIN) {
                lost.push(asked_at);
            }
            query_count.fetch_add(1, Ordering::Relaxed);
        }
        lost
    })
}

#[test]
fn a_removed_node_leaves_the_shared_port_to_the_others_and_ends() {
    let mut cluster = Cluster::start("removed", 3, &["--supervise"]);
    cluster.settle();
    let gone = cluster.leader() % 3 + 1;
    let (stop, query_count) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let stream = ask_all_the_time(shared(&cluster), stop.clone(), query_count.clone());
    wait_for("queries", || (query_count.load(Ordering::Relaxed) >= 100).then_some(()));
    let asked_to_remove = Instant::now();
    remove(&cluster, gone);
    let removed = Instant::now();
    // A load balancer sees it in the health check, as long as the node runs.
    wait_for("the health check to fail", || {
        let Ok(answer) = http::get(cluster.api(gone), "/healthz") else { return Some(()) };
        assert!([200, 503].contains(&answer.status), "{}", answer.status);
        (answer.status == 503).then_some(())
    });
    wait_for("the status of a removed node", || {
        let Some(status) = cluster.status(gone) else { return Some(()) };
        (status["role"] == "removed" && status["serving"] == "no").then_some(())
    });
    // After this, the removed node no longer takes part in the shared port.
    let silent = wait_for("the removed node to be silent", || {
        let begin = Instant::now();
        let mut transports = [Transport::Udp, Transport::Tcp].into_iter().cycle().take(6);
        transports.all(|transport| !is_answered(cluster.dns(gone), transport, SILENT_FOR)).then_some(begin)
    });
    for transport in [Transport::Udp, Transport::Tcp] {
        let answered = (0..200).filter(|_| is_answered(shared(&cluster), transport, ANSWER_WITHIN)).count();
        assert_eq!(answered, 200, "of 200 over {transport:?}");
        assert!((0..5).all(|_| !is_answered(cluster.dns(gone), transport, SILENT_FOR)), "{transport:?}");
    }
    stop.store(true, Ordering::Relaxed);
    let lost = stream.join().unwrap();
    println!("{} queries, {} lost", query_count.load(Ordering::Relaxed), lost.len());
    // Only the queries that were in its sockets before it closed them.
    let is_of_the_removed = |at: &Instant| *at >= asked_to_remove && *at <= silent;
    assert!(lost.iter().all(is_of_the_removed), "{lost:?}, removed {removed:?}, silent {silent:?}");
    cluster.wait_for_line(&format!("node {gone} was removed from the cluster"));
    cluster.wait_for_line("2 of 2 nodes up");
    let log = std::fs::read_to_string(cluster.dir.join(format!("node-{gone}/node.log"))).unwrap();
    assert!(log.contains(&format!("error: node {gone} was removed from the cluster")), "{log}");
    assert!(!cluster.lines().iter().any(|line| line.contains("restarted")), "a removed node is not started again");
    let status = String::from_utf8(cluster.run(&["status"]).stdout).unwrap();
    assert!(status.contains(&format!("node {gone}: removed from the cluster")), "{status}");

    // At the next start the node learns the same, and the cluster resumes without it.
    assert_eq!(cluster.end("INT"), Some(0));
    cluster.resume(&[]);
    cluster.wait_for_line(&format!("node {gone} was removed from the cluster"));
    cluster.wait_for_line("ready: 2 nodes");
    assert_eq!((0..50).filter(|_| is_answered(shared(&cluster), Transport::Udp, ANSWER_WITHIN)).count(), 50);
}

#[test]
fn the_leader_itself_is_removed_while_clients_go_on() {
    let cluster = Cluster::start("removed-leader", 3, &[]);
    cluster.settle();
    let gone = cluster.leader();
    let stay: Vec<u64> = cluster.ids().filter(|id| *id != gone).collect();
    let streams: Vec<Stream> = stay.iter().map(|id| Stream::start(&cluster, *id, &format!("r{id}"))).collect();
    let go_on = || {
        let before: Vec<usize> = streams.iter().map(Stream::acknowledged).collect();
        wait_for("updates through those that stay", || {
            streams.iter().zip(&before).all(|(stream, before)| stream.acknowledged() >= before + 50).then_some(())
        });
    };
    go_on();
    let watch = StallWatch::start().and_disk(&cluster.dir);
    let term = cluster.metric(stay[0], "catamaran_raft_term");
    // One command: the node transfers the leadership, and the new leader removes it.
    remove(&cluster, gone);
    cluster.wait_for_line(&format!("node {gone} was removed from the cluster"));
    let start = Instant::now();
    go_on();
    println!("50 more updates through each of the others {:?} after the leader was gone", start.elapsed());
    let status = wait_for("a leader of those that stay", || {
        cluster.status(stay[0]).filter(|status| stay.iter().any(|id| status["leader"] == *id))
    });
    assert_eq!(status["members"].as_array().map(Vec::len), Some(2));
    // One term for the transfer of the leadership, and no other election.
    let term_after = cluster.metric(stay[0], "catamaran_raft_term");
    if watch.stall("the number of elections").is_none() {
        assert!(term_after <= term + 1, "{term}, {term_after}");
    }
    drop(watch);
    assert!((0..5).all(|_| !is_answered(cluster.dns(gone), Transport::Udp, SILENT_FOR)));
    let names: Vec<String> = streams.into_iter().flat_map(Stream::finish).collect();
    let socket = crate::updates::socket();
    for (owner, id) in names.iter().flat_map(|owner| stay.iter().map(move |id| (owner, *id))) {
        wait_for(owner, || crate::updates::is_there(&socket, cluster.dns(id), owner).then_some(()));
    }
}

#[test]
fn a_node_that_was_removed_while_away_learns_it_from_the_others() {
    let cluster = Cluster::start("away", 3, &[]);
    cluster.settle();
    let gone = cluster.leader() % 3 + 1;
    kill("KILL", cluster.pid(gone).unwrap());
    cluster.wait_for_line(&format!("node {gone} exited"));
    remove(&cluster, gone);
    // Its log does not contain the removal. It learns it when it connects to the other nodes.
    let mut again = cluster.serve(gone);
    let code = wait_for("its end", || again.try_wait().unwrap()).code();
    assert_eq!(code, Some(7));
    assert!(!is_answered(cluster.dns(gone), Transport::Udp, SILENT_FOR));
}

#[test]
fn a_node_that_was_stopped_when_it_was_removed_ends_when_it_goes_on() {
    let cluster = Cluster::start("paused", 3, &[]);
    cluster.settle();
    let gone = cluster.leader() % 3 + 1;
    let pid = cluster.pid(gone).unwrap();
    kill("STOP", pid);
    // Through the leader: the command might first ask the stopped node.
    let path = format!("/v1/nodes?node={gone}");
    let done = http::request(cluster.api(cluster.leader()), "DELETE", &path, Some(&cluster.token()), b"").unwrap();
    assert_eq!(done.status, 200, "{}", done.text());
    std::thread::sleep(Duration::from_millis(500));
    kill("CONT", pid);
    cluster.wait_for_line(&format!("node {gone} was removed from the cluster"));
}

#[test]
fn a_node_is_removed_by_a_majority_that_needs_it() {
    // A majority of four is three, so the removed node itself must acknowledge its removal. Of the three that stay, two
    // are enough.
    let cluster = Cluster::start("needed", 4, &[]);
    cluster.settle();
    let leader = cluster.leader();
    let mut others = cluster.ids().filter(|id| *id != leader);
    let (dead, gone) = (others.next().unwrap(), others.next().unwrap());
    kill("KILL", cluster.pid(dead).unwrap());
    cluster.wait_for_line(&format!("node {dead} exited"));
    remove(&cluster, gone);
    cluster.wait_for_line(&format!("node {gone} was removed from the cluster"));
    let added = cluster.run(&["key", "add", "after"]);
    assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
}
