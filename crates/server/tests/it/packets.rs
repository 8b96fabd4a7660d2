//! Packet workers as the kernel sees them: what precedence they have, and what was dropped before they saw it.

use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::message::name;
use std::net::UdpSocket;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Datagrams for a node that sleeps: more than its sockets can hold, whatever the kernel grants them.
const FLOOD: u64 = 60_000;
/// Sockets that send them, so that each worker gets some.
const SENDERS: usize = 16;

/// The name and the nice value of each thread (proc(5): field 19 of `stat`).
fn threads(pid: u32) -> Vec<(String, i64)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // One that has ended meanwhile is none.
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let thread = |stat: String| {
        let (head, rest) = stat.rsplit_once(") ").unwrap();
        let nice = rest.split(' ').nth(16).unwrap().parse().unwrap();
        (head.split_once('(').unwrap().1.to_owned(), nice)
    };
    stats.map(thread).collect()
}

#[test]
fn threads_that_answer_queries_give_way_to_the_replica() {
    let cluster = Cluster::start_encrypted("nice", 1);
    let threads = threads(cluster.pid(1).unwrap());
    let (_, usual) = *threads.iter().find(|(name, _)| name == "replica").unwrap();
    let mut lowered = 0;
    for (name, nice) in &threads {
        let answers = ["udp-", "tcp-", "update-", "external-", "api"].iter().any(|start| name.starts_with(start));
        lowered += usize::from(answers);
        // 19 is the lowest. Threads of the API that read zone files give way to the others.
        let wanted = if answers { [5, if name == "api" { 15 } else { 5 }] } else { [0, 0] };
        assert!(wanted.iter().any(|step| (usual + step).min(19) == *nice), "{name}: {threads:?}");
    }
    assert!(lowered >= 2, "{threads:?}");
}

#[test]
fn what_the_kernel_drops_at_a_socket_is_counted() {
    let cluster = Cluster::start_encrypted("drops", 1);
    let of = |transport: &str| format!("catamaran_udp_socket_drops_total{{transport=\"{transport}\"");
    let requests = || cluster.metric(1, "catamaran_requests_total{transport=\"udp\"}");
    assert_eq!((cluster.metric(1, &of("udp")), cluster.metric(1, &of("doq"))), (0, 0));
    let before = requests();
    let senders: Vec<UdpSocket> = (0..SENDERS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let query = MessageBuilder::query(1, name("www.example.test.").as_ref(), Rtype::A).build();
    let flood = |to| {
        for sender in senders.iter().cycle().take(FLOOD as usize) {
            assert_eq!(sender.send_to(&query, to).unwrap(), query.len());
        }
    };
    let pid = cluster.pid(1).unwrap();
    kill("STOP", pid);
    flood(cluster.dns(1));
    // What is no packet of QUIC needs room all the same.
    flood(cluster.dot(1));
    kill("CONT", pid);
    // Loopback loses nothing: what did not arrive was dropped at a socket.
    let (mut arrived, mut dropped) = (0, 0);
    wait_for("each datagram to be counted", || {
        (arrived, dropped) = (requests() - before, cluster.metric(1, &of("udp")));
        (arrived + dropped >= FLOOD).then_some(())
    });
    assert_eq!(arrived + dropped, FLOOD);
    assert!(arrived > 0 && dropped > 0, "{arrived} arrived, {dropped} were dropped");
    let at_quic = cluster.metric(1, &of("doq"));
    assert!(at_quic > 0 && at_quic < FLOOD, "{at_quic}");
    // By address and worker: each of them has its share.
    let own = format!("address=\"{}\",worker=\"0\"", cluster.dns(1));
    assert!(cluster.metric(1, &format!("{},{own}", of("udp"))) > 0);
}
