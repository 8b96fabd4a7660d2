//! Packet workers from the kernel's view: their priority, their sockets, and the datagrams dropped before they read
//! them.

use crate::client_protection::{self, LATE};
use crate::support::cluster::{Cluster, kill, wait_for};
use crate::support::message::name;
use crate::support::netns::Namespace;
use crate::support::tools::has;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use wire::builder::MessageBuilder;
use wire::number::Rtype;

/// Datagrams for a stopped node: more than its sockets can hold, whatever buffer size the kernel grants.
const FLOOD: u64 = 60_000;
/// Sockets that send them, so that each worker receives some.
const SENDERS: usize = 16;
/// Workers of a node on any machine, and client ports that query it.
const WORKERS: usize = 4;
const FLOWS: usize = 256;
/// Further queries from one of the ports. Their answers fit the client's default buffer.
const AGAIN: usize = 64;

/// SCHED_IDLE (sched(7)).
const IDLE: i64 = 5;

/// The name, the nice value and the scheduling policy of each thread (proc(5): fields 19 and 41 of `stat`).
pub(crate) fn threads(pid: u32) -> Vec<(String, i64, i64)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // Skips a thread that has ended meanwhile.
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    let thread = |stat: String| {
        let (head, rest) = stat.rsplit_once(") ").unwrap();
        let field = |number: usize| rest.split(' ').nth(number - 3).unwrap().parse().unwrap();
        (head.split_once('(').unwrap().1.to_owned(), field(19), field(41))
    };
    stats.map(thread).collect()
}

#[test]
fn packet_workers_have_a_lower_priority_than_the_replica() {
    let cluster = Cluster::start_encrypted("nice", 1);
    let threads = threads(cluster.pid(1).unwrap());
    let (_, usual, _) = *threads.iter().find(|(name, ..)| name == "replica").unwrap();
    let mut lowered = 0;
    for (name, nice, policy) in &threads {
        // Also the threads that read and write data in the background.
        let lower = ["udp-", "tcp-", "update-", "external-", "transfers", "peers-strangers", "api", "bulk", "reads"];
        let answers = lower.iter().any(|start| name.starts_with(start));
        lowered += usize::from(answers);
        // API threads that read zone files also have the idle policy.
        let is_idle = ["idle", "scrub"].contains(&name.as_str());
        assert!((*policy == IDLE) == is_idle || name == "api", "{name}: {threads:?}");
        let wanted = match name.as_str() {
            "api" | "peers-strangers" => 10,
            _ if answers => 5,
            _ => 0,
        };
        // 19 is the lowest priority.
        assert_eq!((usual + wanted).min(19), *nice, "{name}: {threads:?}");
    }
    assert!(lowered >= 4 && threads.iter().any(|(name, ..)| name == "idle"), "{threads:?}");
}

#[test]
fn datagrams_dropped_by_the_kernel_are_counted() {
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
    // Datagrams that are not QUIC packets use buffer space too.
    flood(cluster.dot(1));
    kill("CONT", pid);
    // Loopback loses nothing. A datagram that did not arrive was dropped at a socket.
    let (mut arrived, mut dropped) = (0, 0);
    wait_for("each datagram to be counted", || {
        (arrived, dropped) = (requests() - before, cluster.metric(1, &of("udp")));
        (arrived + dropped >= FLOOD).then_some(())
    });
    assert_eq!(arrived + dropped, FLOOD);
    assert!(arrived > 0 && dropped > 0, "{arrived} arrived, {dropped} were dropped");
    let at_quic = cluster.metric(1, &of("doq"));
    assert!(at_quic > 0 && at_quic < FLOOD, "{at_quic}");
    // By address and worker: each worker received a share.
    let own = format!("address=\"{}\",worker=\"0\"", cluster.dns(1));
    assert!(cluster.metric(1, &format!("{},{own}", of("udp"))) > 0);
}

/// Bytes that wait in each of a process's UDP sockets at an IPv4 address, by inode (proc_pid_net(5)).
fn waiting(pid: u32, address: SocketAddr) -> BTreeMap<u64, u64> {
    let own: BTreeSet<u64> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .filter_map(|file| std::fs::read_link(file.unwrap().path()).ok())
        .filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
        .collect();
    let SocketAddr::V4(address) = address else { panic!("{address}") };
    let local = format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port());
    let table = std::fs::read_to_string(format!("/proc/{pid}/net/udp")).unwrap();
    let rows = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[1] == local)
        .map(|row| (row[9].parse().unwrap(), u64::from_str_radix(row[4].split_once(':').unwrap().1, 16).unwrap()))
        .filter(|(inode, _)| own.contains(inode))
        .collect()
}

#[test]
fn each_worker_has_its_own_socket_and_a_share_of_the_flows() {
    let mut cluster = Cluster::start("flows", 1, &[]);
    cluster.end("TERM");
    cluster.configure(1, "\nudp_workers = 0\n", &format!("\nudp_workers = {WORKERS}\n"));
    cluster.resume(&[]);
    let (pid, server) = (cluster.pid(1).unwrap(), cluster.dns(1));
    let workers: BTreeSet<String> =
        threads(pid).into_iter().map(|(name, ..)| name).filter(|name| name.starts_with("udp-")).collect();
    assert_eq!(workers.len(), WORKERS, "{workers:?}");
    assert_eq!(waiting(pid, server).values().copied().collect::<Vec<_>>(), [0; WORKERS]);

    // While the node is stopped, queries wait in the sockets that the kernel chose.
    let clients: Vec<UdpSocket> = (0..FLOWS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let query = |id: usize| MessageBuilder::query(id as u16, name("www.example.test.").as_ref(), Rtype::A).build();
    let ask = |client: usize, id: usize| assert!(clients[client].send_to(&query(id), server).is_ok());
    kill("STOP", pid);
    (0..FLOWS).for_each(|client| ask(client, client));
    let spread = waiting(pid, server);
    // More queries from one port: they all go to the same worker.
    (0..AGAIN).for_each(|id| ask(0, FLOWS + id));
    let after = waiting(pid, server);
    kill("CONT", pid);
    let all: u64 = spread.values().sum();
    // A fair share is a quarter. A sixteenth is more than seven standard deviations below it.
    assert!(spread.values().all(|bytes| bytes * 16 > all), "{spread:?}");
    let grown = spread.iter().filter(|(inode, bytes)| after[inode] > **bytes).count();
    assert_eq!(grown, 1, "{spread:?} became {after:?}");

    // Every socket is read: all queries are answered.
    for (client, socket) in clients.iter().enumerate() {
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut bytes = [0; 512];
        let wanted = if client == 0 { 1 + AGAIN } else { 1 };
        for _ in 0..wanted {
            let (_, from) = socket.recv_from(&mut bytes).unwrap_or_else(|error| panic!("flow {client}: {error}"));
            assert_eq!((from, bytes[3] & 0x0F, bytes[7]), (server, 0, 1));
        }
    }
}

/// RFC 2181 4.1: a response comes from the address that was queried. Loopback has one IPv6 address, from which the
/// kernel would respond anyway. Here there are two, and the kernel would choose one.
#[test]
fn an_ipv6_wildcard_socket_answers_from_the_queried_address() {
    if !has("dig") || !has("nsupdate") {
        return;
    }
    let Some(namespace) = Namespace::make() else { return };
    let Some((here, _there)) = namespace.add_ipv6() else { return };
    let mut segments = here.segments();
    segments[7] = 9;
    let second = Ipv6Addr::from(segments);
    namespace.add_near_address(second);
    let (cluster, _nodes, server) = client_protection::start("every-address", Ipv6Addr::UNSPECIFIED, &[], &[]);
    let questions = cluster.dir.join("questions");
    std::fs::write(&questions, "example.test. SOA\n".repeat(3)).unwrap();
    for address in [here, second] {
        // `dig` ignores a response from another address.
        let printed = namespace.dig(SocketAddr::from((address, server.port())), &[LATE, "+notcp"], &questions);
        assert_eq!(printed.matches("status: NOERROR").count(), 3, "{address}: {printed}");
        // The outcome of an update is not sent by the thread that received it.
        let script = cluster.dir.join("script");
        let update = format!("server {address} {}\nupdate add n.example.test 60 A 192.0.2.1\nsend\n", server.port());
        std::fs::write(&script, update).unwrap();
        let key = cluster.dir.join("update.key");
        let mut nsupdate = namespace.command("nsupdate");
        let output = nsupdate.args(["-t", "20", "-k"]).args([&key, &script]).output().unwrap();
        assert!(output.status.success(), "{address}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
